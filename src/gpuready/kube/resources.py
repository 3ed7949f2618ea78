"""Where each kind lives in the API: group, version, plural, and whether it has a namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from gpuready import names


@dataclass(frozen=True)
class Resource:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path of the collection (no name) or of one object; all namespaces without `namespace`."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(parts)


def resource_of(obj: Mapping[str, Any]) -> Resource:
    """The resource of an object by its apiVersion and kind; raises KeyError for one not in this table."""
    return BY_KIND[(str(obj["apiVersion"]), str(obj["kind"]))]


def _core(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource("", "v1", plural, kind, namespaced)


def _rbac(plural: str, kind: str, *, namespaced: bool) -> Resource:
    return Resource("rbac.authorization.k8s.io", "v1", plural, kind, namespaced)


NODES = _core("nodes", "Node", namespaced=False)
NAMESPACES = _core("namespaces", "Namespace", namespaced=False)
PODS = _core("pods", "Pod")
CONFIGMAPS = _core("configmaps", "ConfigMap")
SECRETS = _core("secrets", "Secret")
SERVICES = _core("services", "Service")
SERVICE_ACCOUNTS = _core("serviceaccounts", "ServiceAccount")
EVENTS = _core("events", "Event")
DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet", True)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision", True)
ROLES = _rbac("roles", "Role", namespaced=True)
ROLE_BINDINGS = _rbac("rolebindings", "RoleBinding", namespaced=True)
CLUSTER_ROLES = _rbac("clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = _rbac("clusterrolebindings", "ClusterRoleBinding", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)
SERVICE_MONITORS = Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor", True)
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)


def _own(api_version: str, plural: str, kind: str) -> Resource:
    group, _, version = api_version.partition("/")
    return Resource(group, version, plural, kind, False)


CLUSTER_POLICIES = _own(names.CLUSTER_POLICY_API, names.CLUSTER_POLICIES, names.CLUSTER_POLICY_KIND)
GPU_NODES = _own(names.GPU_NODE_API, names.GPU_NODES, names.GPU_NODE_KIND)

ALL = tuple(value for value in globals().copy().values() if isinstance(value, Resource))
BY_KIND: dict[tuple[str, str], Resource] = {(r.api_version, r.kind): r for r in ALL}
