"""The side-car that picks one of the device plugin's configurations by node label. Pure.

Device plugin, MPS daemon and feature discovery each carry it, and only where the policy names a ConfigMap.

Source: k8s-device-plugin v0.19.3, cmd/config-manager; operator.md §5.4.
"""

from __future__ import annotations

from gpuready import names
from gpuready.api.blocks import ResourceRequirements
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.kube.compare import digest
from gpuready.operands.contract import ClusterView, KubeObject
from gpuready.operands.original.containers import (
    NODE_NAME,
    PRIVILEGED,
    Env,
    Image,
    config_volume,
    container,
    mount,
    volume_name,
)

CONFIG_FILE = "/config/config.yaml"
DIGEST_ANNOTATION = "gpuready.dev/config-digest"


def has_config(policy: ClusterPolicy) -> bool:
    return bool(policy.spec.device_plugin.config.name)


def env(policy: ClusterPolicy) -> dict[str, str]:
    """Where the configured program finds its configuration."""
    return {"CONFIG_FILE": CONFIG_FILE} if has_config(policy) else {}


def mounts(policy: ClusterPolicy) -> list[KubeObject]:
    if not has_config(policy):
        return []
    return [mount("config", "/config"), mount(_volume(policy), "/available-configs")]


def volumes(policy: ClusterPolicy) -> list[KubeObject]:
    if not has_config(policy):
        return []
    available = config_volume(_volume(policy), policy.spec.device_plugin.config.name)
    return [available, {"name": "config", "emptyDir": {}}]


def pod_annotations(policy: ClusterPolicy, view: ClusterView) -> dict[str, str]:
    """A changed ConfigMap renews the pods: the side-car looks at it only when the node's label changes."""
    data = view.configs.get(policy.spec.device_plugin.config.name)
    return {DIGEST_ANNOTATION: digest(data)} if has_config(policy) and data else {}


def first_choice(policy: ClusterPolicy, image: Image) -> list[KubeObject]:
    """The init container that chooses once, before the program starts."""
    if not has_config(policy):
        return []
    settings = _env(policy, once=True, signals="")
    return [
        container(
            "config-manager-init", image, command=["config-manager"], env=settings, mounts=mounts(policy)
        )
    ]


def later_choices(
    policy: ClusterPolicy, image: Image, *, signals: str, resources: ResourceRequirements
) -> list[KubeObject]:
    """The side-car that chooses anew and tells the program. signals: the process that is told."""
    if not has_config(policy):
        return []
    return [
        container(
            "config-manager",
            image,
            command=["config-manager"],
            env=_env(policy, once=False, signals=signals),
            securityContext=PRIVILEGED,
            resources=resources,
            mounts=mounts(policy),
        )
    ]


def _env(policy: ClusterPolicy, *, once: bool, signals: str) -> Env:
    return {
        "ONESHOT": "true" if once else "false",
        "KUBECONFIG": "",
        "NODE_NAME": NODE_NAME,
        "NODE_LABEL": names.PLUGIN_CONFIG_LABEL,
        "CONFIG_FILE_SRCDIR": "/available-configs",
        "CONFIG_FILE_DST": CONFIG_FILE,
        "DEFAULT_CONFIG": policy.spec.device_plugin.config.default,
        "SEND_SIGNAL": "true" if signals else "false",
        "SIGNAL": "1" if signals else "",
        "PROCESS_TO_SIGNAL": signals,
        "FALLBACK_STRATEGIES": "empty",
    }


def _volume(policy: ClusterPolicy) -> str:
    return volume_name(policy.spec.device_plugin.config.name)
