"""What the policy means for the device plugin; written by the manifest, read by the daemon.

Names and defaults of the first group are the original plugin's, so that a policy's `env` keeps working.
None means "not set": the configuration file then decides, and the default after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from gpuready import names
from gpuready.errors import UsageError

ENVVAR, VOLUME_MOUNTS, CDI_ANNOTATIONS, CDI_CRI = "envvar", "volume-mounts", "cdi-annotations", "cdi-cri"
LIST_STRATEGIES = (ENVVAR, VOLUME_MOUNTS, CDI_ANNOTATIONS, CDI_CRI)
UUID, INDEX = "uuid", "index"
ID_STRATEGIES = (UUID, INDEX)
MIG_STRATEGIES = ("none", "single", "mixed")
FLAG_INFOROM, EXCLUDE_INFOROM = "flag", "exclude"

DEFAULT_LIST_STRATEGY = (ENVVAR,)
DEFAULT_ANNOTATION_PREFIX = "cdi.k8s.io/"
DEFAULT_HOOK_PATH = "/usr/bin/nvidia-ctk"


@dataclass(frozen=True)
class Settings:
    """Environment of the daemon.

    fail_on_init_error is read and has no effect: without a driver the daemon always waits and says why
    driver_root        "/" or the driver container's directory, as the host names it; None finds out
    device_list_strategy  how a container learns of its GPUs, in order
    gds, gdrcopy, mofed   what containers get beside their GPUs; None = where the kernel's module is loaded
    imex_channels      likewise; only channel 0 is known
    config_file        a configuration (YAML or JSON); not read when `desired_dir` is set
    gates_dir, desired_dir  "" = there is no node agent: wait for nothing
    inforom            a GPU with a corrupted infoROM is handed out and flagged ("flag"), or unhealthy
    clean_probes       in a row, one a `probe_s`, end an unknown trouble
    pod_ip             where to answer probes; "" = every address
    """

    mig_strategy: str | None = None
    fail_on_init_error: bool | None = None
    driver_root: str | None = None
    dev_root: str | None = None
    device_list_strategy: tuple[str, ...] | None = None
    device_id_strategy: str | None = None
    pass_device_specs: bool | None = None
    cdi_annotation_prefix: str | None = None
    cdi_hook_path: str | None = None
    gds: bool | None = None
    gdrcopy: bool | None = None
    mofed: bool | None = None
    imex_channels: tuple[str, ...] | None = None
    imex_required: bool | None = None
    config_file: str = ""
    kubelet_socket: str = f"{names.PLUGIN_DIR}/{names.KUBELET_SOCKET}"
    cdi_file: str = names.PLUGIN_CDI_FILE
    gates_dir: str = ""
    desired_dir: str = ""
    records_dir: str = ""
    node_name: str = ""
    pod_ip: str = ""
    health_port: int = names.DEVICE_PLUGIN_HEALTH_PORT
    inforom: str = FLAG_INFOROM
    clean_probes: int = 60
    probe_s: float = 1.0
    inventory_s: float = 60.0
    silent_s: float = 5.0
    disable_health_checks: str = ""
    enable_health_checks: str = ""

    def to_env(self) -> dict[str, str]:
        """Only what differs from the default."""
        defaults = type(self)()
        changed = [
            field.name for field in fields(self) if getattr(self, field.name) != getattr(defaults, field.name)
        ]
        return {_ENV[name]: _text_of(getattr(self, name)) for name in changed}

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """raises UsageError naming variable, value and what is allowed."""
        found: dict[str, Any] = {}
        for name, variable in _ENV.items():
            text = env.get(variable) or _under_another_name(variable, env)
            if text:
                found[name] = _parse(variable, text, _KINDS.get(name, str))
        settings = cls(**found)
        _check_words(settings)
        return settings


_ENV = {
    "mig_strategy": "MIG_STRATEGY",
    "fail_on_init_error": "FAIL_ON_INIT_ERROR",
    "driver_root": "NVIDIA_DRIVER_ROOT",
    "dev_root": "NVIDIA_DEV_ROOT",
    "device_list_strategy": "DEVICE_LIST_STRATEGY",
    "device_id_strategy": "DEVICE_ID_STRATEGY",
    "pass_device_specs": "PASS_DEVICE_SPECS",
    "cdi_annotation_prefix": "CDI_ANNOTATION_PREFIX",
    "cdi_hook_path": "NVIDIA_CDI_HOOK_PATH",
    "gds": "GDS_ENABLED",
    "gdrcopy": "GDRCOPY_ENABLED",
    "mofed": "MOFED_ENABLED",
    "imex_channels": "IMEX_CHANNEL_IDS",
    "imex_required": "IMEX_REQUIRED",
    "config_file": "CONFIG_FILE",
    "kubelet_socket": "KUBELET_SOCKET",
    "cdi_file": "GPUREADY_CDI_FILE",
    "gates_dir": names.GATES_DIR_ENV,
    "desired_dir": names.DESIRED_DIR_ENV,
    "records_dir": names.RECORDS_DIR_ENV,
    "node_name": "NODE_NAME",
    "pod_ip": "POD_IP",
    "health_port": "GPUREADY_HEALTH_PORT",
    "inforom": "GPUREADY_INFOROM",
    "clean_probes": "GPUREADY_CLEAN_PROBES",
    "probe_s": "GPUREADY_PROBE_S",
    "inventory_s": "GPUREADY_INVENTORY_S",
    "silent_s": "GPUREADY_NVML_SILENT_S",
    "disable_health_checks": "DP_DISABLE_HEALTHCHECKS",
    "enable_health_checks": "DP_ENABLE_HEALTHCHECKS",
}
_ALIASES = {"NVIDIA_CDI_HOOK_PATH": "NVIDIA_CTK_PATH", "POD_IP": "GPUREADY_HEALTH_ADDRESS"}
_KINDS: dict[str, type] = {
    "fail_on_init_error": bool,
    "pass_device_specs": bool,
    "device_list_strategy": tuple,
    "gds": bool,
    "gdrcopy": bool,
    "mofed": bool,
    "imex_channels": tuple,
    "imex_required": bool,
    "health_port": int,
    "clean_probes": int,
    "probe_s": float,
    "inventory_s": float,
    "silent_s": float,
}  # the others are text
_WORDS = {
    "mig_strategy": MIG_STRATEGIES,
    "device_list_strategy": LIST_STRATEGIES,
    "device_id_strategy": ID_STRATEGIES,
    "imex_channels": ("0",),
    "inforom": (FLAG_INFOROM, EXCLUDE_INFOROM),
}


def _under_another_name(variable: str, env: Mapping[str, str]) -> str:
    return env.get(_ALIASES[variable], "") if variable in _ALIASES else ""


def words_of(text: str) -> tuple[str, ...]:
    """ "envvar, cdi-cri" -> ("envvar", "cdi-cri")."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _parse(variable: str, text: str, kind: type) -> Any:
    if kind is tuple:
        return words_of(text)
    if kind is bool:
        return _parse_bool(variable, text)
    try:
        return kind(text)
    except ValueError as exc:
        raise UsageError(f"{variable}={text}", why="it must be a number") from exc


def _parse_bool(variable: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false", "1", "0"):
        raise UsageError(f"{variable}={text}", why="allowed are true and false")
    return word in ("true", "1")


def _check_words(settings: Settings) -> None:
    for name, allowed in _WORDS.items():
        value = getattr(settings, name)
        for word in value if isinstance(value, tuple) else (value,):
            if word is not None and word not in allowed:
                raise UsageError(f"{_ENV[name]}={word}", why=f"allowed are {', '.join(allowed)}")


def _text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)
