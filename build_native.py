"""Build hook: compiles the simulator's C parts with `cc` into src/gpuready_sim/_native/."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build_module = Path(self.root, "src/gpuready_sim/nvml/build.py")
        spec = importlib.util.spec_from_file_location("gpuready_sim_nvml_build", build_module)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.build(Path(self.root, "src/gpuready_sim"))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
