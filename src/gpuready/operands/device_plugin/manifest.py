"""(policy, view) -> the device plugin's objects: an account without rules, and the DaemonSet. Pure."""

from __future__ import annotations

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import ClusterView, KubeObject, Refusal
from gpuready.operands.daemonset import (
    HOST_TO_CONTAINER,
    DaemonSetShape,
    HostMount,
    block_fields,
    daemonset,
    env_list,
    host_root,
    http_probe,
    kubelet_path,
    service_account,
    start_probe,
    with_resources,
    with_user_env,
)
from gpuready.operands.device_plugin.settings import CDI_ANNOTATIONS, CDI_CRI, ENVVAR, Settings

DAEMONSET = "nvidia-device-plugin-daemonset"
ACCOUNT = "nvidia-device-plugin"


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    return [service_account(ACCOUNT, view), _daemonset(policy, view)]


def check(policy: ClusterPolicy) -> Refusal | None:
    """The daemon would end at once with an env that makes no sense: what runs must not be replaced by it."""
    env = {item["name"]: item.get("value", "") for item in _env(policy)}
    return Refusal.of_env("spec.devicePlugin.env or spec.mig", lambda: Settings.from_env(env))


def settings_of(policy: ClusterPolicy) -> Settings:
    """What the policy means for the daemon, before the policy's own `env` is laid over it.

    Source: gpu-operator v26.3.3, controllers/object_controls.go (device plugin transform): with CDI the
    original uses both CDI strategies, so that runtimes of either age find the device.
    """
    return Settings(
        mig_strategy=policy.spec.mig.strategy or None,
        device_list_strategy=(CDI_ANNOTATIONS, CDI_CRI) if policy.spec.cdi.enabled else (ENVVAR,),
        pass_device_specs=True if not policy.spec.cdi.enabled else None,
        cdi_hook_path=_hook_path(policy),
        gds=policy.spec.gds.enabled or None,
        mofed=policy.spec.gds.enabled or None,
        gdrcopy=policy.spec.gdrcopy.enabled or None,
        gates_dir=names.GATES_DIR,
        desired_dir=names.DESIRED_DIR,
        records_dir=names.RECORDS_DIR,
    )


def _hook_path(policy: ClusterPolicy) -> str | None:
    if not policy.spec.toolkit.enabled:
        return None
    return f"{policy.spec.toolkit.install_dir.rstrip('/')}/toolkit/nvidia-cdi-hook"


def _daemonset(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    plugin = policy.spec.device_plugin
    shape = DaemonSetShape(
        name=DAEMONSET,
        operand="device-plugin",
        containers=[_container(policy, view)],
        node_selector={names.DEPLOY_DEVICE_PLUGIN: "true"},
        service_account=ACCOUNT,
        volumes=[mount.volume() for mount in _mounts(policy)],
        grace_period_s=10,
        spec=block_fields(plugin, host_network=plugin.host_network),
    )
    return daemonset(shape, policy, view)


def _mounts(policy: ClusterPolicy) -> list[HostMount]:
    return [
        HostMount("device-plugins", kubelet_path(policy, "device-plugins"), names.PLUGIN_DIR),
        # The driver's files, wherever they are: on the host, or below /run/nvidia/driver.
        host_root(policy),
        HostMount("run-nvidia", "/run/nvidia", propagation=HOST_TO_CONTAINER),
        HostMount("run-gpuready", "/run/gpuready"),
        HostMount("cdi-root", "/var/run/cdi"),
    ]


def _container(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    plugin = policy.spec.device_plugin
    # The policy's `args` are flags of the original's program; ours takes the same settings from `env`.
    container: KubeObject = {
        "name": "nvidia-device-plugin",
        "image": view.own_image,
        "imagePullPolicy": plugin.image_pull_policy or "IfNotPresent",
        "command": ["gpuready", "device-plugin"],
        "env": _env(policy),
        # NVML opens the device nodes of every GPU, which only a privileged container sees.
        "securityContext": {"privileged": True},
        "startupProbe": start_probe("/healthz", names.DEVICE_PLUGIN_HEALTH_PORT),
        "livenessProbe": http_probe("/healthz", names.DEVICE_PLUGIN_HEALTH_PORT, period_s=15),
        "volumeMounts": [mount.mount() for mount in _mounts(policy)],
    }
    return with_resources(container, plugin.resources)


def _env(policy: ClusterPolicy) -> list[KubeObject]:
    fields = {"NODE_NAME": "spec.nodeName", "POD_IP": "status.podIP"}
    return with_user_env(env_list(settings_of(policy).to_env(), fields), policy.spec.device_plugin.env)
