"""Where the runtime of a node is, by what only its distribution has."""

from __future__ import annotations

import pytest

from gpuready.errors import UsageError
from gpuready.operands.toolkit.layouts import layout_of
from gpuready.operands.toolkit.settings import Settings


@pytest.mark.parametrize(
    ("evidence", "name", "config", "socket", "service"),
    [
        (
            "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
            "k3s",
            "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
            "/run/k3s/containerd/containerd.sock",
            "k3s",
        ),
        (
            "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
            "RKE2",
            "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
            "/run/k3s/containerd/containerd.sock",
            "rke2-agent",
        ),
        (
            "/var/lib/k0s/bin/containerd",
            "k0s",
            "/etc/k0s/containerd.toml",
            "/run/k0s/containerd.sock",
            "k0sworker",
        ),
        (
            "/var/snap/microk8s/current/args/containerd-template.toml",
            "microk8s",
            "/var/snap/microk8s/current/args/containerd-template.toml",
            "/var/snap/microk8s/common/run/containerd.sock",
            "snap.microk8s.daemon-containerd",
        ),
        ("/run/crio/crio.sock", "CRI-O", "/etc/crio/crio.conf", "/run/crio/crio.sock", "crio"),
        (
            "/nothing",
            "containerd",
            "/etc/containerd/config.toml",
            "/run/containerd/containerd.sock",
            "containerd",
        ),
    ],
)
def test_a_layout_is_known_by_a_file_that_only_it_has(evidence, name, config, socket, service):
    found = layout_of(Settings(), lambda path: path == evidence)

    assert (found.name, found.config, found.socket, found.service) == (name, config, socket, service)


def test_what_the_policy_says_is_laid_over_the_layout():
    env = {"RUNTIME": "containerd", "CONTAINERD_CONFIG": "/x/config.toml", "CONTAINERD_SOCKET": "/x/sock"}

    found = layout_of(Settings.from_env(env), lambda path: False)

    assert (found.config, found.socket) == ("/x/config.toml", "/x/sock")


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"RUNTIME": "podman"}, "RUNTIME=podman"),
        ({"RUNTIME_RESTART_MODE": "reboot"}, "RUNTIME_RESTART_MODE=reboot"),
        ({"RUNTIME_CONFIG": "../../etc/passwd"}, "RUNTIME_CONFIG=../../etc/passwd"),
        ({"RUNTIME_CONFIG": "/etc/containerd/\nx"}, "RUNTIME_CONFIG=/etc/containerd/"),
        ({"CDI_ENABLED": "maybe"}, "CDI_ENABLED=maybe"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused_by_name(env, said):
    with pytest.raises(UsageError) as refused:
        Settings.from_env(env)

    assert refused.value.what.startswith(said)
