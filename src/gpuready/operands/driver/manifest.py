"""(policy, view) -> the driver's objects: one DaemonSet per pool, its account and its startup probe. Pure.

The container comes without the driver manager: nothing is evicted, so a changed driver is taken up when
its pod is deleted (OnDelete).
"""

from __future__ import annotations

from gpuready import names
from gpuready.api import images
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import ClusterView, KubeObject
from gpuready.operands.daemonset import (
    BIDIRECTIONAL,
    DaemonSetShape,
    HostMount,
    block_fields,
    daemonset,
    env_list,
    service_account,
    with_resources,
    with_user_env,
)
from gpuready.operands.driver import host_files, startup_probe
from gpuready.operands.driver.digest import config_digest, told
from gpuready.operands.driver.host_files import Files
from gpuready.operands.driver.pools import COMPONENT, COMPONENT_LABEL, MARKS, Pool, app_of, name_of, pools_of

ACCOUNT = "nvidia-driver"
POOL_LABEL = "nvidia.com/node.os-version"


def is_enabled(policy: ClusterPolicy) -> bool:
    return policy.spec.driver.enabled and not policy.spec.driver.use_nvidia_driver_crd


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    """Account, probe script and one DaemonSet per operating system among the GPU nodes."""
    pools = pools_of(view, by_kernel=policy.spec.driver.use_precompiled)
    if not pools:
        return []
    daemonsets = [_daemonset(policy, view, pool, name_of(pool, pools, view)) for pool in pools]
    return [service_account(ACCOUNT, view), startup_probe.config(view), *daemonsets]


def _daemonset(policy: ClusterPolicy, view: ClusterView, pool: Pool, name: str) -> KubeObject:
    files = host_files.of_the_driver(policy, view, pool)
    container = _container(policy, view, pool, files)
    volumes = [*(mount.volume() for mount in _MOUNTS), startup_probe.volume(), *files.volumes]
    digest = config_digest([container], volumes)
    shape = DaemonSetShape(
        name=name,
        app=app_of(pool, name),
        operand="driver",
        containers=[told(digest, container)],
        node_selector={names.DEPLOY_DRIVER: "true", **pool.selector},
        service_account=ACCOUNT,
        labels={
            **MARKS,
            "nvidia.com/precompiled": "true" if pool.kernel else "false",
            POOL_LABEL: pool.os_tag,
            names.DRIVER_CONFIG_LABEL: digest,  # tells the controller which pods are of an earlier policy
        },
        volumes=volumes,
        affinity=one_driver_per_node(),
        host_pid=True,
        on_delete=True,
        spec=block_fields(policy.spec.driver, host_network=policy.spec.driver.host_network),
    )
    return daemonset(shape, policy, view)


_MOUNTS = (
    # Bidirectional: the driver's root file system is mounted below /run/nvidia/driver for the host to see.
    HostMount("run-nvidia", "/run/nvidia", propagation=BIDIRECTIONAL),
    HostMount("run-nvidia-fabricmanager", "/run/nvidia-fabricmanager"),
    HostMount("run-nvidia-topologyd", "/run/nvidia-topologyd"),
    HostMount("var-log", "/var/log", type=""),
    HostMount("host-os-release", "/etc/os-release", "/host-etc/os-release", type="", read_only=True),
)


def _container(policy: ClusterPolicy, view: ClusterView, pool: Pool, files: Files) -> KubeObject:
    driver = policy.spec.driver
    env = {"KERNEL_MODULE_TYPE": driver.kernel_module_type}
    if driver.kernel_module_type == "open":
        env["OPEN_KERNEL_MODULES_ENABLED"] = "true"
    fields = {"NODE_NAME": "spec.nodeName", "NODE_IP": "status.hostIP"}
    container: KubeObject = {
        "name": "nvidia-driver-ctr",
        "image": images.driver_image(policy, os_tag=pool.os_tag, kernel=pool.kernel, env=view.images),
        "imagePullPolicy": driver.image_pull_policy or "IfNotPresent",
        "command": ["nvidia-driver"],
        "args": list(driver.args or ["init"]),
        "env": with_user_env(env_list(env, fields), driver.env),
        # Installing a kernel module takes all capabilities there are.
        "securityContext": {"privileged": True, "seLinuxOptions": {"level": "s0"}},
        "startupProbe": startup_probe.probe(_EARLY, driver.startup_probe),
        "lifecycle": {"preStop": {"exec": {"command": forget_ready_file()}}},
        "volumeMounts": [
            *(mount.mount() for mount in _MOUNTS),
            startup_probe.mount(),
            *files.mounts,
        ],
        **host_files.secret_env(policy),
    }
    return with_resources(container, driver.resources)


# The original waits 60 s before the first look, we look at once and every second. Nothing rests on it but the
# pod's own readiness: the driver link asks NVML.
_EARLY = {"initialDelaySeconds": 1, "periodSeconds": 2, "timeoutSeconds": 60, "failureThreshold": 600}


def forget_ready_file() -> list[str]:
    files = (names.DRIVER_CTR_READY, names.DRIVER_DAEMONS_STATUS)
    return ["/bin/sh", "-c", "rm -f " + " ".join(f"{names.GATES_DIR}/{file}" for file in files)]


def one_driver_per_node() -> KubeObject:
    term = {
        "labelSelector": {
            "matchExpressions": [{"key": COMPONENT_LABEL, "operator": "In", "values": [COMPONENT]}]
        },
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
