"""A machine as the agent sees it: a directory tree that stands for "/" of its container."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuready import names
from gpuready.chain.driver import NvmlAnswer, Probe
from gpuready.gpu.inventory import GPU, Failure, Inventory
from gpuready.gpu.proofs import Outcome, Proof
from gpuready.node.links import cuda as proving
from gpuready.node.links.cuda import CudaChild
from gpuready.node.links.driver import Answer, NvmlChild, listed_of

LIBRARIES = "usr/lib/x86_64-linux-gnu"


class Machine:
    """`gpus` NVIDIA cards and no driver; the methods are what happens to it."""

    def __init__(self, base: Path, gpus: int = 2, boot: str = "boot-1") -> None:
        self.base = base
        self.host = base / "host"
        self.count = gpus
        for index in range(gpus):
            device = self.host / f"sys/bus/pci/devices/{address_of(index)}"
            device.mkdir(parents=True)
            for name, text in {"vendor": "0x10de", "class": "0x030200", "device": "0x20b0"}.items():
                (device / name).write_text(f"{text}\n")
        (self.host / "sys/bus/pci/devices").mkdir(parents=True, exist_ok=True)
        self.write("etc/os-release", 'ID=ubuntu\nVERSION_ID="22.04"\n')
        self.write("proc/sys/kernel/osrelease", "5.15.0-116-generic\n")
        self.write("proc/sys/kernel/random/boot_id", f"{boot}\n")
        for directory in (names.GATES_DIR, names.DESIRED_DIR, names.RECORDS_DIR, names.LAST_KNOWN_DIR):
            (base / directory.lstrip("/")).mkdir(parents=True)

    def write(self, path: str, text: str) -> None:
        file = self.host / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def install_driver(self, version: str = "570.86.10", root: str = "") -> None:
        """User-space files; the link is moved last, as a package manager does."""
        folder = self.host / root / LIBRARIES
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"libnvidia-ml.so.{version}").write_text("library")
        link = folder / ".new"
        link.symlink_to(f"libnvidia-ml.so.{version}")
        os.replace(link, folder / "libnvidia-ml.so.1")
        self.write(f"{root}/usr/bin/nvidia-smi".lstrip("/"), "program")

    def load_module(self, version: str = "570.86.10") -> None:
        text = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Thu Nov 1 00:00:00 UTC 2026\n"
        self.write("proc/driver/nvidia/version", text)
        self.write("sys/module/nvidia/version", f"{version}\n")
        for name in ("nvidiactl", *(f"nvidia{index}" for index in range(self.count))):
            self.write(f"dev/{name}", "")

    def path(self, path: str) -> Path:
        return self.base / path.lstrip("/")

    def gate(self, name: str) -> Path:
        return self.path(f"{names.GATES_DIR}/{name}")

    def desired(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path(f"{names.DESIRED_DIR}/device-plugin.json").read_text())
        return found

    def write_record(
        self, *, unhealthy: dict[int, int] | None = None, boot: str = "boot-1", **changes: Any
    ) -> None:
        """The device plugin's record; `unhealthy` maps GPU index to XID."""
        ill = unhealthy or {}
        healthy = self.count - len(ill)
        row = {
            "operand": "device-plugin",
            "pid": 1,
            "bootId": boot,
            "registered": True,
            "resources": [{"name": "nvidia.com/gpu", "devices": self.count, "healthy": healthy}],
            "devices": [device_row(index, ill.get(index, 0)) for index in range(self.count)],
            "config": {"name": "", "digest": "", "error": None},
            "problem": None,
            "cdi": {"path": names.PLUGIN_CDI_FILE, "digest": "", "driverVersion": "570.86.10"},
            **changes,
        }
        file = self.path(f"{names.RECORDS_DIR}/device-plugin.json")
        temporary = file.with_suffix(".tmp")
        temporary.write_text(json.dumps(row))
        os.replace(temporary, file)


def device_row(index: int, xid: int = 0) -> dict[str, Any]:
    last = {"code": xid, "time": "2026-01-01T00:00:00Z", "action": "reset the GPU"} if xid else None
    return {
        "uuid": f"GPU-{index}",
        "index": index,
        "product": "NVIDIA A100-SXM4-40GB",
        "memoryMib": 40960,
        "health": "Unhealthy" if xid else "Healthy",
        "reason": f"XID {xid}" if xid else "",
        "lastXid": last,
        "replicas": 1,
    }


def address_of(index: int) -> str:
    return f"0000:{0x1A + index:02x}:00.0"


def inventory(count: int = 2, version: str = "570.86.10", failures: tuple[Failure, ...] = ()) -> Inventory:
    gpus = tuple(
        GPU(
            uuid=f"GPU-{index}",
            index=index,
            minor=index,
            pci_address=address_of(index),
            product="NVIDIA A100-SXM4-40GB",
            memory_mib=40960,
            compute_capability=(8, 0),
            mode="compute",
        )
        for index in range(count)
    )
    return Inventory(gpus=gpus, failures=failures, driver_version=version, cuda_version=(12, 8))


class FakeChild(NvmlChild):
    """NVML's answer as the test sets it; counts how often it was asked."""

    def __init__(self, answer: Inventory | NvmlAnswer) -> None:
        super().__init__()
        self.answer = answer
        self.asked = 0

    async def ask(self, driver_root: Path, kernel_root: Path) -> Answer:
        self.asked += 1
        if isinstance(self.answer, Inventory):
            return Answer(NvmlAnswer(Probe.ANSWERED, gpus=listed_of(self.answer)), self.answer)
        return Answer(self.answer)


class FakeCudaChild(CudaChild):
    """A program runs on every GPU but those of which the test says otherwise; `asked` is where it ran."""

    def __init__(self, **outcomes: Proof) -> None:
        super().__init__()
        self.outcomes = outcomes
        self.asked: list[list[str]] = []

    async def run(self, driver_root: Path, kernel_root: Path, uuids: Sequence[str]) -> proving.Answer:
        self.asked.append(list(uuids))
        proofs = [self.outcomes.get(uuid.replace("-", "_")) or Proof(uuid, Outcome.OK) for uuid in uuids]
        return proving.Answer(tuple(proofs), "570.86.10")


class HangingCudaChild(CudaChild):
    """No program ever returns; `running` is how many are waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.running = 0

    async def run(self, driver_root: Path, kernel_root: Path, uuids: Sequence[str]) -> proving.Answer:
        self.running += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.running -= 1
        raise AssertionError


def mismatch() -> NvmlAnswer:
    return NvmlAnswer(Probe.FAILED, code=18, text="nvmlInit answered DriverLibraryMismatch (18)")
