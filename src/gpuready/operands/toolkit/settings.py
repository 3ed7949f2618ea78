"""What the policy means for the toolkit; written by the manifest, read by the daemon.

Names and defaults of the first group are the original installer's, so that a policy's `env` keeps working;
paths are the host's. "" = find out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from gpuready import names
from gpuready.errors import UsageError

CONTAINERD, CRIO, DOCKER = "containerd", "crio", "docker"
RUNTIMES = (CONTAINERD, CRIO, DOCKER)
SIGNAL, SYSTEMD, NONE = "signal", "systemd", "none"
RESTART_MODES = (SIGNAL, SYSTEMD, NONE)


@dataclass(frozen=True)
class Settings:
    """Environment of the daemon.

    runtime          containerd, crio or docker
    config, drop_in, socket, program   of the runtime, on the host
    restart_mode     how the runtime is told of a new configuration
    handler          name of the handler that pods use, and the RuntimeClass with it
    as_default       pods without a RuntimeClass use it, too
    cdi              the runtime injects CDI devices; the handlers are then the node's own low-level runtime
    low_level        programs to put behind the handlers, the first that the host has; names or paths
    install_dir      where NVIDIA's own runtime lies on the host, used without CDI
    driver_root      where on the host the driver lies
    driver_install_dir   where a driver's container puts it, while `driver_root` leaves that open
    library_dirs     folders of its libraries, where no search finds them
    restart_s        how long a restarted runtime may take to know the handlers
    """

    runtime: str = ""
    config: str = ""
    drop_in: str = ""
    socket: str = ""
    program: str = ""
    restart_mode: str = ""
    handler: str = "nvidia"
    as_default: bool = False
    cdi: bool = True
    low_level: tuple[str, ...] = ("runc", "crun")
    install_dir: str = "/usr/local/nvidia"
    driver_root: str = ""
    driver_install_dir: str = names.DRIVER_INSTALL_DIR
    library_dirs: tuple[str, ...] = ()
    pid_file: str = "/run/nvidia/toolkit/toolkit.pid"
    journal: str = names.TOOLKIT_JOURNAL
    gates_dir: str = ""
    desired_dir: str = ""
    records_dir: str = ""
    node_name: str = ""
    pod_ip: str = ""
    health_port: int = names.TOOLKIT_HEALTH_PORT
    restart_s: float = 60.0

    def to_env(self) -> dict[str, str]:
        """Only what differs from the default."""
        defaults = type(self)()
        changed = [
            field.name for field in fields(self) if getattr(self, field.name) != getattr(defaults, field.name)
        ]
        return {_ENV[name][0]: _text_of(getattr(self, name)) for name in changed}

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """raises UsageError naming variable, value and what is allowed."""
        runtime = env.get("RUNTIME") or _meant_by(env)
        found: dict[str, Any] = {}
        for name, variables in _ENV.items():
            for variable in (f"{runtime.upper()}_{variables[0].removeprefix('RUNTIME_')}", *variables):
                if text := env.get(variable, ""):
                    found[name] = _parse(variable, text, _KINDS.get(name, str))
                    break
        settings = cls(**found)
        _check_words(settings)
        return settings


# The first is the one that is written. Each may also be given for one runtime: CONTAINERD_CONFIG.
_ENV = {
    "runtime": ("RUNTIME",),
    "config": ("RUNTIME_CONFIG",),
    "drop_in": ("RUNTIME_DROP_IN_CONFIG",),
    "socket": ("RUNTIME_SOCKET",),
    "program": ("RUNTIME_EXECUTABLE_PATH",),
    "restart_mode": ("RUNTIME_RESTART_MODE",),
    "handler": ("NVIDIA_RUNTIME_NAME", "CONTAINERD_RUNTIME_CLASS"),
    "as_default": ("NVIDIA_RUNTIME_SET_AS_DEFAULT", "CONTAINERD_SET_AS_DEFAULT"),
    "cdi": ("CDI_ENABLED",),
    "low_level": ("NVIDIA_CONTAINER_RUNTIME_RUNTIMES",),
    "install_dir": ("ROOT",),
    "driver_root": ("NVIDIA_DRIVER_ROOT",),
    "driver_install_dir": ("DRIVER_INSTALL_DIR",),
    "library_dirs": ("GPUREADY_LIBRARY_DIRS",),
    "pid_file": ("TOOLKIT_PID_FILE",),
    "journal": ("GPUREADY_TOOLKIT_JOURNAL",),
    "gates_dir": (names.GATES_DIR_ENV,),
    "desired_dir": (names.DESIRED_DIR_ENV,),
    "records_dir": (names.RECORDS_DIR_ENV,),
    "node_name": ("NODE_NAME",),
    "pod_ip": ("POD_IP",),
    "health_port": ("GPUREADY_HEALTH_PORT",),
    "restart_s": ("GPUREADY_TOOLKIT_RESTART_S",),
}
_KINDS: dict[str, type] = {
    "as_default": bool,
    "cdi": bool,
    "low_level": tuple,
    "library_dirs": tuple,
    "health_port": int,
    "restart_s": float,
}  # the others are text
_LONGEST_S = 3600.0
_HANDLER = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")  # as of a RuntimeClass
_WORDS = {"runtime": ("", *RUNTIMES), "restart_mode": ("", *RESTART_MODES)}
PATHS = (
    *("config", "drop_in", "socket", "program", "install_dir"),
    *("driver_root", "driver_install_dir", "journal", "pid_file"),
)


def _meant_by(env: Mapping[str, str]) -> str:
    """Whose variables are set, where nothing else says which runtime it is; "" = unclear."""
    suffixes = [names[0].removeprefix("RUNTIME") for names in _ENV.values() if names[0][:8] == "RUNTIME_"]
    meant = [each for each in RUNTIMES if any(env.get(f"{each.upper()}{suffix}") for suffix in suffixes)]
    return meant[0] if len(meant) == 1 else ""


def _parse(variable: str, text: str, kind: type) -> Any:
    if kind is tuple:
        return tuple(word.strip() for word in text.split(",") if word.strip())
    if kind is bool:
        word = text.strip().lower()
        if word not in ("true", "false", "1", "0"):
            raise UsageError(f"{variable}={text}", why="allowed are true and false")
        return word in ("true", "1")
    try:
        return kind(text)
    except ValueError as exc:
        raise UsageError(f"{variable}={text}", why="it must be a number") from exc


def _check_words(settings: Settings) -> None:
    for name, allowed in _WORDS.items():
        value = getattr(settings, name)
        if value not in allowed:
            listed = ", ".join(word for word in allowed if word)
            raise UsageError(f"{_ENV[name][0]}={value}", why=f"allowed are {listed}")
    if not 0 < settings.restart_s <= _LONGEST_S:
        why = f"it must be more than 0 and at most {_LONGEST_S:g} seconds"
        raise UsageError(f"{_ENV['restart_s'][0]}={settings.restart_s:g}", why=why)
    if not 0 < settings.health_port < 65_536:
        raise UsageError(f"{_ENV['health_port'][0]}={settings.health_port}", why="ports are 1 to 65535")
    if not _HANDLER.fullmatch(settings.handler):
        why = "a handler's name is of small letters, digits, - and ."
        raise UsageError(f"{_ENV['handler'][0]}={settings.handler!r}", why=why)
    for name in PATHS:
        value = getattr(settings, name)
        if value and (not value.startswith("/") or ".." in value.split("/") or not value.isprintable()):
            raise UsageError(f"{_ENV[name][0]}={value}", why='it must be an absolute path without ".."')


def _text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)
