"""Where each distribution of Kubernetes keeps its container runtime. Pure; data.

A layout is recognised by a file that only it has. What is not known by a layout is as upstream has it.

Source: node-chain.md §3.1; the distributions' own documentation (docs/reference/runtimes.md names each).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuready.operands.toolkit.settings import CONTAINERD, CRIO, DOCKER, SIGNAL, SYSTEMD, Settings

# The distribution watches the directory of our drop-in and restarts its containerd, and nothing else, when a
# file there changes (k0s since 1.27.1). Where no file changes, its service is restarted.
ITSELF = "itself"


@dataclass(frozen=True)
class Layout:
    """evidence  paths, each of which gives it away; config is the file to change, which is the daemon's
    root, or a template that the distribution makes the root from
    read        the file that the daemon reads in the end; "" = config itself
    service     unit that a restart by systemd restarts
    traces      paths that tell of it where no runtime gives itself away: it is down
    """

    name: str
    runtime: str
    config: str
    drop_in: str
    socket: str
    service: str
    programs: tuple[str, ...] = ()
    restart_mode: str = SIGNAL
    evidence: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()


def _rancher(name: str, folder: str, service: str, socket: str) -> Layout:
    agent = f"{folder}/agent/etc/containerd"
    return Layout(
        name,
        CONTAINERD,
        f"{agent}/config.toml",
        f"{agent}/config.toml.d/99-nvidia.toml",
        socket,
        service,
        programs=(f"{folder}/data/current/bin/containerd", f"{folder}/bin/containerd"),
        restart_mode=SYSTEMD,
        evidence=(f"{agent}/config.toml",),
    )


LAYOUTS: tuple[Layout, ...] = (
    _rancher("k3s", "/var/lib/rancher/k3s", "k3s", "/run/k3s/containerd/containerd.sock"),
    _rancher("RKE2", "/var/lib/rancher/rke2", "rke2-agent", "/run/k3s/containerd/containerd.sock"),
    Layout(
        "k0s",
        CONTAINERD,
        "/etc/k0s/containerd.toml",
        "/etc/k0s/containerd.d/99-nvidia.toml",
        "/run/k0s/containerd.sock",
        "k0sworker",
        programs=("/var/lib/k0s/bin/containerd",),
        restart_mode=ITSELF,
        evidence=("/etc/k0s/containerd.toml", "/var/lib/k0s/bin/containerd"),
    ),
    Layout(
        "microk8s",
        CONTAINERD,
        "/var/snap/microk8s/current/args/containerd-template.toml",
        "/var/snap/microk8s/current/args/containerd.d/99-nvidia.toml",
        "/var/snap/microk8s/common/run/containerd.sock",
        "snap.microk8s.daemon-containerd",
        programs=("/snap/microk8s/current/bin/containerd",),
        restart_mode=SYSTEMD,
        evidence=("/var/snap/microk8s/current/args/containerd-template.toml",),
    ),
    Layout(
        "CRI-O",
        CRIO,
        "/etc/crio/crio.conf",
        "/etc/crio/crio.conf.d/99-nvidia.conf",
        "/run/crio/crio.sock",
        "crio",
        programs=("/usr/bin/crio", "/usr/local/bin/crio"),
        restart_mode=SYSTEMD,
        evidence=("/run/crio/crio.sock",),
        traces=("/etc/crio/crio.conf", "/etc/crio/crio.conf.d"),
    ),
    Layout(
        "containerd",
        CONTAINERD,
        "/etc/containerd/config.toml",
        "/etc/containerd/conf.d/99-nvidia.toml",
        "/run/containerd/containerd.sock",
        "containerd",
        programs=(
            "/usr/bin/containerd",
            "/usr/local/bin/containerd",
            "/opt/bin/containerd",
            "/bin/containerd",
        ),
        evidence=("/run/containerd/containerd.sock", "/etc/containerd/config.toml"),
    ),
    Layout(
        "Docker",
        DOCKER,
        "/etc/docker/daemon.json",
        "",
        "/run/docker.sock",
        "docker",
        programs=("/usr/bin/dockerd",),
        evidence=("/run/docker.sock", "/etc/docker/daemon.json"),
    ),
)
_UPSTREAM = {layout.runtime: layout for layout in LAYOUTS if layout.name in ("containerd", "CRI-O", "Docker")}


def layout_of(settings: Settings, exists: Callable[[str], bool]) -> Layout:
    """The node's layout, with what the settings say laid over it.

    exists  is there such a path on the host?
    """
    fitting = [each for each in LAYOUTS if settings.runtime in ("", each.runtime)]
    found = next((each for each in fitting if any(map(exists, each.evidence))), None)
    found = found or next((each for each in fitting if any(map(exists, each.traces))), None)
    layout = found or _UPSTREAM[settings.runtime or CONTAINERD]
    if settings.config:
        layout = found if found and found.config == settings.config else _UPSTREAM[layout.runtime]
    return Layout(
        layout.name,
        layout.runtime,
        settings.config or layout.config,
        settings.drop_in or layout.drop_in,
        settings.socket or layout.socket,
        layout.service,
        (settings.program,) if settings.program else layout.programs,
        settings.restart_mode or layout.restart_mode,
        layout.evidence,
    )
