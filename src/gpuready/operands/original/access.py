"""Accounts of the originals' images, and the roles that hold an operand's rules. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuready.operands.contract import Access, ClusterView, KubeObject

_API = "rbac.authorization.k8s.io"
READ = ("get", "list", "watch")


def rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> KubeObject:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


# On OpenShift a privileged pod needs its account to be allowed this; elsewhere the rule says nothing.
USE_PRIVILEGED: KubeObject = {
    **rule("security.openshift.io", ["securitycontextconstraints"], ["use"]),
    "resourceNames": ["privileged"],
}
READ_NODES = rule("", ["nodes"], READ)


def account(
    name: str, access: Access, view: ClusterView, labels: Mapping[str, str] | None = None
) -> list[KubeObject]:
    """ServiceAccount, and a role with its binding in the namespace and in the cluster where there are rules.

    labels   of what stands in the namespace
    """
    subject = {"kind": "ServiceAccount", "name": name, "namespace": view.namespace}
    local: KubeObject = {"name": name, "namespace": view.namespace}
    if labels:
        local["labels"] = dict(labels)
    objects: list[KubeObject] = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": local}]
    if access.in_namespace:
        objects += granted("Role", local, access.in_namespace, subject)
    if access.in_cluster:
        objects += granted("ClusterRole", {"name": name}, access.in_cluster, subject)
    return objects


def granted(
    kind: str, metadata: KubeObject, rules: Sequence[KubeObject], subject: KubeObject
) -> list[KubeObject]:
    """A role and its binding of the same name."""
    return [
        {"apiVersion": f"{_API}/v1", "kind": kind, "metadata": metadata, "rules": list(rules)},
        {
            "apiVersion": f"{_API}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _API, "kind": kind, "name": metadata["name"]},
            "subjects": [subject],
        },
    ]
