"""The short-lived process that asks NVML once, on a simulated node."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.sim.plugin_node import VERSION, PluginNode

from gpuready.gpu.inventory import Inventory
from gpuready_sim.hardware import driver_tree, machine


@pytest.fixture
async def node(tmp_path: Path) -> PluginNode:
    return PluginNode(tmp_path, gpus=4)


def ask(node: PluginNode, *, driver: str = "host") -> tuple[int, dict[str, Any]]:
    """(exit status, what was printed)"""
    command = [
        sys.executable,
        "-m",
        "gpuready.gpu.inventory_child",
        "--driver-root",
        str(node.container / driver),
    ]
    done = subprocess.run(command, env=node.env(), capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, json.loads(done.stdout)


def test_it_prints_the_inventory_and_lets_go(node: PluginNode) -> None:
    node.install()
    status, row = ask(node)

    inventory = Inventory.from_json(row["inventory"])
    assert (status, row["error"]) == (0, None)
    assert [gpu.uuid for gpu in inventory.gpus] == node.uuids()
    assert (inventory.driver_version, inventory.gpus[0].memory_mib) == (VERSION, 40960)
    assert (inventory.missing, inventory.failures) == ((), ())
    with node.gpus() as state:
        assert state.holders() == []


def test_c26_a_lost_gpu_and_a_corrupted_inforom_hide_no_other(node: PluginNode) -> None:
    node.install()
    with node.gpus() as state:
        state.set_lost(1)
        state.set_inforom_corrupt(2)
    status, row = ask(node)

    inventory = Inventory.from_json(row["inventory"])
    assert status == 0
    assert [gpu.index for gpu in inventory.gpus] == [0, 2, 3]
    assert inventory.gpus[1].inforom_valid is False
    assert [(f.index, f.name) for f in inventory.failures] == [(1, "GpuIsLost")]
    assert inventory.failures[0].pci_address


def test_each_refusal_has_its_status_and_versions(node: PluginNode) -> None:
    status, row = ask(node)
    assert (status, row["error"]["name"]) == (3, "LibraryNotFound")
    assert "/usr/lib64" in row["error"]["searched"]

    driver_tree.install_driver(node.root, VERSION)
    status, row = ask(node)
    assert (status, row["error"]["name"], row["error"]["library"]) == (4, "DriverNotLoaded", VERSION)

    machine.load_driver(node.folder, VERSION)
    driver_tree.update_driver(node.root, "570.86.10")
    status, row = ask(node)
    assert (status, row["error"]["code"]) == (5, 18)
    assert (row["error"]["library"], row["error"]["module"]) == ("570.86.10", VERSION)


def test_it_imports_no_event_loop(node: PluginNode) -> None:
    code = (
        "import sys, gpuready.gpu.inventory_child; print('asyncio' in sys.modules, 'pynvml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
