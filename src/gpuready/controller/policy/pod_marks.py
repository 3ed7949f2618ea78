"""Our label on pods is worth nothing that a pod would have to be replaced for. Pure.

An object of the original that is taken over gets our label at once; the pods of a DaemonSet that runs already
what we want get it with the first change that replaces them anyway.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from gpuready import names
from gpuready.kube.apply import PREDECESSORS, taken_over
from gpuready.kube.compare import Difference, differences, dropped


def without_new_mark(desired: Mapping[str, Any], live: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """`desired`, or the same without our label on its pods where only that would replace them."""
    if live is None or desired["kind"] != "DaemonSet" or names.OPERAND_LABEL in _pod_labels(live):
        return desired
    unmarked = copy.deepcopy(dict(desired))
    _pod_labels(unmarked).pop(names.OPERAND_LABEL, None)
    return unmarked if _leaves_pods_alone(unmarked, live) else desired


def _leaves_pods_alone(desired: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    fields = taken_over(live["metadata"].get("managedFields") or (), PREDECESSORS, names.FIELD_MANAGER)
    ours = {**live, "metadata": {**live["metadata"], "managedFields": fields}}
    gone = [each for each in dropped(desired, ours, names.FIELD_MANAGER) if not _is_default(each)]
    return not any(each.path.startswith("spec.template") for each in (*differences(desired, live), *gone))


# What the API server fills in belongs to whoever wrote the object. Taken away, it is filled in again.
_DEFAULTS: dict[str, Any] = {
    "apiVersion": "v1",
    "defaultMode": 420,
    "dnsPolicy": "ClusterFirst",
    "failureThreshold": 3,
    "imagePullPolicy": "IfNotPresent",
    "periodSeconds": 10,
    "protocol": "TCP",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "scheme": "HTTP",
    "successThreshold": 1,
    "terminationGracePeriodSeconds": 30,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "timeoutSeconds": 1,
}


def _is_default(gone: Difference) -> bool:
    field = gone.path.rpartition(".")[2]
    return not gone.live or field == "serviceAccount" or _DEFAULTS.get(field) == gone.live


def _pod_labels(daemonset: Mapping[str, Any]) -> dict[str, str]:
    labels: dict[str, str] | None = daemonset["spec"].get("template", {}).get("metadata", {}).get("labels")
    return labels or {}
