"""The resources a bare API server offers: names, scope, subresources. A table, nothing else.

Source: kubernetes 1.37, api/discovery/*.json.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BuiltinResource:
    """One kind that is served without a CRD.

    storage   False: objects are only posted and answered (reviews), never kept
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    namespaced: bool
    categories: tuple[str, ...]
    subresources: tuple[str, ...]
    storage: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def _kind(
    group: str,
    kind: str,
    plural: str,
    short: str = "",
    *,
    namespaced: bool = True,
    categories: str = "",
    sub: str = "",
    storage: bool = True,
) -> BuiltinResource:
    return BuiltinResource(
        group=group,
        version="v1",
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        short_names=tuple(short.split()),
        namespaced=namespaced,
        categories=tuple(categories.split()),
        subresources=tuple(sub.split()),
        storage=storage,
    )


RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
DRA = "resource.k8s.io"
AUTHN = "authentication.k8s.io"
AUTHZ = "authorization.k8s.io"

BUILTINS: tuple[BuiltinResource, ...] = (
    _kind("", "ConfigMap", "configmaps", "cm"),
    _kind("", "Endpoints", "endpoints", "ep"),
    _kind("", "Event", "events", "ev"),
    _kind("", "LimitRange", "limitranges", "limits"),
    _kind("", "Namespace", "namespaces", "ns", namespaced=False, sub="finalize status"),
    _kind("", "Node", "nodes", "no", namespaced=False, sub="proxy status"),
    _kind("", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", sub="status"),
    _kind("", "PersistentVolume", "persistentvolumes", "pv", namespaced=False, sub="status"),
    _kind(
        "",
        "Pod",
        "pods",
        "po",
        categories="all",
        sub="attach binding ephemeralcontainers eviction exec log portforward proxy resize status",
    ),
    _kind("", "ReplicationController", "replicationcontrollers", "rc", categories="all", sub="scale status"),
    _kind("", "ResourceQuota", "resourcequotas", "quota", sub="status"),
    _kind("", "Secret", "secrets"),
    _kind("", "ServiceAccount", "serviceaccounts", "sa", sub="token"),
    _kind("", "Service", "services", "svc", categories="all", sub="proxy status"),
    _kind(
        ADMISSION,
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        namespaced=False,
        categories="api-extensions",
    ),
    _kind(
        ADMISSION,
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        namespaced=False,
        categories="api-extensions",
        sub="status",
    ),
    _kind(
        ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        namespaced=False,
        categories="api-extensions",
    ),
    _kind(
        ADMISSION,
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        namespaced=False,
        categories="api-extensions",
    ),
    _kind(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd crds",
        namespaced=False,
        categories="api-extensions",
        sub="status",
    ),
    _kind("apps", "ControllerRevision", "controllerrevisions"),
    _kind("apps", "DaemonSet", "daemonsets", "ds", categories="all", sub="status"),
    _kind("apps", "Deployment", "deployments", "deploy", categories="all", sub="scale status"),
    _kind("apps", "ReplicaSet", "replicasets", "rs", categories="all", sub="scale status"),
    _kind("apps", "StatefulSet", "statefulsets", "sts", categories="all", sub="scale status"),
    _kind(AUTHN, "SelfSubjectReview", "selfsubjectreviews", namespaced=False, storage=False),
    _kind(AUTHN, "TokenReview", "tokenreviews", namespaced=False, storage=False),
    _kind(AUTHZ, "LocalSubjectAccessReview", "localsubjectaccessreviews", storage=False),
    _kind(AUTHZ, "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False, storage=False),
    _kind(AUTHZ, "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False, storage=False),
    _kind(AUTHZ, "SubjectAccessReview", "subjectaccessreviews", namespaced=False, storage=False),
    _kind("batch", "CronJob", "cronjobs", "cj", categories="all", sub="status"),
    _kind("batch", "Job", "jobs", categories="all", sub="status"),
    _kind("coordination.k8s.io", "Lease", "leases"),
    _kind("discovery.k8s.io", "EndpointSlice", "endpointslices"),
    _kind("events.k8s.io", "Event", "events", "ev"),
    _kind("networking.k8s.io", "NetworkPolicy", "networkpolicies", "netpol"),
    _kind("node.k8s.io", "RuntimeClass", "runtimeclasses", namespaced=False),
    _kind("policy", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", sub="status"),
    _kind(RBAC, "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    _kind(RBAC, "ClusterRole", "clusterroles", namespaced=False),
    _kind(RBAC, "RoleBinding", "rolebindings"),
    _kind(RBAC, "Role", "roles"),
    _kind(DRA, "DeviceClass", "deviceclasses", namespaced=False),
    _kind(DRA, "ResourceClaim", "resourceclaims", sub="status"),
    _kind(DRA, "ResourceClaimTemplate", "resourceclaimtemplates"),
    _kind(DRA, "ResourceSlice", "resourceslices", namespaced=False),
    _kind("scheduling.k8s.io", "PriorityClass", "priorityclasses", "pc", namespaced=False),
    _kind("storage.k8s.io", "StorageClass", "storageclasses", "sc", namespaced=False),
)
