"""(policy, view) -> the objects of NVIDIA's MIG manager. Pure.

Source: gpu-operator v26.3.3, assets/state-mig-manager; object_controls.go TransformMIGManager.
"""

from __future__ import annotations

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.kube.compare import digest
from gpuready.operands.contract import Access, ClusterView, KubeObject
from gpuready.operands.daemonset import HOST_TO_CONTAINER
from gpuready.operands.mig.default_configs import gpu_clients_yaml, mig_parted_yaml
from gpuready.operands.original import gpu_access
from gpuready.operands.original.access import READ, USE_PRIVILEGED, account, rule
from gpuready.operands.original.containers import (
    DIRECTORY,
    MADE_DIRECTORY,
    NAMESPACE,
    NODE_NAME,
    POD_NAME,
    PRIVILEGED,
    Env,
    Image,
    config_map,
    config_volume,
    container,
    driver_install_dir,
    host_path,
    host_root,
    mount,
    user_env,
)
from gpuready.operands.original.entrypoint import Entrypoint
from gpuready.operands.original.plugin_config import DIGEST_ANNOTATION
from gpuready.operands.original.pods import Pod, daemonset
from gpuready.operands.original.scripts import VALIDATIONS
from gpuready.operands.original.validation import (
    DRIVER_ROOT,
    READ_GATES,
    validations_volume,
    wait_for_toolkit,
)

NAME = "nvidia-mig-manager"
DEFAULT_CONFIG, DEFAULT_CLIENTS = "default-mig-parted-config", "default-gpu-clients"
ACCESS = Access(
    in_namespace=(
        USE_PRIVILEGED,
        rule("", ["pods"], [*READ, "delete"]),
        rule("", ["configmaps"], ["create", "get", "list", "update", "patch"]),
    ),
    in_cluster=(rule("", ["nodes"], [*READ, "update", "patch"]),),
)


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    return [
        *account(NAME, ACCESS, view),
        *_default_configs(policy, view),
        _START.config(view, NAME),
        _daemonset(policy, view),
    ]


def _default_configs(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    """Each only where the policy brings none of its own; to name a default is to bring none.

    Source: gpu-operator, api/nvidia/v1/clusterpolicy_types.go, GetConfigMapName.
    """
    manager = policy.spec.mig_manager
    configs = []
    if manager.config.name in ("", DEFAULT_CONFIG):
        configs.append(config_map(DEFAULT_CONFIG, {"config.yaml": mig_parted_yaml()}, view))
    if manager.gpu_clients_config.name in ("", DEFAULT_CLIENTS):
        configs.append(config_map(DEFAULT_CLIENTS, {"clients.yaml": gpu_clients_yaml()}, view))
    return configs


def _daemonset(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    manager = policy.spec.mig_manager
    pod = Pod(
        name=NAME,
        operand="mig-manager",
        account=NAME,
        node_selector={"nvidia.com/gpu.deploy.mig-manager": "true"},
        gpus_for=NAME,
        annotations=_digest(policy, view),
        host_network=manager.host_network,
        images=[policy.spec.validator, manager],
        init_containers=[wait_for_toolkit(policy, view, READ_GATES)],
        containers=[_manager(policy, view)],
        volumes=[
            _START.volume(),
            host_path("host-sys", "/sys", DIRECTORY),
            validations_volume(),
            driver_install_dir(policy),
            host_root(policy),
            config_volume("gpu-clients", manager.gpu_clients_config.name or DEFAULT_CLIENTS),
            _configurations(policy),
            host_path("cdi-root", "/var/run/cdi", MADE_DIRECTORY),
        ],
        spec={"hostPID": True, "hostIPC": True},
    )
    return daemonset(pod, policy, view)


def _digest(policy: ClusterPolicy, view: ClusterView) -> dict[str, str]:
    """It reads its files when a node's label changes, and when it starts: other files renew the pods."""
    manager = policy.spec.mig_manager
    named = {manager.config.name, manager.gpu_clients_config.name} - {"", DEFAULT_CONFIG, DEFAULT_CLIENTS}
    data = {name: view.configs[name] for name in sorted(named) if name in view.configs}
    return {DIGEST_ANNOTATION: digest(data)} if data else {}


def _configurations(policy: ClusterPolicy) -> KubeObject:
    """The default's file has another name: it counts only where the hardware's own profiles are not found."""
    if name := policy.spec.mig_manager.config.name:
        return config_volume("mig-parted-config", name)
    return config_volume("mig-parted-config", DEFAULT_CONFIG, keys={"config.yaml": "config-default.yaml"})


def _manager(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    manager = policy.spec.mig_manager
    return container(
        NAME,
        Image.of(policy, view, "migManager"),
        **_START.started(manager.args),
        env={**_env(policy), **user_env(manager.env)},
        resources=manager.resources,
        securityContext=PRIVILEGED,
        mounts=[
            _START.mount(),
            mount("run-nvidia-validations", VALIDATIONS),
            mount("host-sys", "/sys"),
            mount("host-root", "/host", propagation=HOST_TO_CONTAINER),
            mount("gpu-clients", "/gpu-clients"),
            mount("mig-parted-config", "/mig-parted-config"),
            DRIVER_ROOT,
            mount("cdi-root", "/var/run/cdi"),
        ],
    )


def _env(policy: ClusterPolicy) -> Env:
    env: dict[str, str | KubeObject] = {
        "NODE_NAME": NODE_NAME,
        "POD_NAME": POD_NAME,
        "POD_NAMESPACE": NAMESPACE,
        "GPU_CLIENTS_FILE": "/gpu-clients/clients.yaml",
        "DEFAULT_GPU_CLIENTS_NAMESPACE": NAMESPACE,
    }
    if policy.spec.mig_manager.config.name:
        env["CONFIG_FILE"] = "/mig-parted-config/config.yaml"
    else:
        env["DEFAULT_CONFIG_FILE"] = "/mig-parted-config/config-default.yaml"
    if policy.spec.cdi.enabled:
        env["CDI_ENABLED"] = "true"
    return {**env, **gpu_access.cdi_hook_env(policy)}


# Programs of the host hold GPUs only where the driver is the host's.
_START = Entrypoint(
    "nvidia-mig-manager-entrypoint",
    "nvidia-mig-manager",
    before='export WITH_SHUTDOWN_HOST_GPU_CLIENTS="${IS_HOST_DRIVER:-false}"',
)
