"""What the operator may do: its account, roles and bindings. Pure.

Kubernetes lets nobody grant what he may not do himself, so the operator's rules hold those of the node agent
and of every original image that it may install.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpuready import names
from gpuready.kube import resources
from gpuready.operands import registry
from gpuready.operands.node_agent import manifest as node_agent

Object = dict[str, Any]
OPERATOR = "gpuready-operator"
_API = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]
_OWN = [*_READ, "create", "patch", "delete"]
_CRDS = [
    f"{kind.plural}.{kind.group}"
    for kind in (resources.CLUSTER_POLICIES, resources.GPU_NODES, resources.SERVICE_MONITORS)
]


def operator_objects(namespace: str) -> list[Object]:
    """In the order in which they can be applied."""
    subject = {"kind": "ServiceAccount", "name": OPERATOR, "namespace": namespace}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": OPERATOR, "namespace": namespace},
        },
        _role(
            "ClusterRole",
            {"name": OPERATOR},
            [
                *_cluster_rules(namespace),
                *node_agent.RULES,
                *_each_once(rule for operand in registry.OPERANDS for rule in operand.access.in_cluster),
            ],
        ),
        _binding("ClusterRole", {"name": OPERATOR}, subject),
        _role(
            "Role",
            {"name": OPERATOR, "namespace": namespace},
            [
                *_namespace_rules(),
                *_each_once(rule for operand in registry.OPERANDS for rule in operand.access.in_namespace),
            ],
        ),
        _binding("Role", {"name": OPERATOR, "namespace": namespace}, subject),
    ]


def _cluster_rules(namespace: str) -> list[Object]:
    """Read policies, pods and nodes; label nodes; keep GPUNodes and the operands' roles; speak in Events."""
    own_namespace = {**_rule("", ["namespaces"], [*_READ, "patch"]), "resourceNames": [namespace]}
    return [
        _rule("nvidia.com", ["clusterpolicies"], _READ),
        _rule("nvidia.com", ["clusterpolicies/status"], ["patch"]),
        _rule("", ["nodes"], [*_READ, "patch"]),
        _rule("", ["nodes/status"], ["patch"]),
        own_namespace,
        _rule("", ["pods"], _READ),
        _rule("", ["events"], ["create", "patch"]),
        _rule("gpuready.dev", [names.GPU_NODES], _OWN),
        _rule(_API, ["clusterroles", "clusterrolebindings"], _OWN),
        _rule("node.k8s.io", ["runtimeclasses"], _OWN),
        # Where node-feature-discovery runs it is to be found, to say which taints keep it away.
        _rule("apps", ["daemonsets"], _READ),
        _rule("scheduling.k8s.io", ["priorityclasses"], _READ),
        {**_rule("apiextensions.k8s.io", ["customresourcedefinitions"], _READ), "resourceNames": _CRDS},
    ]


def _namespace_rules() -> list[Object]:
    """Its own namespace holds the operands, their accounts and settings, and the Lease of its leader."""
    return [
        _rule("", ["configmaps", "serviceaccounts", "services"], _OWN),
        # Whether those that the policy names exist; of their contents it asks for none.
        _rule("", ["secrets"], ["list", "watch"]),
        _rule("apps", ["daemonsets"], _OWN),
        _rule("coordination.k8s.io", ["leases"], [*_READ, "create", "update"]),
        _rule(_API, ["roles", "rolebindings"], _OWN),
        _rule("monitoring.coreos.com", ["servicemonitors"], _OWN),
    ]


def _each_once(rules: Iterable[Object]) -> list[Object]:
    """In the order given: several operands may do the same."""
    found: list[Object] = []
    for rule in rules:
        if rule not in found:
            found.append(rule)
    return found


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> Object:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _role(kind: str, metadata: Object, rules: list[Object]) -> Object:
    return {"apiVersion": f"{_API}/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _binding(kind: str, metadata: Object, subject: Object) -> Object:
    reference = {"apiGroup": _API, "kind": kind, "name": OPERATOR}
    return {
        "apiVersion": f"{_API}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": reference,
        "subjects": [subject],
    }
