"""(policy, view) -> the objects of NVIDIA's device plugin. Pure.

Source: gpu-operator v26.3.3, assets/state-device-plugin; object_controls.go TransformDevicePlugin.
"""

from __future__ import annotations

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import Access, ClusterView, KubeObject
from gpuready.operands.daemonset import kubelet_path
from gpuready.operands.original import gpu_access, plugin_config
from gpuready.operands.original.access import READ_NODES, USE_PRIVILEGED, account
from gpuready.operands.original.containers import (
    MADE_DIRECTORY,
    PRIVILEGED,
    Image,
    container,
    driver_install_dir,
    host_path,
    host_root,
    mount,
    user_env,
)
from gpuready.operands.original.entrypoint import Entrypoint
from gpuready.operands.original.pods import Pod, daemonset
from gpuready.operands.original.scripts import VALIDATIONS
from gpuready.operands.original.validation import (
    DRIVER_ROOT,
    HOST_READ_ONLY,
    READ_GATES,
    validations_volume,
    wait_for_toolkit,
)

NAME = "nvidia-device-plugin-daemonset"
ACCOUNT = "nvidia-device-plugin"
ACCESS = Access(in_namespace=(USE_PRIVILEGED,), in_cluster=(READ_NODES,))


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    return [*account(ACCOUNT, ACCESS, view), _START.config(view, NAME), _daemonset(policy, view)]


def _daemonset(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    plugin = policy.spec.device_plugin
    image = Image.of(policy, view, "devicePlugin")
    pod = Pod(
        name=NAME,
        operand="device-plugin",
        account=ACCOUNT,
        scc="hostmount-anyuid",
        node_selector={names.DEPLOY_DEVICE_PLUGIN: "true"},
        gpus_for="nvidia-device-plugin",
        host_network=plugin.host_network,
        images=[policy.spec.validator, plugin],
        annotations=plugin_config.pod_annotations(policy, view),
        init_containers=[
            wait_for_toolkit(policy, view, READ_GATES),
            *plugin_config.first_choice(policy, image),
        ],
        containers=[
            _plugin(policy, image),
            *plugin_config.later_choices(
                policy, image, signals="nvidia-device-plugin", resources=plugin.resources
            ),
        ],
        volumes=[
            _START.volume(),
            host_path("device-plugin", kubelet_path(policy, "device-plugins")),
            validations_volume(),
            driver_install_dir(policy),
            host_root(policy),
            host_path("cdi-root", "/var/run/cdi", MADE_DIRECTORY),
            host_path("mps-root", plugin.mps.root, MADE_DIRECTORY),
            host_path("mps-shm", f"{plugin.mps.root}/shm"),
            *plugin_config.volumes(policy),
        ],
        spec={"shareProcessNamespace": True} if plugin_config.has_config(policy) else {},
    )
    return daemonset(pod, policy, view)


def _plugin(policy: ClusterPolicy, image: Image) -> KubeObject:
    plugin = policy.spec.device_plugin
    return container(
        "nvidia-device-plugin",
        image,
        **_START.started(plugin.args),
        env={**_env(policy), **user_env(plugin.env)},
        resources=plugin.resources,
        securityContext=PRIVILEGED,
        mounts=[
            _START.mount(),
            mount("device-plugin", names.PLUGIN_DIR),
            mount("run-nvidia-validations", VALIDATIONS),
            DRIVER_ROOT,
            HOST_READ_ONLY,
            mount("cdi-root", "/var/run/cdi"),
            mount("mps-shm", "/dev/shm"),
            mount("mps-root", "/mps"),
            *plugin_config.mounts(policy),
        ],
    )


def _env(policy: ClusterPolicy) -> dict[str, str]:
    env = {
        "PASS_DEVICE_SPECS": "true",
        "FAIL_ON_INIT_ERROR": "true",
        "DEVICE_LIST_STRATEGY": "envvar",
        "DEVICE_ID_STRATEGY": "uuid",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "all",
        "MPS_ROOT": policy.spec.device_plugin.mps.root,
    }
    if policy.spec.gds.enabled:
        env |= {"GDS_ENABLED": "true", "MOFED_ENABLED": "true"}
    if policy.spec.gdrcopy.enabled:
        env["GDRCOPY_ENABLED"] = "true"
    return {**env, **plugin_config.env(policy), **gpu_access.mig_env(policy), **_cdi_env(policy)}


def _cdi_env(policy: ClusterPolicy) -> dict[str, str]:
    if not policy.spec.cdi.enabled:
        return {}
    return {
        "CDI_ENABLED": "true",
        "DEVICE_LIST_STRATEGY": "cdi-annotations,cdi-cri",
        "CDI_ANNOTATION_PREFIX": "cdi.k8s.io/",
        **gpu_access.cdi_hook_env(policy),
    }


# Loaded modules say what the node can do where the policy does not.
_START = Entrypoint(
    "nvidia-device-plugin-entrypoint",
    "nvidia-device-plugin",
    before="""\
if [ -d /sys/module/gdrdrv ]; then : "${GDRCOPY_ENABLED:=true}"; export GDRCOPY_ENABLED; fi
if [ -d /sys/module/nvidia_fs ]; then
  : "${GDS_ENABLED:=true}" "${MOFED_ENABLED:=true}"
  export GDS_ENABLED MOFED_ENABLED
fi""",
)
