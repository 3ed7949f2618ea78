"""Containers beside the driver's: peer memory for RDMA, GPUDirect Storage, GDRCopy. Pure.

Source: gpu-operator v26.3.3, object_controls.go transformPeerMemoryContainer, transformGDSContainer,
transformGDRCopyContainer.
"""

from __future__ import annotations

from gpuready.api import images
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import ClusterView, KubeObject
from gpuready.operands.daemonset import BIDIRECTIONAL, HOST_TO_CONTAINER
from gpuready.operands.driver import host_files
from gpuready.operands.driver.pools import Pool
from gpuready.operands.original.containers import (
    PRIVILEGED,
    SELINUX_S0,
    Image,
    container,
    mount,
    user_env,
)
from gpuready.operands.original.scripts import install_module

_SECURITY = {**PRIVILEGED, **SELINUX_S0}
_LOGS = [mount("var-log", "/var/log"), mount("dev-log", "/dev/log", read_only=True)]


def of(policy: ClusterPolicy, view: ClusterView, pool: Pool) -> list[KubeObject]:
    """Those that the policy enables."""
    containers = []
    if policy.spec.driver.rdma.enabled:
        containers.append(_peer_memory(policy, view, pool))
    if policy.spec.gds.enabled:
        containers.append(_module(policy, view, pool, "gds", "nvidia-fs-ctr", "nvidia_fs"))
    if policy.spec.gdrcopy.enabled:
        containers.append(_module(policy, view, pool, "gdrcopy", "nvidia-gdrcopy-ctr", "gdrdrv"))
    return containers


def image_of(policy: ClusterPolicy, view: ClusterView, pool: Pool, component: str) -> Image:
    """The image for one pool: its tag names the operating system, and the kernel of a precompiled driver."""
    image = Image.of(policy, view, component)
    kernel = pool.kernel if component == "driver" else ""
    return Image(images.with_os_tag(image.reference, pool.os_tag, kernel=kernel), image.pull_policy)


def host_mofed_env(policy: ClusterPolicy) -> dict[str, str]:
    """The network driver is the host's."""
    return {"USE_HOST_MOFED": "true"} if policy.spec.driver.rdma.use_host_mofed else {}


def _peer_memory(policy: ClusterPolicy, view: ClusterView, pool: Pool) -> KubeObject:
    """Loads nvidia-peermem; it is part of the driver's image."""
    check: KubeObject = {"exec": {"command": ["sh", "-c", "nvidia-driver probe_nvidia_peermem"]}}
    return container(
        "nvidia-peermem-ctr",
        image_of(policy, view, pool, "driver"),
        command=["nvidia-driver"],
        args=["reload_nvidia_peermem"],
        env=host_mofed_env(policy),
        resources=policy.spec.driver.resources,
        securityContext=_SECURITY,
        startupProbe={**check, **_EVERY_TEN_SECONDS},
        livenessProbe={
            **check,
            "initialDelaySeconds": 30,
            "periodSeconds": 30,
            "timeoutSeconds": 10,
            "failureThreshold": 1,
        },
        mounts=[
            mount("run-nvidia", "/run/nvidia", propagation=BIDIRECTIONAL),
            *_LOGS,
            mount("run-mellanox-drivers", "/run/mellanox/drivers", propagation=HOST_TO_CONTAINER),
            *host_files.kernel_modules(policy, view).mounts,
        ],
    )


def _module(
    policy: ClusterPolicy, view: ClusterView, pool: Pool, component: str, name: str, module: str
) -> KubeObject:
    """Builds and loads one more kernel module when the driver's is loaded and its sources are there."""
    block = policy.spec.gds if component == "gds" else policy.spec.gdrcopy
    return container(
        name,
        image_of(policy, view, pool, component),
        command=["bash", "-xc"],
        args=[install_module(component)],
        env=user_env(block.env),
        resources=policy.spec.driver.resources,
        securityContext=_SECURITY,
        startupProbe={
            "exec": {"command": ["sh", "-c", f"lsmod | grep {module}"]},
            **_EVERY_TEN_SECONDS,
        },
        mounts=[
            mount("run-nvidia", "/run/nvidia", propagation=HOST_TO_CONTAINER),
            *_LOGS,
            *host_files.packages(policy, view, pool).mounts,
        ],
        **host_files.secret_env(policy),
    )


_EVERY_TEN_SECONDS = {
    "initialDelaySeconds": 10,
    "periodSeconds": 10,
    "timeoutSeconds": 10,
    "failureThreshold": 120,
}
