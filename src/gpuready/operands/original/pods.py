"""The DaemonSet of an original image: its own parts and what all of them share. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuready.api.blocks import ImageRef
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands import daemonset as shared
from gpuready.operands.contract import ClusterView, KubeObject
from gpuready.operands.original import gpu_access


@dataclass(frozen=True)
class Pod:
    """The parts in which the originals' DaemonSets differ.

    app            the label `app`; "" = the name
    images         blocks of the policy whose pull secrets the pod needs
    labels         beside `app`, on DaemonSet and pod, and in the selector
    marks          beside `app`, on DaemonSet and pod, not in the selector
    scc            OpenShift's security context constraints for it
    gpus_for       the container that sees all GPUs of the node; "" = none does
    host_network   use the node's network
    spec           further fields of the pod under their API names
    """

    name: str
    operand: str
    account: str
    node_selector: Mapping[str, str]
    containers: Sequence[KubeObject]
    app: str = ""
    init_containers: Sequence[KubeObject] = ()
    volumes: Sequence[KubeObject] = ()
    images: Sequence[ImageRef] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    scc: str = ""
    gpus_for: str = ""
    host_network: bool = False
    on_delete: bool = False
    spec: Mapping[str, object] = field(default_factory=dict)


def daemonset(pod: Pod, policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    """Source: object_controls.go:728, and operator.md §5.0."""
    root = _host_root_env(pod, policy)
    shape = shared.DaemonSetShape(
        name=pod.name,
        app=pod.app,
        operand=pod.operand,
        containers=[_with(root, each) for each in pod.containers],
        init_containers=[_with(root, each) for each in pod.init_containers],
        volumes=list({volume["name"]: volume for volume in pod.volumes}.values()),
        node_selector=pod.node_selector,
        service_account=pod.account,
        labels={**pod.labels, **pod.marks},
        selector=pod.labels,
        annotations={"openshift.io/scc": pod.scc} if pod.scc else {},
        pod_annotations={**pod.annotations, **gpu_annotations(pod, policy)},
        on_delete=pod.on_delete,
        mounts_token=None,
        spec={**_common(pod, policy, view), **pod.spec},
    )
    return shared.daemonset(shape, policy, view)


def gpu_annotations(pod: Pod, policy: ClusterPolicy) -> dict[str, str]:
    return gpu_access.pod_annotations(policy, pod.gpus_for) if pod.gpus_for else {}


def _common(pod: Pod, policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    spec = shared.block_fields(*pod.images, host_network=pod.host_network)
    if pod.gpus_for and (name := gpu_access.runtime_class(policy, view)):
        spec["runtimeClassName"] = name
    return spec


def _host_root_env(pod: Pod, policy: ClusterPolicy) -> list[KubeObject]:
    """Every container of a pod that mounts the host's root learns where that root is on the host."""
    root = policy.spec.host_paths.root_fs
    if root in ("", "/") or not any(volume["name"] == "host-root" for volume in pod.volumes):
        return []
    return [{"name": "HOST_ROOT", "value": root}]


def _with(env: list[KubeObject], container: KubeObject) -> KubeObject:
    """The container with these variables, unless the policy's env has set them."""
    there = container.get("env") or []
    missing = [row for row in env if row["name"] not in {each["name"] for each in there}]
    return {**container, "env": [*there, *missing]} if missing else container
