"""(policy, view) -> the driver's objects as the original has them: with its manager and side-cars. Pure.

One DaemonSet per operating system, and per kernel with precompiled drivers. The driver manager evicts what
holds an old driver before the new one comes; pods are replaced when they are deleted (OnDelete).

Source: gpu-operator v26.3.3, assets/state-driver; object_controls.go TransformDriver.
"""

from __future__ import annotations

from gpuready import names
from gpuready.api.blocks import ImageRef
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import Access, ClusterView, KubeObject
from gpuready.operands.daemonset import BIDIRECTIONAL, HOST_TO_CONTAINER
from gpuready.operands.driver import host_files, sidecars, startup_probe
from gpuready.operands.driver.digest import config_digest, told
from gpuready.operands.driver.host_files import Files
from gpuready.operands.driver.manifest import POOL_LABEL, one_driver_per_node
from gpuready.operands.driver.pools import BASE_NAME, MARKS, Pool, app_of, name_of, pools_of
from gpuready.operands.original.access import READ, USE_PRIVILEGED, account, rule
from gpuready.operands.original.containers import (
    DIRECTORY,
    MADE_DIRECTORY,
    NAMESPACE,
    NODE_NAME,
    PRIVILEGED,
    SELINUX_S0,
    Env,
    Image,
    container,
    field,
    host_path,
    host_root,
    mount,
    user_env,
)
from gpuready.operands.original.pods import Pod, daemonset
from gpuready.operands.original.validation import HOST_READ_ONLY, validations_volume

ACCOUNT = "nvidia-driver"
ACCESS = Access(
    in_namespace=(USE_PRIVILEGED,),
    in_cluster=(
        rule("config.openshift.io", ["clusterversions"], ["get", "list"]),
        rule("", ["nodes"], ["get", "list", "patch", "update", "watch"]),
        rule("", ["pods"], READ),
        rule("", ["pods/eviction"], ["create"]),
        rule("apps", ["daemonsets"], ["get"]),
    ),
)


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    pools = pools_of(view, by_kernel=policy.spec.driver.use_precompiled)
    return [
        *account(ACCOUNT, ACCESS, view),
        startup_probe.config(view, {"app": BASE_NAME, **MARKS}),
        *(_daemonset(policy, view, pool, name_of(pool, pools, view)) for pool in pools),
    ]


def _daemonset(policy: ClusterPolicy, view: ClusterView, pool: Pool, name: str) -> KubeObject:
    files = host_files.of_the_driver(policy, view, pool)
    volumes = [*_volumes(policy), *files.volumes]
    containers = [_driver(policy, view, pool, files), *sidecars.of(policy, view, pool)]
    digest = config_digest(containers, volumes)
    pod = Pod(
        name=name,
        app=app_of(pool, name),
        operand="driver",
        account=ACCOUNT,
        scc="nvidia-driver",
        marks={
            **MARKS,
            "nvidia.com/precompiled": "true" if pool.kernel else "false",
            POOL_LABEL: pool.os_tag,
            names.DRIVER_CONFIG_LABEL: digest,
        },
        annotations={"kubectl.kubernetes.io/default-container": "nvidia-driver-ctr"},
        node_selector={names.DEPLOY_DRIVER: "true", **pool.selector},
        host_network=policy.spec.driver.host_network,
        images=_image_blocks(policy),
        init_containers=[told(digest, _manager(policy, view))],
        containers=[told(digest, containers[0]), *containers[1:]],
        volumes=volumes,
        on_delete=True,
        spec={"hostPID": True, "affinity": one_driver_per_node()},
    )
    return daemonset(pod, policy, view)


def _image_blocks(policy: ClusterPolicy) -> list[ImageRef]:
    side_cars = [block for block in (policy.spec.gds, policy.spec.gdrcopy) if block.enabled]
    return [policy.spec.driver.manager, policy.spec.driver, *side_cars]


_RUN_NVIDIA = mount("run-nvidia", "/run/nvidia", propagation=BIDIRECTIONAL)
_MELLANOX = mount("run-mellanox-drivers", "/run/mellanox/drivers", propagation=HOST_TO_CONTAINER)


def _manager(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    """Empties the node of what uses an old driver and unloads it. What it may do is `driver.manager.env`."""
    rdma = policy.spec.driver.rdma
    env: dict[str, str | KubeObject] = {
        "NODE_NAME": NODE_NAME,
        "NVIDIA_VISIBLE_DEVICES": "void",
        "ENABLE_GPU_POD_EVICTION": "true",
        "ENABLE_AUTO_DRAIN": "false",
        "DRAIN_USE_FORCE": "false",
        "DRAIN_POD_SELECTOR_LABEL": "",
        "DRAIN_TIMEOUT_SECONDS": "0s",
        "DRAIN_DELETE_EMPTYDIR_DATA": "false",
        "OPERATOR_NAMESPACE": NAMESPACE,
    }
    if rdma.enabled:
        env |= {"GPU_DIRECT_RDMA_ENABLED": "true", **sidecars.host_mofed_env(policy)}
    return container(
        "k8s-driver-manager",
        Image.of(policy, view, "driver.manager"),
        command=["driver-manager"],
        args=["uninstall_driver"],
        env={**env, **user_env(policy.spec.driver.manager.env)},
        securityContext=PRIVILEGED,
        mounts=[_RUN_NVIDIA, HOST_READ_ONLY, mount("host-sys", "/sys"), _MELLANOX],
    )


def _driver(policy: ClusterPolicy, view: ClusterView, pool: Pool, files: Files) -> KubeObject:
    driver = policy.spec.driver
    return container(
        "nvidia-driver-ctr",
        sidecars.image_of(policy, view, pool, "driver"),
        command=["nvidia-driver"],
        args=driver.args or ["init"],
        env={**_driver_env(policy), **user_env(driver.env)},
        resources=driver.resources,
        securityContext={**PRIVILEGED, **SELINUX_S0},
        startupProbe=startup_probe.probe(_PATIENT, driver.startup_probe),
        lifecycle={"preStop": {"exec": {"command": _forgets_it_was_ready()}}},
        mounts=[
            _RUN_NVIDIA,
            mount("run-nvidia-fabricmanager", "/run/nvidia-fabricmanager"),
            mount("run-nvidia-topologyd", "/run/nvidia-topologyd"),
            mount("var-log", "/var/log"),
            mount("dev-log", "/dev/log"),
            mount("host-os-release", "/host-etc/os-release", read_only=True),
            mount("mlnx-ofed-usr-src", "/run/mellanox/drivers/usr/src", propagation=HOST_TO_CONTAINER),
            _MELLANOX,
            mount("sysfs-memory-online", "/sys/devices/system/memory/auto_online_blocks"),
            mount("firmware-search-path", "/sys/module/firmware_class/parameters/path"),
            mount("nv-firmware", "/lib/firmware"),
            startup_probe.mount(),
            *files.mounts,
        ],
        **host_files.secret_env(policy),
    )


# A driver that is built on the node takes minutes.
_PATIENT = {"initialDelaySeconds": 60, "periodSeconds": 10, "timeoutSeconds": 60, "failureThreshold": 120}


def _driver_env(policy: ClusterPolicy) -> Env:
    kind = policy.spec.driver.kernel_module_type
    env: dict[str, str | KubeObject] = {"NODE_NAME": NODE_NAME, "NODE_IP": field("status.hostIP")}
    if kind:
        env["KERNEL_MODULE_TYPE"] = kind
    if kind == "open":  # older driver images know this name only
        env["OPEN_KERNEL_MODULES_ENABLED"] = "true"
    if policy.spec.gdrcopy.enabled:
        env["GDRCOPY_ENABLED"] = "true"
    if policy.spec.gds.enabled:
        env["GDS_ENABLED"] = "true"
    if policy.spec.driver.rdma.enabled:
        env |= {"GPU_DIRECT_RDMA_ENABLED": "true", **sidecars.host_mofed_env(policy)}
    return env


def _forgets_it_was_ready() -> list[str]:
    return ["/bin/sh", "-c", f"rm -f {names.GATES_DIR}/{names.DRIVER_CTR_READY}"]


def _volumes(policy: ClusterPolicy) -> list[KubeObject]:
    rdma = policy.spec.driver.rdma
    on_host = rdma.enabled and rdma.use_host_mofed
    return [
        host_path("run-nvidia", "/run/nvidia", MADE_DIRECTORY),
        host_path("var-log", "/var/log"),
        host_path("dev-log", "/dev/log"),
        host_path("host-os-release", "/etc/os-release"),
        host_path("run-nvidia-fabricmanager", "/run/nvidia-fabricmanager", MADE_DIRECTORY),
        host_path("run-nvidia-topologyd", "/run/nvidia-topologyd", MADE_DIRECTORY),
        host_path(
            "mlnx-ofed-usr-src", "/usr/src" if on_host else "/run/mellanox/drivers/usr/src", MADE_DIRECTORY
        ),
        host_path("run-mellanox-drivers", "/run/mellanox/drivers", MADE_DIRECTORY),
        validations_volume(),
        host_root(policy),
        host_path("host-sys", "/sys", DIRECTORY),
        host_path("firmware-search-path", "/sys/module/firmware_class/parameters/path"),
        host_path("sysfs-memory-online", "/sys/devices/system/memory/auto_online_blocks"),
        host_path("nv-firmware", "/run/nvidia/driver/lib/firmware", MADE_DIRECTORY),
        startup_probe.volume(),
    ]
