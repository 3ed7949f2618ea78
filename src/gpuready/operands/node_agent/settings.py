"""What the node agent is told by its environment; written by the manifest, read by the daemon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from gpuready import names
from gpuready.errors import UsageError

LABEL_SOURCE_ENV = "GPUREADY_LABEL_SOURCE"
INSTALL_DIR_ENV = "DRIVER_INSTALL_DIR"
LAST_KNOWN_DIR_ENV = "GPUREADY_LAST_KNOWN_DIR"
NVML_DEADLINE_ENV = "GPUREADY_NVML_DEADLINE_S"
CUDA_DEADLINE_ENV = "GPUREADY_CUDA_DEADLINE_S"
SETTLE_ENV = "GPUREADY_SETTLE_S"
NODE_NAME_ENV = "NODE_NAME"
POD_IP_ENV = "POD_IP"


class LabelSource(StrEnum):
    """Who writes the PCI, kernel and OS labels; AUTO = NFD where it already does, else the agent."""

    AUTO = "auto"
    AGENT = "agent"
    NFD = "nfd"


@dataclass(frozen=True)
class Settings:
    """Directories as this container sees them.

    nvml_deadline_s  how long NVML may take before the driver counts as hanging
    cuda_deadline_s  how long a small program may take on one GPU before CUDA counts as hanging there
    settle_s         how long plugin and kubelet may disagree before it counts (the kubelet writes its Node
                     about every 10 s)
    node_name, pod_ip   from the downward API; pod_ip "" = listen on every address
    """

    node_name: str = ""
    pod_ip: str = ""
    label_source: LabelSource = LabelSource.AUTO
    driver_install_dir: str = names.DRIVER_INSTALL_DIR
    gates_dir: str = names.GATES_DIR
    desired_dir: str = names.DESIRED_DIR
    records_dir: str = names.RECORDS_DIR
    last_known_dir: str = names.LAST_KNOWN_DIR
    nvml_deadline_s: float = 10.0
    cuda_deadline_s: float = 30.0
    settle_s: float = 15.0

    def to_env(self) -> dict[str, str]:
        """All but node name and pod address, which the manifest takes from the downward API."""
        return {
            LABEL_SOURCE_ENV: str(self.label_source),
            INSTALL_DIR_ENV: self.driver_install_dir,
            names.GATES_DIR_ENV: self.gates_dir,
            names.DESIRED_DIR_ENV: self.desired_dir,
            names.RECORDS_DIR_ENV: self.records_dir,
            LAST_KNOWN_DIR_ENV: self.last_known_dir,
            NVML_DEADLINE_ENV: repr(self.nvml_deadline_s),
            CUDA_DEADLINE_ENV: repr(self.cuda_deadline_s),
            SETTLE_ENV: repr(self.settle_s),
        }

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """raises  UsageError for a value that makes no sense"""
        standard = cls()
        return cls(
            node_name=env.get(NODE_NAME_ENV, ""),
            pod_ip=env.get(POD_IP_ENV, ""),
            label_source=_label_source(env.get(LABEL_SOURCE_ENV) or standard.label_source),
            driver_install_dir=env.get(INSTALL_DIR_ENV) or standard.driver_install_dir,
            gates_dir=env.get(names.GATES_DIR_ENV) or standard.gates_dir,
            desired_dir=env.get(names.DESIRED_DIR_ENV) or standard.desired_dir,
            records_dir=env.get(names.RECORDS_DIR_ENV) or standard.records_dir,
            last_known_dir=env.get(LAST_KNOWN_DIR_ENV) or standard.last_known_dir,
            nvml_deadline_s=_seconds(env, NVML_DEADLINE_ENV, standard.nvml_deadline_s),
            cuda_deadline_s=_seconds(env, CUDA_DEADLINE_ENV, standard.cuda_deadline_s),
            settle_s=_seconds(env, SETTLE_ENV, standard.settle_s),
        )


def _label_source(text: str) -> LabelSource:
    try:
        return LabelSource(text)
    except ValueError:
        allowed = ", ".join(LabelSource)
        raise UsageError(f"{LABEL_SOURCE_ENV}={text}", why=f"allowed are {allowed}") from None


def _seconds(env: Mapping[str, str], name: str, standard: float) -> float:
    text = env.get(name)
    if not text:
        return standard
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{name}={text}", why="a number of seconds is needed") from None
    if not value > 0:
        raise UsageError(f"{name}={text}", why="it must be more than 0")
    return value
