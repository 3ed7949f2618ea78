"""Where the container runtime keeps its configuration and its socket, and how the toolkit gets to see them.

Pure. The policy's env names paths on the host; the container sees the directories they lie in elsewhere, so
the variables are rewritten to the paths inside.

Source: gpu-operator v26.3.3, object_controls.go transformForRuntime, getRuntimeConfigFiles,
getRuntimeSocketFile.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuready.operands.contract import KubeObject
from gpuready.operands.original.containers import MADE_DIRECTORY, host_path, mount
from gpuready.operands.original.gpu_access import CONTAINERD, CRIO, DOCKER

_CONFIG_DIR, _DROP_IN_DIR = "/runtime/config-dir/", "/runtime/config-dir.d/"
_SOCKET_DIR, _NRI_SOCKET_DIR = "/runtime/sock-dir/", "/runtime/nri-sock-dir/"
_NRI_SOCKET = "/var/run/nri/nri.sock"


@dataclass(frozen=True)
class RuntimeFiles:
    """Paths on the host; "" = this runtime has none. prefix: of the variables that name them."""

    prefix: str
    config: str
    drop_in: str = ""
    socket: str = ""


_STANDARD = {
    CONTAINERD: RuntimeFiles(
        "CONTAINERD",
        "/etc/containerd/config.toml",
        "/etc/containerd/conf.d/99-nvidia.toml",
        "/run/containerd/containerd.sock",
    ),
    CRIO: RuntimeFiles("CRIO", "/etc/crio/config.toml", "/etc/crio/crio.conf.d/99-nvidia.conf"),
    DOCKER: RuntimeFiles("DOCKER", "/etc/docker/daemon.json", socket="/var/run/docker.sock"),
}


@dataclass(frozen=True)
class Seen:
    """What a file of the host becomes in the container."""

    env: Mapping[str, str] = field(default_factory=dict)
    volumes: tuple[KubeObject, ...] = ()
    mounts: tuple[KubeObject, ...] = ()


def files_of(runtime: str, env: Mapping[str, str]) -> RuntimeFiles:
    """env: what the policy says; it names the files under the runtime's own variables first."""
    standard = _STANDARD[runtime]
    own = standard.prefix
    drop_in = env.get("RUNTIME_DROP_IN_CONFIG") or standard.drop_in
    return RuntimeFiles(
        own,
        config=env.get(f"{own}_CONFIG") or env.get("RUNTIME_CONFIG") or standard.config,
        drop_in=drop_in if standard.drop_in else "",
        socket=env.get(f"{own}_SOCKET") or standard.socket if standard.socket else "",
    )


def config(runtime: str, files: RuntimeFiles) -> Seen:
    return _directory(
        f"{runtime}-config", files.config, _CONFIG_DIR, ("RUNTIME_CONFIG", f"{files.prefix}_CONFIG")
    )


def drop_in(runtime: str, files: RuntimeFiles) -> Seen:
    if not files.drop_in:
        return Seen()
    seen = _directory(f"{runtime}-drop-in-config", files.drop_in, _DROP_IN_DIR, ("RUNTIME_DROP_IN_CONFIG",))
    env = {**seen.env, "RUNTIME_DROP_IN_CONFIG_HOST_PATH": files.drop_in}
    return Seen(env, seen.volumes, seen.mounts)


def socket(runtime: str, files: RuntimeFiles) -> Seen:
    if not files.socket:
        return Seen()
    variables = ("RUNTIME_SOCKET", f"{files.prefix}_SOCKET")
    return _directory(f"{runtime}-socket", files.socket, _SOCKET_DIR, variables, kind="")


def nri_socket(env: Mapping[str, str]) -> Seen:
    path = env.get("NRI_SOCKET") or _NRI_SOCKET
    return _directory("nri-socket", path, _NRI_SOCKET_DIR, ("NRI_SOCKET",))


def config_source(env: Mapping[str, str]) -> dict[str, str]:
    """RUNTIME_CONFIG_SOURCE with the files of the host where the container sees them, below /host."""
    given = env.get("RUNTIME_CONFIG_SOURCE", "")
    if not given:
        return {}
    sources = [_in_container(each) for each in given.split(",")]
    return {"RUNTIME_CONFIG_SOURCE": ",".join(sources)}


def _in_container(source: str) -> str:
    kind, equals, path = source.partition("=")
    return f"file=/host/{path.lstrip('/')}" if equals and kind == "file" else source


def _directory(
    name: str, path: str, inside: str, variables: tuple[str, ...], *, kind: str = MADE_DIRECTORY
) -> Seen:
    """The directory of `path`, mounted at `inside`, and the variables that name the file in it."""
    return Seen(
        dict.fromkeys(variables, inside + posixpath.basename(path)),
        (host_path(name, posixpath.dirname(path), kind),),
        (mount(name, inside),),
    )
