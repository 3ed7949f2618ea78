"""What every DaemonSet of ours shares: labels, tolerations, priority, update strategy, volumes.

Pure builders of plain Kubernetes objects; the policy's `daemonsets` block is applied here, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from gpuready import names
from gpuready.api.blocks import EnvVar, ImageRef, ResourceRequirements
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import ClusterView, KubeObject

# Any value and any effect of the well-known key: a taint `nvidia.com/gpu=true:NoSchedule` on the node must
# not keep away the very programs that make its GPUs usable.
GPU_TOLERATION: KubeObject = {"key": names.GPU_TAINT, "operator": "Exists"}
RESERVED_ENV = frozenset(
    {
        names.GATES_DIR_ENV,
        names.DESIRED_DIR_ENV,
        names.RECORDS_DIR_ENV,
        names.ROOT_ENV,
        "GPUREADY_HEALTH_PORT",
        "NODE_IP",
        "NODE_NAME",
        "POD_IP",
        "POD_IPS",
    }
)
HOST_TO_CONTAINER = "HostToContainer"
BIDIRECTIONAL = "Bidirectional"


@dataclass(frozen=True)
class HostMount:
    """A hostPath volume together with where the container sees it."""

    name: str
    host_path: str
    mount_path: str = ""  # "" = the same path
    type: str = "DirectoryOrCreate"
    propagation: str = ""
    read_only: bool = False

    def volume(self) -> KubeObject:
        source = {"path": self.host_path, "type": self.type} if self.type else {"path": self.host_path}
        return {"name": self.name, "hostPath": source}

    def mount(self) -> KubeObject:
        mount: KubeObject = {"name": self.name, "mountPath": self.mount_path or self.host_path}
        if self.propagation:
            mount["mountPropagation"] = self.propagation
        if self.read_only:
            mount["readOnly"] = True
        return mount


def host_root(policy: ClusterPolicy) -> HostMount:
    """The host's file system, to be read; the policy may say that it is elsewhere than at /."""
    root = policy.spec.host_paths.root_fs or "/"
    return HostMount("host-root", root, "/host", "Directory", HOST_TO_CONTAINER, read_only=True)


def kubelet_path(policy: ClusterPolicy, name: str) -> str:
    """A directory of the kubelet on the host; inside our containers it is always at the standard place."""
    return f"{policy.spec.host_paths.kubelet_root_dir.rstrip('/')}/{name}"


@dataclass(frozen=True)
class DaemonSetShape:
    """The parts in which our DaemonSets differ.

    app              the label `app`; "" = the name
    selector         labels beside `app` by which the DaemonSet finds its pods
    annotations      of the DaemonSet; pod_annotations: of its pods
    mounts_token     None leaves it to the account
    spec             further fields of the pod under their API names
    """

    name: str
    operand: str
    containers: Sequence[KubeObject]
    node_selector: Mapping[str, str]
    service_account: str
    app: str = ""
    volumes: Sequence[KubeObject] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[KubeObject] = (GPU_TOLERATION,)
    init_containers: Sequence[KubeObject] = ()
    host_pid: bool = False
    affinity: KubeObject | None = None
    on_delete: bool = False
    grace_period_s: int | None = None
    mounts_token: bool | None = False
    selector: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, object] = field(default_factory=dict)


def daemonset(shape: DaemonSetShape, policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    """The DaemonSet object with the policy's `daemonsets` block applied.

    Source: gpu-operator v26.3.3, controllers/object_controls.go:728 (order and meaning of the transforms).
    """
    block = policy.spec.daemonsets
    selector = {"app": shape.app or shape.name, **shape.selector}
    template_labels = {**selector, names.OPERAND_LABEL: shape.operand, **shape.labels}
    extra_labels = {k: v for k, v in block.labels.items() if _is_free(k) and k not in template_labels}
    pod: KubeObject = {
        "serviceAccountName": shape.service_account,
        "priorityClassName": block.priority_class_name or "system-node-critical",
        "nodeSelector": dict(shape.node_selector),
        "tolerations": _tolerations(shape, policy),
        "containers": list(shape.containers),
        **shape.spec,
    }
    if shape.mounts_token is not None:
        pod["automountServiceAccountToken"] = shape.mounts_token
    if shape.init_containers:
        pod["initContainers"] = list(shape.init_containers)
    if shape.volumes:
        pod["volumes"] = list(shape.volumes)
    if shape.host_pid:
        pod["hostPID"] = True
    if shape.affinity:
        pod["affinity"] = shape.affinity
    if shape.grace_period_s is not None:
        pod["terminationGracePeriodSeconds"] = shape.grace_period_s
    if block.pod_security_context:
        pod["securityContext"] = block.pod_security_context
    template: KubeObject = {"metadata": {"labels": {**template_labels, **extra_labels}}, "spec": pod}
    if annotations := {**shape.pod_annotations, **block.annotations}:
        template["metadata"]["annotations"] = annotations
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": _metadata(shape, policy, view),
        "spec": {
            "selector": {"matchLabels": selector},
            "updateStrategy": _update_strategy(shape, policy),
            "template": template,
        },
    }


def block_fields(*blocks: ImageRef, host_network: bool = False) -> KubeObject:
    """What blocks of the policy say of a whole pod: their pull secrets, and whose network it uses.

    A name that says nothing, as templates of values leave them behind, is none.
    """
    fields: KubeObject = {}
    if secrets := dict.fromkeys(secret for block in blocks for secret in block.image_pull_secrets if secret):
        fields["imagePullSecrets"] = [{"name": secret} for secret in secrets]
    if host_network:
        fields |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return fields


def service_account(name: str, view: ClusterView) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": view.namespace},
    }


def env_list(env: Mapping[str, str], fields: Mapping[str, str] | None = None) -> list[KubeObject]:
    """Container env: literal values first, then downward-API fields (`name -> fieldPath`)."""
    literal = [{"name": name, "value": value} for name, value in env.items()]
    refs = [{"name": n, "valueFrom": {"fieldRef": {"fieldPath": p}}} for n, p in (fields or {}).items()]
    return [*literal, *refs]


def with_user_env(env: list[KubeObject], user: Iterable[EnvVar]) -> list[KubeObject]:
    """The policy's env applied last: an existing name is overwritten in place, a new one appended.

    Where the daemons of a node meet, and who they are, is not the policy's to change.
    """
    merged = {item["name"]: item for item in env}
    for item in user:
        if item.name not in RESERVED_ENV:
            merged[item.name] = {"name": item.name, "value": item.value}
    return list(merged.values())


def with_resources(container: KubeObject, asked: ResourceRequirements) -> KubeObject:
    resources = msgspec.to_builtins(asked)
    return {**container, "resources": resources} if resources else container


def http_probe(path: str, port: int, *, period_s: int, failures: int = 3, delay_s: int = 0) -> KubeObject:
    probe: KubeObject = {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": period_s,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }
    return {**probe, "initialDelaySeconds": delay_s} if delay_s else probe


def start_probe(path: str, port: int) -> KubeObject:
    """Looks every second until the first answer; the delay spares every healthy start a Warning event."""
    return http_probe(path, port, period_s=1, failures=120, delay_s=1)


def _is_free(key: str) -> bool:
    """Labels by which we find our own pods are not the policy's to set."""
    return key not in ("app", "app.kubernetes.io/part-of") and not key.startswith("gpuready.dev/")


def _metadata(shape: DaemonSetShape, policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    block = policy.spec.daemonsets
    labels = {
        "app": shape.app or shape.name,
        names.OPERAND_LABEL: shape.operand,
        **shape.labels,
        **block.labels,
    }
    metadata: KubeObject = {"name": shape.name, "namespace": view.namespace, "labels": labels}
    if annotations := {**shape.annotations, **block.annotations}:
        metadata["annotations"] = annotations
    return metadata


def _tolerations(shape: DaemonSetShape, policy: ClusterPolicy) -> list[KubeObject]:
    """The policy's list replaces ours, as in the original; the agent's own (it tolerates all) stays."""
    asked = policy.spec.daemonsets.tolerations
    if not asked or {"operator": "Exists"} in shape.tolerations:
        return list(shape.tolerations)
    return [msgspec.to_builtins(toleration) for toleration in asked]


def _update_strategy(shape: DaemonSetShape, policy: ClusterPolicy) -> KubeObject:
    block = policy.spec.daemonsets
    if shape.on_delete or block.update_strategy == "OnDelete":
        return {"type": "OnDelete"}
    limit = block.rolling_update.max_unavailable
    if not limit:
        return {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}
    number: int | str = int(limit) if limit.isdigit() else limit
    return {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": number}}
