"""Build hook: compiles the C parts of product and simulator with `cc`, each into its own _native/."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PARTS = (
    # where it is told how, what it is built for
    ("src/gpuready/native/build.py", "src/gpuready"),
    ("src/gpuready_sim/nvml/build.py", "src/gpuready_sim"),
)


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        for build_file, package in PARTS:
            path = Path(self.root, build_file)
            spec = importlib.util.spec_from_file_location("gpuready_native_build", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            module.build(Path(self.root, package))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
