"""What a saved bundle and the files that people give must look like for the tools to read them. Pure."""

from __future__ import annotations

from gpuready.shape import Each, Needed

_META = Needed(
    {
        "name": str,
        "namespace": str,
        "uid": str,
        "labels": Each(str),
        "annotations": Each(str),
        "generation": int,
        "resourceVersion": str,
        "creationTimestamp": str,
        "deletionTimestamp": str,
    },
    ("name",),
)
_TAINT = {"key": str, "value": str, "effect": str}
_TOLERATION = {**_TAINT, "operator": str}
_EXPRESSIONS = [{"key": str, "operator": str, "values": [str]}]
_TERMS = {"nodeSelectorTerms": [{"matchExpressions": _EXPRESSIONS, "matchFields": _EXPRESSIONS}]}
_PLACEMENT = {
    "nodeSelector": Each(str),
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _TERMS}},
    "tolerations": [_TOLERATION],
}
_CONDITIONS = [
    {
        "type": str,
        "status": str,
        "reason": str,
        "message": str,
        "lastHeartbeatTime": str,
        "lastTransitionTime": str,
    }
]
_CONTAINERS = [{"name": str, "restartPolicy": str, "resources": {"limits": {}, "requests": {}}}]
_CONTAINER_STATE = {
    "waiting": {"reason": str, "message": str},
    "running": {"startedAt": str},
    "terminated": {"reason": str, "message": str, "exitCode": int},
}
_CONTAINER_STATUSES = [{"restartCount": int, "state": _CONTAINER_STATE, "lastState": _CONTAINER_STATE}]
_NODE = Needed(
    {
        "metadata": _META,
        "spec": {"taints": [_TAINT], "unschedulable": bool},
        "status": {
            "conditions": _CONDITIONS,
            "capacity": {},
            "allocatable": {},
            "nodeInfo": {
                "bootID": str,
                "architecture": str,
                "kernelVersion": str,
                "containerRuntimeVersion": str,
            },
        },
    },
    ("metadata",),
)
_POD = Needed(
    {
        "metadata": _META,
        "spec": {"nodeName": str, "containers": _CONTAINERS, "initContainers": _CONTAINERS, **_PLACEMENT},
        "status": {
            "phase": str,
            "conditions": _CONDITIONS,
            "containerStatuses": _CONTAINER_STATUSES,
            "initContainerStatuses": _CONTAINER_STATUSES,
        },
    },
    ("metadata",),
)
_TEMPLATE = Needed({"spec": _PLACEMENT}, ("spec",))
_DAEMONSET = Needed(
    {"metadata": _META, "spec": Needed({"template": _TEMPLATE}, ("template",))}, ("metadata", "spec")
)
_VERDICT = Needed(
    {
        "link": str,  # a newer node agent may know more links and states than `Link` and `State`
        "state": str,
        "reason": str,
        "message": str,
        "evidence": [str],
        "nextStep": str,
    },
    ("link", "state"),
)
_GPU_NODE = Needed(
    {"metadata": _META, "status": {"chain": [_VERDICT], "gpus": int, "healthy": int, "bootID": str}},
    ("metadata",),
)
_POLICY_OPERAND = {"name": str, "state": str, "reason": str, "message": str}
_POLICY = Needed(
    {
        "metadata": _META,
        "status": {"state": str, "conditions": _CONDITIONS, "operands": [_POLICY_OPERAND]},
    },
    ("metadata",),
)
_LEASE_META = Needed({"name": str, "namespace": str}, ("name", "namespace"))
_LEASE_SPEC = {"holderIdentity": str, "leaseDurationSeconds": int, "renewTime": str}
_LEASE = Needed({"metadata": _LEASE_META, "spec": _LEASE_SPEC}, ("metadata",))
_DEPLOYMENT = Needed({"namespace": str, "name": str, "ready": int}, ("namespace", "name"))
BUNDLE = {
    "lease": _LEASE,
    "operator": {"namespace": str, "gone": bool, "deployments": [_DEPLOYMENT]},
    "takenAt": str,
    "missing": [str],
    "nodes": [_NODE],
    "gpunodes": [_GPU_NODE],
    "pods": [_POD],
    "daemonsets": [_DAEMONSET],
    "clusterpolicies": [_POLICY],
}

# --- files ------------------------------------------------------------------------------------------------

NODES = [_NODE]
CONFIG_MAPS = [Needed({"metadata": _META, "data": Each(str), "binaryData": Each(str)}, ("metadata",))]
POLICY_FILE = {"metadata": _META}
