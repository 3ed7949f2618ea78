"""Our model of containerd's merging, held to what each real containerd makes of the same files."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.node.real_containerd import RELEASES, dump, program_of

from gpuready.operands.toolkit.containerd.merge import merge
from gpuready.operands.toolkit.containerd.plan import effective
from gpuready.operands.toolkit.containerd.rules import (
    CRI_IMAGES,
    CRI_RUNTIME,
    CRI_V1,
    CRI_V2,
    Rules,
    rules_of,
)
from gpuready.operands.toolkit.toml_file import table_text

EXAMPLES = 150


def _runtime(binary: str | None, cgroup: bool | None) -> dict:
    options = {"BinaryName": binary, "SystemdCgroup": cgroup}
    told = {key: value for key, value in options.items() if value is not None}
    return {"runtime_type": "io.containerd.runc.v2", **({"options": told} if told else {})}


runtimes = st.dictionaries(
    st.sampled_from(["runc", "nvidia", "kata"]),
    st.builds(_runtime, st.sampled_from([None, "/a", "/b"]), st.sampled_from([None, True, False])),
    max_size=2,
)
runtime_section = st.fixed_dictionaries(
    {},
    optional={
        "enable_cdi": st.booleans(),
        "cdi_spec_dirs": st.lists(st.sampled_from(["/etc/cdi", "/x"]), max_size=2, unique=True),
        "containerd": st.fixed_dictionaries(
            {"runtimes": runtimes}, optional={"default_runtime_name": st.just("runc")}
        ),
    },
)
image_section = st.fixed_dictionaries(
    {},
    optional={"registry": st.fixed_dictionaries({"config_path": st.sampled_from(["/r1", "/r2"])})},
)


def sections(newest: int) -> st.SearchStrategy[dict]:
    """Any sections under any names that some version has for them."""
    old = st.builds(
        lambda runtime, images, pause: {**runtime, **images, **pause},
        runtime_section,
        image_section,
        st.fixed_dictionaries({}, optional={"sandbox_image": st.sampled_from(["p1", "p2"])}),
    )
    named = {CRI_V2: old}
    if newest >= 3:
        named |= {CRI_RUNTIME: runtime_section, CRI_IMAGES: image_section}
    return st.fixed_dictionaries({}, optional=named)


@st.composite
def file_sets(draw: st.DrawFn, newest: int) -> list[tuple[int | None, dict]]:
    """(version, sections) of the root and of up to three drop-ins, in name order."""
    versions = st.sampled_from([None, *range(2, newest + 1)])
    roots = st.sampled_from([None, *range(2, newest + 1)])
    root = (draw(roots), draw(sections(newest)))
    if root[0] is None:
        root = (None, {CRI_V1: root[1][CRI_V2]} if CRI_V2 in root[1] else {})
    return [root, *draw(st.lists(st.tuples(versions, sections(newest)), max_size=3))]


@pytest.mark.parametrize("release", RELEASES)
def test_the_merge_model_says_what_the_daemon_says(release: str) -> None:
    program = program_of(release)
    rules = rules_of(release)
    assert rules is not None
    folder = Path(tempfile.mkdtemp(prefix="gpuready-merge-"))
    defaults = _defaults(program, folder, rules)

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(file_sets(rules.newest))
    def same(files: list[tuple[int | None, dict]]) -> None:
        root, texts = _written(folder, files)
        merged = merge(str(root), texts, rules)
        if merged.refusal:
            with pytest.raises(subprocess.CalledProcessError):
                dump(program, root)
            return
        said = dump(program, root)
        assert _of_dump(said, rules) == _of_model(merged, rules, defaults)

    try:
        same()
    finally:
        shutil.rmtree(folder)


def _written(folder: Path, files: list[tuple[int | None, dict]]) -> tuple[Path, dict[str, str]]:
    root, conf_d = folder / "config.toml", folder / "conf.d"
    shutil.rmtree(conf_d, ignore_errors=True)
    conf_d.mkdir()
    texts = {}
    for number, (version, tables) in enumerate(files):
        path = conf_d / f"{number}0.toml" if number else root
        head = f"version = {version}\n" if version else ""
        head += "" if number else f'imports = ["{conf_d}/*.toml"]\n'
        text = head + "".join(table_text(("plugins", name), table) for name, table in tables.items())
        path.write_text(text)
        texts[str(path)] = text
    return root, texts


def _defaults(program: Path, folder: Path, rules: Rules) -> dict:
    root = folder / "defaults.toml"
    root.write_text(f"version = {min(rules.newest, 3)}\n")
    return _of_dump(dump(program, root), rules)


def _of_dump(said: dict, rules: Rules) -> dict:
    plugins = said["plugins"]
    runtime = plugins[CRI_RUNTIME if rules.deep else CRI_V2]
    images = plugins[CRI_IMAGES] if rules.deep else runtime
    pause = images["pinned_images"]["sandbox"] if rules.deep else images["sandbox_image"]
    return {
        "handlers": {
            name: (
                table.get("options", {}).get("BinaryName", ""),
                bool(table.get("options", {}).get("SystemdCgroup")),
            )
            for name, table in runtime["containerd"].get("runtimes", {}).items()
        },
        "default": runtime["containerd"]["default_runtime_name"],
        "cdi": runtime.get("enable_cdi"),
        "dirs": runtime.get("cdi_spec_dirs"),
        "registry": images["registry"].get("config_path", ""),
        "pause": pause,
    }


def _of_model(merged, rules: Rules, defaults: dict) -> dict:
    runtime = effective(merged, rules)
    images = merged.plugins.get(CRI_IMAGES, {}) if rules.deep else merged.cri(rules)
    pause = images.get("pinned_images", {}).get("sandbox") if rules.deep else images.get("sandbox_image")
    return {
        "handlers": {
            name: (
                table.get("options", {}).get("BinaryName", ""),
                bool(table.get("options", {}).get("SystemdCgroup")),
            )
            for name, table in runtime["containerd"]["runtimes"].items()
        },
        "default": runtime["containerd"]["default_runtime_name"],
        "cdi": runtime.get("enable_cdi") if rules.knows_cdi else None,
        "dirs": runtime.get("cdi_spec_dirs", defaults["dirs"]) if rules.knows_cdi else None,
        "registry": images.get("registry", {}).get("config_path", defaults["registry"]),
        "pause": pause if pause is not None else defaults["pause"],
    }
