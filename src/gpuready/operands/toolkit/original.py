"""(policy, view) -> the objects of NVIDIA's container toolkit. Pure.

Source: gpu-operator v26.3.3, assets/state-container-toolkit; object_controls.go TransformToolkit.
"""

from __future__ import annotations

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import Access, ClusterView, KubeObject
from gpuready.operands.original import gpu_access
from gpuready.operands.original.access import USE_PRIVILEGED, account, rule
from gpuready.operands.original.containers import (
    MADE_DIRECTORY,
    NAMESPACE,
    PRIVILEGED,
    SELINUX_S0,
    Env,
    Image,
    container,
    driver_install_dir,
    host_dev_char,
    host_path,
    host_root,
    mount,
    user_env,
)
from gpuready.operands.original.entrypoint import PLACE, Entrypoint
from gpuready.operands.original.pods import Pod, daemonset
from gpuready.operands.original.scripts import VALIDATIONS
from gpuready.operands.original.validation import (
    DRIVER_ROOT,
    HOST_READ_ONLY,
    driver_validation,
    validations_volume,
)
from gpuready.operands.toolkit import original_paths
from gpuready.operands.toolkit.original_paths import Seen

NAME = "nvidia-container-toolkit-daemonset"
ACCOUNT = "nvidia-container-toolkit"
ACCESS = Access(in_namespace=(USE_PRIVILEGED, rule("apps", ["daemonsets"], ["list"])))


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    script = _START.config(view, NAME)
    return [*account(ACCOUNT, ACCESS, view), script, _daemonset(policy, view)]


def _daemonset(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    toolkit = policy.spec.toolkit
    seen = _runtime_files(policy, view)
    pod = Pod(
        name=NAME,
        operand="toolkit",
        account=ACCOUNT,
        scc="hostmount-anyuid",
        node_selector={"nvidia.com/gpu.deploy.container-toolkit": "true"},
        host_network=toolkit.host_network,
        images=[policy.spec.validator, toolkit],
        init_containers=[driver_validation(policy, view)],
        containers=[_toolkit(policy, view, seen)],
        volumes=[
            _START.volume(),
            host_path("toolkit-root", "/run/nvidia/toolkit", MADE_DIRECTORY),
            validations_volume(),
            driver_install_dir(policy),
            host_root(policy),
            host_path("toolkit-install-dir", toolkit.install_dir),
            host_path("crio-hooks", _crio_hooks(view)),
            host_dev_char(policy),
            host_path("cdi-root", "/var/run/cdi", MADE_DIRECTORY),
            *(volume for each in seen for volume in each.volumes),
        ],
        # The runtime tells who speaks to it by process id, which must be the host's.
        spec={"hostPID": True},
    )
    return daemonset(pod, policy, view)


def _toolkit(policy: ClusterPolicy, view: ClusterView, seen: list[Seen]) -> KubeObject:
    toolkit = policy.spec.toolkit
    return container(
        "nvidia-container-toolkit-ctr",
        Image.of(policy, view, "toolkit"),
        command=["/bin/sh", "-c"],
        args=[PLACE],
        env=_env(policy, view, seen),
        resources=toolkit.resources,
        securityContext={**PRIVILEGED, **SELINUX_S0},
        mounts=[
            _START.mount(),
            mount("toolkit-root", "/run/nvidia/toolkit"),
            mount("run-nvidia-validations", VALIDATIONS),
            mount("toolkit-install-dir", toolkit.install_dir),
            mount("crio-hooks", "/usr/share/containers/oci/hooks.d"),
            DRIVER_ROOT,
            HOST_READ_ONLY,
            mount("cdi-root", "/var/run/cdi"),
            *(mounted for each in seen for mounted in each.mounts),
        ],
    )


def _env(policy: ClusterPolicy, view: ClusterView, seen: list[Seen]) -> Env:
    """The policy's env comes before what is said of the runtime: its paths are rewritten there."""
    base: Env = {
        "ROOT": policy.spec.toolkit.install_dir,
        "NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND": "management.nvidia.com/gpu",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "TOOLKIT_PID_FILE": "/run/nvidia/toolkit/toolkit.pid",
        "NRI_NAMESPACE": NAMESPACE,
    }
    user = user_env(policy.spec.toolkit.env)
    kind = gpu_access.runtime_of(view)
    env = {**base, **_cdi_env(policy, kind), **user, "RUNTIME": kind, **original_paths.config_source(user)}
    if kind == gpu_access.CONTAINERD:
        env["CONTAINERD_RUNTIME_CLASS"] = policy.spec.operator.runtime_class or "nvidia"
    for each in seen:
        env.update(each.env)
    return env


def _cdi_env(policy: ClusterPolicy, kind: str) -> dict[str, str]:
    if not policy.spec.cdi.enabled:
        return {"CRIO_CONFIG_MODE": "hook"} if kind == gpu_access.CRIO else {}
    env = {
        "CDI_ENABLED": "true",
        "NVIDIA_RUNTIME_SET_AS_DEFAULT": "false",
        "NVIDIA_CONTAINER_RUNTIME_MODE": "cdi",
        "CRIO_CONFIG_MODE": "config",
    }
    return {**env, "ENABLE_NRI_PLUGIN": "true"} if policy.spec.cdi.nri_plugin_enabled else env


def _runtime_files(policy: ClusterPolicy, view: ClusterView) -> list[Seen]:
    user = user_env(policy.spec.toolkit.env)
    kind = gpu_access.runtime_of(view)
    files = original_paths.files_of(kind, user)
    seen = [
        original_paths.config(kind, files),
        original_paths.drop_in(kind, files),
        original_paths.socket(kind, files),
    ]
    return [*seen, original_paths.nri_socket(user)] if policy.spec.cdi.nri_plugin_enabled else seen


def _crio_hooks(view: ClusterView) -> str:
    """Where CRI-O looks for hooks; other runtimes need none, and must not find one there."""
    if gpu_access.runtime_of(view) == gpu_access.CRIO:
        return "/usr/share/containers/oci/hooks.d"
    return "/run/containers/oci/hooks.d"


# containerd from 1.6.9 on may end when it is told of a new configuration right after it has started.
_START = Entrypoint("nvidia-container-toolkit-entrypoint", "nvidia-toolkit", before="sleep 5")
