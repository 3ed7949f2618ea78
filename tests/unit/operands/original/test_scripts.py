"""The shell texts that stand between the originals' programs and the gates: really run, on a directory."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.unit.operands.original.recorded import plan_of_record

DRIVER_READY = """\
IS_HOST_DRIVER=true
NVIDIA_DRIVER_ROOT=/
DRIVER_ROOT_CTR_PATH=/host
"""


class Host:
    """A directory in the place of the node's; programs print their name, arguments and environment."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.gates = root / "run/nvidia/validations"
        self.gates.mkdir(parents=True)
        (root / "bin").mkdir()

    def program(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def module(self, name: str) -> None:
        (self.root / "sys/module" / name).mkdir(parents=True)

    def start(self, text: str, *args: str) -> subprocess.Popen[str]:
        script = self.root / "script.sh"
        script.write_text(
            text.replace("/run/nvidia", f"{self.root}/run/nvidia").replace("/sys/", f"{self.root}/sys/")
        )
        path = f"{self.root}/bin:{os.environ['PATH']}"
        return subprocess.Popen(
            ["sh", str(script), *args], env={"PATH": path}, stdout=subprocess.PIPE, text=True
        )


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def config(name: str, key: str = "entrypoint.sh") -> str:
    text: str = _object("ConfigMap", name)["data"][key]
    return text


def argument(daemonset: str, container: str) -> str:
    pod = _object("DaemonSet", daemonset)["spec"]["template"]["spec"]
    found = [
        each for each in [*pod.get("initContainers", []), *pod["containers"]] if each["name"] == container
    ]
    text: str = found[0]["args"][0]
    return text


def _object(kind: str, name: str) -> Any:
    objects = [obj for each in plan_of_record("P08").operands for obj in each.objects]
    return next(obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == (kind, name))


def test_a_pod_waits_for_the_toolkit_says_so_and_goes_on_when_the_gate_opens(host: Host) -> None:
    host.program("sleep", 'touch "$(dirname "$0")/../run/nvidia/validations/toolkit-ready"')
    waiting = host.start(argument("nvidia-device-plugin-daemonset", "toolkit-validation"))
    told, _ = waiting.communicate(timeout=30)
    assert waiting.returncode == 0
    assert "waiting for the container toolkit" in told
    assert "toolkit-ready is not there" in told


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("nvidia-container-toolkit-entrypoint", "nvidia-toolkit"),
        ("nvidia-device-plugin-entrypoint", "nvidia-device-plugin"),
        ("nvidia-mig-manager-entrypoint", "nvidia-mig-manager"),
    ],
)
def test_a_program_starts_with_what_the_gate_says_of_the_driver(host: Host, name: str, program: str) -> None:
    (host.gates / "driver-ready").write_text(DRIVER_READY)
    host.program("sleep", "exit 0")
    host.program(program, 'echo "args=$*"; env')
    told, _ = host.start(config(name), "--one", "two words").communicate(timeout=30)
    lines = told.splitlines()
    assert "args=--one two words" in lines
    assert {"IS_HOST_DRIVER=true", "NVIDIA_DRIVER_ROOT=/", "DRIVER_ROOT_CTR_PATH=/host"} <= set(lines)
    if program == "nvidia-mig-manager":
        assert "WITH_SHUTDOWN_HOST_GPU_CLIENTS=true" in lines


def test_the_device_plugin_learns_from_loaded_modules_what_the_policy_leaves_open(host: Host) -> None:
    (host.gates / "driver-ready").write_text(DRIVER_READY + "GDRCOPY_ENABLED=false\n")
    host.module("gdrdrv")
    host.module("nvidia_fs")
    host.program("nvidia-device-plugin", "env")
    told, _ = host.start(config("nvidia-device-plugin-entrypoint")).communicate(timeout=30)
    assert {"GDRCOPY_ENABLED=false", "GDS_ENABLED=true", "MOFED_ENABLED=true"} <= set(told.splitlines())


def test_the_driver_is_ready_when_its_module_is_loaded_and_nvidia_smi_answers(host: Host) -> None:
    text = config("nvidia-driver-startup-probe", "startup-probe.sh")
    host.program("nvidia-smi", "exit 0")
    assert host.start(text).wait(timeout=30) != 0, "no module"
    host.module("nvidia")
    (host.root / "sys/module/nvidia/refcnt").touch()
    assert host.start(text).wait(timeout=30) == 0
    assert (host.gates / ".driver-ctr-ready").read_text().splitlines() == [
        "GDRCOPY_ENABLED: false",
        "GDS_ENABLED: false",
        "GPU_DIRECT_RDMA_ENABLED: false",
    ]


def test_one_more_module_is_built_when_the_drivers_is_loaded_and_its_sources_are_there(host: Host) -> None:
    host.program("lsmod", 'echo "Module Size Used by"; echo "nvidia 1 0"')
    host.program("sleep", 'mkdir -p "$(dirname "$0")/../run/nvidia/driver/usr/src"')
    host.program("nvidia-gdrcopy-driver", 'echo "gdrcopy $*"')
    told, _ = host.start(argument("nvidia-driver-daemonset", "nvidia-gdrcopy-ctr")).communicate(timeout=30)
    assert told.splitlines() == ["waiting for the driver", "gdrcopy install"]
