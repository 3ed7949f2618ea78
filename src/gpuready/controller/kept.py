"""What the operator keeps of the thousands: Nodes, and its own pods on them.

A large fleet is a few kinds of node many times over. What is the same on many is one object in memory, so
nobody may change what comes from here; what no decision asks for is left out. 5,000 nodes cost what 5,000
names, uids and versions cost.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import astuple

from gpuready import names
from gpuready.kube.trimmed import (
    Condition,
    ContainerStatus,
    Metadata,
    Node,
    NodeInfo,
    NodeSpec,
    NodeStatus,
    Pod,
    Taint,
    decode_pod,
    shared,
    shared_map,
)
from gpuready.operands.driver.digest import shown_config

# So many kinds of node, or of pod, are told apart; beyond that memory grows, and nothing else.
_KINDS = 1_000
# What NFD knows of a CPU is most of what a node's labels hold. A host's name is different on each.
_LEFT_OUT_LABELS = (f"{names.NFD_PREFIX}cpu-", "kubernetes.io/hostname")
_KEPT_CONDITIONS = ("Ready", names.GPU_READY_CONDITION)
_KEPT_POD_LABELS = ("app", names.OPERAND_LABEL, names.DRIVER_CONFIG_LABEL)

_Said = tuple[str, str, str]  # of a condition: type, status, reason


class _WireMetadata(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _WireCondition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""


class _WireInfo(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    architecture: str = ""
    operating_system: str = ""
    os_image: str = ""
    kernel_version: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""


class _WireStatus(msgspec.Struct, gc=False, rename="camel"):
    conditions: list[_WireCondition] = []
    node_info: _WireInfo = _WireInfo()


class _WireSpec(msgspec.Struct, gc=False):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class _WireNode(msgspec.Struct, gc=False):
    metadata: _WireMetadata
    spec: _WireSpec = msgspec.field(default_factory=_WireSpec)
    status: _WireStatus = msgspec.field(default_factory=_WireStatus)


_decode_node = msgspec.json.Decoder(_WireNode).decode


def decode_own_node(raw: bytes) -> Node:
    """Without what only the scheduler and users ask for: capacities, addresses, the kubelet's own worries.

    raises  msgspec.DecodeError
    """
    wire = _decode_node(raw)
    meta = wire.metadata
    said = tuple(
        (each.type, each.status, each.reason)
        for each in wire.status.conditions
        if each.type in _KEPT_CONDITIONS
    )
    return Node(
        metadata=Metadata(
            name=shared(meta.name),
            uid=meta.uid,
            resource_version=meta.resource_version,
            deletion_timestamp=meta.deletion_timestamp,
            labels=_without(meta.labels, _LEFT_OUT_LABELS),
            annotations=meta.annotations,
        ),
        spec=_spec(wire.spec.unschedulable, wire.spec.taints),
        status=_status(said, wire.status.node_info),
    )


def _without(labels: dict[str, str], left_out: tuple[str, ...]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if not key.startswith(left_out)}


@lru_cache(_KINDS)
def _spec(unschedulable: bool, taints: tuple[Taint, ...]) -> NodeSpec:
    return NodeSpec(unschedulable, list(taints))


@lru_cache(_KINDS)
def _status(said: tuple[_Said, ...], info: _WireInfo) -> NodeStatus:
    return NodeStatus(
        conditions=[Condition(*each) for each in said],
        node_info=NodeInfo(
            architecture=info.architecture,
            operating_system=info.operating_system,
            os_image=info.os_image,
            kernel_version=info.kernel_version,
            kubelet_version=info.kubelet_version,
            container_runtime_version=info.container_runtime_version,
        ),
    )


def decode_own_pod(raw: bytes) -> Pod:
    """Only what a verdict needs.

    raises  msgspec.DecodeError
    """
    pod = decode_pod(raw)
    meta, ready = pod.metadata, pod.condition("Ready")
    labels = {key: meta.labels[key] for key in _KEPT_POD_LABELS if key in meta.labels}
    return Pod(
        metadata=Metadata(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            creation_timestamp=shared(meta.creation_timestamp),
            deletion_timestamp=meta.deletion_timestamp,
            labels=labels,
            annotations=_NONE,
        ),
        node_name=pod.node_name,
        phase=pod.phase,
        reason=pod.reason,
        limits=_NO_LIMITS,
        node_selector=_NONE,
        conditions=_pod_conditions((ready.type, ready.status, ready.reason) if ready else None),
        containers=_containers(*map(astuple, pod.containers)),
        init_containers=_containers(*map(astuple, pod.init_containers)),
        controller=pod.controller,
    )


def decode_found_driver(raw: bytes) -> Pod:
    """The original's driver pod that was taken over: what it installed stands in its own spec only.

    raises  msgspec.DecodeError
    """
    pod = decode_own_pod(raw)
    shown = shown_config(msgspec.json.decode(raw).get("spec") or {})
    pod.metadata.labels = shared_map({**pod.metadata.labels, names.DRIVER_CONFIG_LABEL: shown})
    return pod


_NONE: dict[str, str] = {}
_NO_LIMITS: dict[str, int] = {}


@lru_cache(_KINDS)
def _pod_conditions(ready: _Said | None) -> list[Condition]:
    return [Condition(*ready)] if ready else []


@lru_cache(_KINDS)
def _containers(*said: tuple[Any, ...]) -> list[ContainerStatus]:
    return [ContainerStatus(*each) for each in said]
