"""Init containers with the validator's image: what other programs wait for before they start. Pure."""

from __future__ import annotations

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import ClusterView, KubeObject
from gpuready.operands.daemonset import BIDIRECTIONAL, HOST_TO_CONTAINER
from gpuready.operands.original.containers import (
    AS_ROOT,
    NAMESPACE,
    SELINUX_S0,
    Env,
    Image,
    container,
    host_path,
    install_dir_of,
    mount,
    user_env,
)
from gpuready.operands.original.scripts import VALIDATIONS, WAIT_FOR_TOOLKIT

WRITE_GATES = mount("run-nvidia-validations", VALIDATIONS, propagation=BIDIRECTIONAL)
READ_GATES = mount("run-nvidia-validations", VALIDATIONS, propagation=HOST_TO_CONTAINER)
RUN_NVIDIA = mount("run-nvidia", "/run/nvidia", propagation=HOST_TO_CONTAINER)
HOST_READ_ONLY = mount("host-root", "/host", propagation=HOST_TO_CONTAINER, read_only=True)
DRIVER_ROOT = mount("driver-install-dir", "/driver-root", propagation=HOST_TO_CONTAINER)


def validations_volume() -> KubeObject:
    return host_path("run-nvidia-validations", VALIDATIONS, "DirectoryOrCreate")


def validator_image(policy: ClusterPolicy, view: ClusterView) -> Image:
    return Image.of(policy, view, "validator")


def driver_validation(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    """Waits until the driver works, on the host or in its container, and opens the gate driver-ready."""
    install_dir = install_dir_of(policy)
    env: dict[str, str | KubeObject] = {
        "WITH_WAIT": "true",
        "COMPONENT": "driver",
        "OPERATOR_NAMESPACE": NAMESPACE,
    }
    if install_dir != "/run/nvidia/driver":
        env |= {"DRIVER_INSTALL_DIR": install_dir, "DRIVER_INSTALL_DIR_CTR_PATH": install_dir}
    return container(
        "driver-validation",
        validator_image(policy, view),
        command=["sh", "-c"],
        args=["nvidia-validator"],
        env={**env, **user_env(policy.spec.validator.driver.env)},
        securityContext={**AS_ROOT, **SELINUX_S0},
        mounts=[
            mount("driver-install-dir", install_dir, propagation=HOST_TO_CONTAINER),
            WRITE_GATES,
            HOST_READ_ONLY,
            mount("host-dev-char", "/host-dev-char"),
        ],
    )


def wait_for_toolkit(policy: ClusterPolicy, view: ClusterView, gates: KubeObject) -> KubeObject:
    """Waits for the gate toolkit-ready. gates: the mount that shows it."""
    env: Env = user_env(policy.spec.validator.toolkit.env)
    return container(
        "toolkit-validation",
        validator_image(policy, view),
        command=["sh", "-c"],
        args=[WAIT_FOR_TOOLKIT],
        env=env,
        securityContext=AS_ROOT,
        mounts=[gates],
    )
