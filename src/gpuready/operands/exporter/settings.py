"""What the policy means for the exporter; written by the manifest, read by the daemon.

Flags, environment names and defaults are the original's, those without its prefix too, so that a policy's
`env` keeps working; its flags are in `flags.py`.

Source: dcgm-exporter 4.5.3-4.8.2, pkg/cmd/app.go:139-372.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from gpuready import names
from gpuready.errors import UsageError

COUNTERS_DIR = "/etc/dcgm-exporter"
DEFAULT_COUNTERS = f"{COUNTERS_DIR}/default-counters.csv"
# Files of the original's image; ours has the same lists built in.
BUILT_IN = (DEFAULT_COUNTERS, f"{COUNTERS_DIR}/dcp-metrics-included.csv")
UID, DEVICE_NAME = "uid", "device-name"
# Which pod a device's own series name: none; the one that holds it alone; the first of several by name;
# a copy of each series for every pod.
NONE, EXCLUSIVE, FIRST, VIRTUAL_GPUS = "none", "exclusive", "first", "virtual-gpus"
POD_VIEWS = (NONE, EXCLUSIVE, FIRST, VIRTUAL_GPUS)
# Where values come from: NVML; DCGM and nothing in its place; DCGM, and NVML where DCGM has no value.
NVML, DCGM, AUTO = "nvml", "dcgm", "auto"
SOURCES = (NVML, DCGM, AUTO)
SOURCE_VARIABLE = "GPUREADY_EXPORTER_SOURCE"


@dataclass(frozen=True)
class Settings:
    """Environment of the daemon.

    address          HOST:PORT; an empty host means every address (of the pod, where `pod_ips` says which)
    interval_ms      between two collections
    devices          which GPUs and instances: f, g[:LIST], i[:LIST]
    source           one of SOURCES; "" is `auto` where a host engine is named, and else `nvml`
    remote_engine    DCGM's host engine: HOST, HOST:PORT or unix:///PATH; "" is one in this process, if any
    csv_strict       a bad line of the CSV is fatal
    pod_view         one of POD_VIEWS
    hostname_label   name of the label with the node's name, if `no_hostname` does not leave it out
    mapping_max_s    what the kubelet said counts no longer, once it is older
    driver_root      as the gate or the host names it; None finds out
    """

    collectors: str = DEFAULT_COUNTERS
    address: str = ":9400"
    interval_ms: int = 30_000
    kubernetes: bool = False
    pod_labels: bool = False
    pod_uid: bool = False
    pod_label_allowlist: tuple[str, ...] = ()
    gpu_id_type: str = UID
    virtual_gpus: bool = False
    dra: bool = True
    kubelet_socket: str = names.POD_RESOURCES_SOCKET
    resource_names: tuple[str, ...] = ()
    hpc_job_dir: str = ""
    old_namespace: bool = False
    remote_engine: str = ""
    devices: str = "f"
    switch_devices: str = "f"
    cpu_devices: str = "f"
    no_hostname: bool = False
    web_config_file: str = ""
    systemd_socket: bool = False
    xid_window_ms: int = 300_000
    clock_events_window_ms: int = 300_000
    replace_blanks: bool = False
    debug: bool = False
    log_format: str = "text"
    # --- ours
    source: str = ""
    csv_strict: bool = False
    pod_view: str = EXCLUSIVE
    hostname_label: str = "Hostname"
    mig_repeat_gpu_fields: bool = False
    mapping_max_s: float = 600.0
    driver_root: str | None = None
    gates_dir: str = ""
    records_dir: str = ""
    node_name: str = ""
    pod_ips: tuple[str, ...] = ()
    health_port: int = names.EXPORTER_HEALTH_PORT

    @property
    def host_and_port(self) -> tuple[str, int]:
        """raises  UsageError"""
        host, colon, port = self.address.rpartition(":")
        if not (colon and port.isascii() and port.isdigit() and int(port) < 65536):
            why = "it must be HOST:PORT or :PORT"
            raise UsageError(f"DCGM_EXPORTER_LISTEN={self.address}", why=why, next_step="write it like :9400")
        return host.strip("[]"), int(port)

    @property
    def interval_s(self) -> float:
        return self.interval_ms / 1000

    @property
    def source_in_use(self) -> str:
        return self.source or (AUTO if self.remote_engine else NVML)

    @property
    def engine(self) -> EngineAddress | None:
        """None: an engine in this process. raises  UsageError"""
        return EngineAddress.parse(self.remote_engine) if self.remote_engine else None

    @property
    def engine_host(self) -> str:
        """Another machine whose GPUs are shown, for the label with its name; "" for this one.

        Source: dcgm-exporter 4.5.3-4.8.2, internal/pkg/hostname.
        """
        engine = self.engine
        if engine is None or engine.is_socket or self.kubernetes or self.source_in_use == NVML:
            return ""
        return "" if engine.host in ("localhost", "::1") or engine.host.startswith("127.") else engine.host

    @property
    def view(self) -> str:
        """The original's flag asks for what is one of our four."""
        return VIRTUAL_GPUS if self.virtual_gpus else self.pod_view

    def to_env(self) -> dict[str, str]:
        """Only what differs from the default."""
        defaults = type(self)()
        changed = [
            field.name for field in fields(self) if getattr(self, field.name) != getattr(defaults, field.name)
        ]
        return {_VARIABLES[name]: _text_of(getattr(self, name)) for name in changed}

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """raises UsageError naming variable, value and what is allowed."""
        found: dict[str, Any] = {}
        for name, variable in _VARIABLES.items():
            if text := env.get(variable, ""):
                found[name] = _KINDS.get(name, _as_text)(variable, text)
        settings = cls(**found)
        _check(settings)
        return settings


@dataclass(frozen=True)
class EngineAddress:
    """Where an engine of DCGM listens: "host", "host:port" or, `is_socket`, the path of a unix socket."""

    address: str
    is_socket: bool = False

    @property
    def host(self) -> str:
        host, colon, port = self.address.rpartition(":")
        return (host if colon and port.isdigit() else self.address).strip("[]")

    @classmethod
    def parse(cls, text: str) -> Self:
        """raises  UsageError

        Source: dcgm-exporter 4.5.3-4.8.2, --remote-hostengine-info (HOST:PORT); DCGM v4.6.0, dcgmConnect_v3
        (tcp://, unix://).
        """
        address = text.strip().removeprefix("tcp://")
        path = address.removeprefix("unix://")
        if path.startswith("/"):
            return cls(path, True)
        host, colon, port = (address, "", "") if address.endswith("]") else address.rpartition(":")
        is_port = port.isascii() and port.isdigit() and 0 < int(port) < 65536
        if not address or "/" in address or (colon and not (host and is_port)):
            raise UsageError(
                f"{_VARIABLES['remote_engine']}={text}",
                why="it must be HOST, HOST:PORT or unix:///PATH",
                next_step="write it like nvidia-dcgm:5555",
            )
        return cls(address)


def words_of(text: str) -> tuple[str, ...]:
    """ "a, b" -> ("a", "b")."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


_VARIABLES = {
    "collectors": "DCGM_EXPORTER_COLLECTORS",
    "address": "DCGM_EXPORTER_LISTEN",
    "interval_ms": "DCGM_EXPORTER_INTERVAL",
    "kubernetes": "DCGM_EXPORTER_KUBERNETES",
    "pod_labels": "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS",
    "pod_uid": "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID",
    "pod_label_allowlist": "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX",
    "gpu_id_type": "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE",
    "virtual_gpus": "KUBERNETES_VIRTUAL_GPUS",
    "dra": "KUBERNETES_ENABLE_DRA",
    "kubelet_socket": "DCGM_POD_RESOURCES_KUBELET_SOCKET",
    "resource_names": "NVIDIA_RESOURCE_NAMES",
    "hpc_job_dir": "DCGM_HPC_JOB_MAPPING_DIR",
    "old_namespace": "DCGM_EXPORTER_USE_OLD_NAMESPACE",
    "remote_engine": "DCGM_REMOTE_HOSTENGINE_INFO",
    "devices": "DCGM_EXPORTER_DEVICES_STR",
    "switch_devices": "DCGM_EXPORTER_OTHER_DEVICES_STR",
    "cpu_devices": "DCGM_EXPORTER_CPU_DEVICES_STR",
    "no_hostname": "DCGM_EXPORTER_NO_HOSTNAME",
    "web_config_file": "DCGM_EXPORTER_WEB_CONFIG_FILE",
    "systemd_socket": "DCGM_EXPORTER_SYSTEMD_SOCKET",
    "xid_window_ms": "DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE",
    "clock_events_window_ms": "DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE",
    "replace_blanks": "DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME",
    "debug": "DCGM_EXPORTER_DEBUG",
    "log_format": "DCGM_EXPORTER_LOG_FORMAT",
    "source": SOURCE_VARIABLE,
    "csv_strict": "GPUREADY_EXPORTER_STRICT",
    "pod_view": "GPUREADY_EXPORTER_POD_VIEW",
    "hostname_label": "GPUREADY_EXPORTER_HOSTNAME_LABEL",
    "mig_repeat_gpu_fields": "GPUREADY_EXPORTER_MIG_REPEAT_GPU_FIELDS",
    "mapping_max_s": "GPUREADY_EXPORTER_MAPPING_MAX_S",
    "driver_root": "NVIDIA_DRIVER_ROOT",
    "gates_dir": names.GATES_DIR_ENV,
    "records_dir": names.RECORDS_DIR_ENV,
    "node_name": "NODE_NAME",
    "pod_ips": "POD_IPS",
    "health_port": "GPUREADY_HEALTH_PORT",
}


def _as_text(variable: str, text: str) -> str:
    return text


def _as_words(variable: str, text: str) -> tuple[str, ...]:
    return words_of(text)


def _as_bool(variable: str, text: str) -> bool:
    """The words of Go's strconv.ParseBool."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise UsageError(f"{variable}={text}", why="allowed are true and false", next_step="correct the value")


def _as_number(kind: type, low: float, high: float = 1e12) -> Callable[[str, str], Any]:
    def parse(variable: str, text: str) -> Any:
        try:
            number = kind(text)
        except ValueError as exc:
            raise UsageError(
                f"{variable}={text}", why="it must be a number", next_step="correct the value"
            ) from exc
        if not low <= number <= high:
            allowed = f"at least {low:g}" if number < low else f"at most {high:g}"
            raise UsageError(f"{variable}={text}", why=f"it must be {allowed}", next_step="correct the value")
        return number

    return parse


_KINDS: Mapping[str, Callable[[str, str], Any]] = {
    "interval_ms": _as_number(int, 100),
    "xid_window_ms": _as_number(int, 0),
    "clock_events_window_ms": _as_number(int, 0),
    "health_port": _as_number(int, 0, 65_535),
    "mapping_max_s": _as_number(float, 0),
    **dict.fromkeys(("pod_label_allowlist", "resource_names", "pod_ips"), _as_words),
    **dict.fromkeys(
        (
            *("kubernetes", "pod_labels", "pod_uid", "virtual_gpus", "dra", "old_namespace", "no_hostname"),
            *("systemd_socket", "replace_blanks", "debug", "csv_strict", "mig_repeat_gpu_fields"),
        ),
        _as_bool,
    ),
}
_WORDS: Mapping[str, Iterable[str]] = {
    "gpu_id_type": (UID, DEVICE_NAME),
    "pod_view": POD_VIEWS,
    "source": ("", *SOURCES),
    "log_format": ("text", "json"),
}


def _check(settings: Settings) -> None:
    _ = settings.host_and_port
    _ = settings.engine
    for pattern in settings.pod_label_allowlist:
        try:
            re.compile(pattern)
        except re.error as exc:
            why = f"{pattern} is no regular expression: {exc}"
            raise UsageError(_VARIABLES["pod_label_allowlist"], why=why, next_step="correct it") from exc
    _check_hostname_label(settings.hostname_label)
    for name, allowed in _WORDS.items():
        value = getattr(settings, name)
        if value not in allowed:
            raise UsageError(
                f"{_VARIABLES[name]}={value}",
                why=f"allowed are {', '.join(filter(None, allowed))}",
                next_step="correct the value",
            )


def _check_hostname_label(name: str) -> None:
    is_name = re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name) and not name.startswith("__")
    if name and (not is_name or name in _OTHER_LABELS):
        why = "that label has another meaning" if is_name else "it must be a name that Prometheus takes"
        variable = _VARIABLES["hostname_label"]
        raise UsageError(f"{variable}={name}", why=why, next_step="name it Hostname or hostname")


_OTHER_LABELS = (
    *("gpu", "UUID", "uuid", "pci_bus_id", "device", "modelName", "GPU_I_PROFILE", "GPU_I_ID"),
    *("pod", "namespace", "container", "pod_name", "pod_namespace", "container_name", "pod_uid", "vgpu"),
)


def _text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)
