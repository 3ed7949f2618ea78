"""(policy, view) -> the objects of NVIDIA's GPU feature discovery. Pure.

Source: gpu-operator v26.3.3, assets/gpu-feature-discovery; object_controls.go
TransformGPUDiscoveryPlugin.
"""

from __future__ import annotations

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import Access, ClusterView, KubeObject
from gpuready.operands.original import gpu_access, plugin_config
from gpuready.operands.original.access import READ, READ_NODES, USE_PRIVILEGED, account, rule
from gpuready.operands.original.containers import (
    DIRECTORY,
    NAMESPACE,
    NODE_NAME,
    POD_NAME,
    PRIVILEGED,
    Image,
    container,
    host_path,
    mount,
    user_env,
)
from gpuready.operands.original.pods import Pod, daemonset
from gpuready.operands.original.validation import RUN_NVIDIA, wait_for_toolkit

NAME = "gpu-feature-discovery"
ACCOUNT = "nvidia-gpu-feature-discovery"
ACCESS = Access(
    in_namespace=(
        USE_PRIVILEGED,
        rule("nfd.k8s-sigs.io", ["nodefeatures"], [*READ, "create", "update"]),
        rule("", ["pods"], ["get"]),
    ),
    in_cluster=(READ_NODES,),
)
_FEATURES = "/etc/kubernetes/node-feature-discovery/features.d"


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    return [*account(ACCOUNT, ACCESS, view), _daemonset(policy, view)]


def _daemonset(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    gfd = policy.spec.gfd
    image = Image.of(policy, view, "gfd")
    pod = Pod(
        name=NAME,
        operand="gpu-feature-discovery",
        account=ACCOUNT,
        labels={"app.kubernetes.io/part-of": "nvidia-gpu"},
        node_selector={"nvidia.com/gpu.deploy.gpu-feature-discovery": "true"},
        gpus_for=NAME,
        host_network=gfd.host_network,
        images=[policy.spec.validator, gfd],
        annotations=plugin_config.pod_annotations(policy, view),
        init_containers=[
            wait_for_toolkit(policy, view, RUN_NVIDIA),
            *plugin_config.first_choice(policy, image),
        ],
        containers=[
            _discovery(policy, image),
            *plugin_config.later_choices(policy, image, signals=NAME, resources=gfd.resources),
        ],
        volumes=[
            host_path("output-dir", _FEATURES),
            host_path("host-sys", "/sys"),
            host_path("run-nvidia", "/run/nvidia", DIRECTORY),
            *plugin_config.volumes(policy),
        ],
        spec={"shareProcessNamespace": True} if plugin_config.has_config(policy) else {},
    )
    return daemonset(pod, policy, view)


def _discovery(policy: ClusterPolicy, image: Image) -> KubeObject:
    """Here the policy's MIG strategy wins over its env, other than in the device plugin."""
    gfd = policy.spec.gfd
    return container(
        NAME,
        image,
        command=["gpu-feature-discovery"],
        args=gfd.args,
        env={
            "GFD_SLEEP_INTERVAL": "60s",
            "GFD_FAIL_ON_INIT_ERROR": "true",
            "NAMESPACE": NAMESPACE,
            "NODE_NAME": NODE_NAME,
            "POD_NAME": POD_NAME,
            **user_env(gfd.env),
            **plugin_config.env(policy),
            **gpu_access.mig_env(policy),
        },
        resources=gfd.resources,
        securityContext=PRIVILEGED,
        mounts=[
            mount("output-dir", _FEATURES),
            mount("host-sys", "/sys", read_only=True),
            *plugin_config.mounts(policy),
        ],
    )
