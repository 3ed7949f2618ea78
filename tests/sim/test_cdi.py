"""The node's CDI specs with the simulated driver: a real child asks NVML, files are an installer's."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.sim.plugin_node import VERSION, PluginNode

from gpuready.node.root import Root
from gpuready.operands.toolkit.settings import Settings
from gpuready.operands.toolkit.specs import Specs
from gpuready_sim.hardware import driver_tree, machine, mig

DEADLINE_S = 60
HOOK = "usr/local/nvidia/toolkit/nvidia-cdi-hook"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PluginNode:
    built = PluginNode(tmp_path, gpus=2)
    for name, value in built.env().items():
        monkeypatch.setenv(name, value)
    return built


def spec(node: PluginNode, name: str = "nvidia.com-gpu.json") -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((node.root / "run/cdi" / name).read_text())
    except FileNotFoundError:
        return {"devices": []}
    return found


def names(node: PluginNode) -> list[str]:
    return [device["name"] for device in spec(node)["devices"]]


def cdi(node: PluginNode, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuready.cli", "cdi", *words, "--host-root", str(node.root)]
    return subprocess.run(
        command, env={**os.environ, **node.env()}, capture_output=True, text=True, timeout=60
    )


async def until(holds: Callable[[], bool]) -> None:
    """inotify tells the product; the test looks as often as it must."""
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await asyncio.sleep(0.05)


async def test_the_toolkit_writes_specs_follows_mig_and_driver_and_cleans_up(node: PluginNode) -> None:
    specs = Specs(Settings(records_dir="/run/gpuready/records"), Root(node.container))
    specs.keep()
    try:
        await until((node.root / "run/gpuready/records/cdi.json").exists)
        assert names(node) == []
        node.install()
        first, second = node.uuids()
        await until(lambda: names(node) == ["0", "1", *sorted((first, second)), "all"])
        assert spec(node)["containerEdits"]["hooks"][0]["path"] == f"/{HOOK}"

        with node.gpus() as state:
            made = mig.layout(state, 1, ["1g.5gb", "3g.20gb"])
        (node.root / "dev/nvidia-caps").mkdir()  # as nvidia-modprobe does for new instances
        await until(lambda: names(node) == sorted(["0", "1:0", "1:1", first, *made, "all"]))
        assert cdi(node, "check").returncode == 0

        driver_tree.update_driver(node.root, "570.86.10")
        await until(lambda: "its module" in json.dumps(record(node)))
        assert "550.163.01" in json.dumps(spec(node))  # the last good one, which is told to be stale
        reason = f"the driver's library is 570.86.10 and its module {VERSION}"
        kept = record(node)["kinds"]["nvidia.com/gpu"]
        assert (kept["stale"], kept["reason"]) == (True, reason)
        stale = cdi(node, "check")
        assert stale.returncode == 1
        assert reason in stale.stdout
    finally:
        await specs.remove()

    assert list((node.root / "run/cdi").iterdir()) == []
    assert not (node.root / HOOK).exists()


def record(node: PluginNode) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((node.root / "run/gpuready/records/cdi.json").read_text())
    return found


def test_generate_prints_the_spec_and_write_puts_it_there(node: PluginNode) -> None:
    node.install()
    printed = cdi(node, "generate")
    written = cdi(node, "generate", "--write")
    again = cdi(node, "generate", "--write")

    assert printed.returncode == 0, printed.stderr
    assert yaml.safe_load(printed.stdout) == spec(node)
    assert "written    /var/run/cdi/nvidia.com-gpu.json  nvidia.com/gpu, 5 devices" in written.stdout
    assert "unchanged  /var/run/cdi/nvidia.com-gpu.json  nvidia.com/gpu, 5 devices" in again.stdout
    assert cdi(node, "resolve", f"management.nvidia.com/gpu={node.uuids()[0]}").returncode == 0


def test_generate_while_the_driver_is_not_loaded_says_so(node: PluginNode) -> None:
    driver_tree.install_driver(node.root, VERSION)
    done = cdi(node, "generate")

    assert done.returncode == 2
    assert "why   NVML does not answer: " in done.stderr
    assert "DriverNotLoaded" in done.stderr


def test_a_gpu_with_mig_on_and_no_partitions_is_told(node: PluginNode) -> None:
    node.install()
    with node.gpus() as state:
        mig.layout(state, 0, [])
    done = cdi(node, "generate", "-o", "json", "--device-name-strategy", "index")

    assert done.returncode == 1
    assert [device["name"] for device in json.loads(done.stdout)["devices"]] == ["1", "all"]
    assert f"left out: {node.uuids()[0]}: MIG is on and it has no partitions\n" in done.stderr


def test_after_an_unload_management_names_no_gpu_that_is_gone(node: PluginNode) -> None:
    node.install()
    cdi(node, "generate", "--write")
    machine.unload_driver(node.folder)
    done = cdi(node, "generate", "--write")

    assert done.returncode == 2
    assert "stale: management.nvidia.com/gpu: all: there is no device node /dev/nvidia*" in done.stderr
