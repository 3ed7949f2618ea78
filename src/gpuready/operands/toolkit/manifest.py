"""(policy, view) -> the container toolkit's objects: an account without rules, and the DaemonSet. Pure."""

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
    http_probe,
    service_account,
    start_probe,
    with_resources,
    with_user_env,
)
from gpuready.operands.toolkit.settings import Settings

DAEMONSET = "nvidia-container-toolkit-daemonset"
ACCOUNT = "nvidia-container-toolkit"


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    return [service_account(ACCOUNT, view), _daemonset(policy, view)]


def check(policy: ClusterPolicy) -> Refusal | None:
    """The daemon would end at once with an env that makes no sense: what runs must not be replaced by it."""
    env = {item["name"]: item.get("value", "") for item in _env(policy)}
    return Refusal.of_env("spec.toolkit.env", lambda: Settings.from_env(env))


def settings_of(policy: ClusterPolicy) -> Settings:
    """What the policy means for the daemon, before the policy's own `env` is laid over it.

    Source: gpu-operator v26.3.3, controllers/object_controls.go (toolkit transform). Without CDI the original
    makes its runtime the default; ours changes the default only when env asks for it.
    """
    return Settings(
        handler=policy.spec.operator.runtime_class or "nvidia",
        cdi=policy.spec.cdi.enabled,
        install_dir=policy.spec.toolkit.install_dir,
        driver_install_dir=policy.spec.host_paths.driver_install_dir or names.DRIVER_INSTALL_DIR,
        gates_dir=names.GATES_DIR,
        desired_dir=names.DESIRED_DIR,
        records_dir=names.RECORDS_DIR,
    )


def _daemonset(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    toolkit = policy.spec.toolkit
    shape = DaemonSetShape(
        name=DAEMONSET,
        operand="toolkit",
        containers=[_container(policy, view)],
        node_selector={names.DEPLOY_TOOLKIT: "true"},
        service_account=ACCOUNT,
        volumes=[mount.volume() for mount in _mounts(policy)],
        # A signal reaches the runtime by its process id, which must be the host's.
        host_pid=True,
        # An uninstall gives the runtime back what it had and sees it come back.
        grace_period_s=60,
        spec=block_fields(toolkit, host_network=toolkit.host_network),
    )
    return daemonset(shape, policy, view)


def _mounts(policy: ClusterPolicy) -> list[HostMount]:
    return [
        # To be written: the runtime's configuration may be a link to anywhere on the host.
        HostMount(
            "host-root", policy.spec.host_paths.root_fs or "/", "/host", "Directory", HOST_TO_CONTAINER
        ),
        HostMount("run-nvidia", "/run/nvidia", propagation=HOST_TO_CONTAINER),
        HostMount("run-gpuready", "/run/gpuready"),
        HostMount("var-lib-gpuready", "/var/lib/gpuready"),
    ]


def _container(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    toolkit = policy.spec.toolkit
    container: KubeObject = {
        "name": "nvidia-container-toolkit-ctr",
        "image": view.own_image,
        "imagePullPolicy": toolkit.image_pull_policy or "IfNotPresent",
        "command": ["gpuready", "toolkit"],
        "env": _env(policy),
        # It runs the host's programs in the host's root, signals the runtime and writes its configuration.
        "securityContext": {"privileged": True},
        "startupProbe": start_probe("/healthz", names.TOOLKIT_HEALTH_PORT),
        "livenessProbe": http_probe("/healthz", names.TOOLKIT_HEALTH_PORT, period_s=15),
        "volumeMounts": [mount.mount() for mount in _mounts(policy)],
    }
    return with_resources(container, toolkit.resources)


def _env(policy: ClusterPolicy) -> list[KubeObject]:
    fields = {"NODE_NAME": "spec.nodeName", "POD_IP": "status.podIP"}
    return with_user_env(env_list(settings_of(policy).to_env(), fields), policy.spec.toolkit.env)
