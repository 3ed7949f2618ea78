"""What a running pod is not replaced for: names and wordings that change nothing of what it does. Pure.

Our own label on pods is not worth a restart, nor are Helm's marks, which change with every version of a
chart, nor the wording of a shell loop that waits, nor the order of variables and volumes, nor our note of the
ConfigMap that they have read: until that changes, the note stands on the DaemonSet itself. Where a DaemonSet
differs in nothing else, its pods' template stays as it runs; with the first change that replaces them anyway
all of it becomes ours.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from gpuready import names
from gpuready.kube.apply import PREDECESSORS, taken_over
from gpuready.kube.compare import Difference, differences, dropped
from gpuready.operands.driver.digest import DIGEST_ENV, digest_of, installs_alike
from gpuready.operands.original.plugin_config import DIGEST_ANNOTATION as CONFIG_DIGEST
from gpuready.operands.original.scripts import does_the_same

# The original's chart puts both on every pod, by way of spec.daemonsets.labels. The second alone is a user's.
CHART_LABELS = ("helm.sh/chart", "app.kubernetes.io/managed-by")


def sparing(desired: Mapping[str, Any], live: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """`desired`, or the same with the pods of `live` where only trifles would replace them."""
    if live is None or desired["kind"] != "DaemonSet":
        return desired
    desired = _keeping_the_driver(desired, live)
    if not _is_marked_otherwise(desired, live):
        return desired
    spared = copy.deepcopy(dict(desired))
    _keep_labels(_pod_labels(spared), _pod_labels(live))
    _keep_texts(spared, live)
    _keep_order(spared, live)
    _note_config(spared, live)
    return spared if _leaves_pods_alone(spared, live) else desired


def _keeping_the_driver(desired: Mapping[str, Any], live: Mapping[str, Any]) -> Mapping[str, Any]:
    """A driver that is installed the same way is called by the digest under which the node knows it.

    The original's is another hash of the same. With ours a pod that comes back after a takeover would install
    the loaded driver anew, and the workloads that use it would be evicted for that.
    """
    running = _template(live).get("spec") or {}
    known = digest_of(running)
    ours = digest_of(_template(desired).get("spec") or {})
    if known in ("", ours) or _is_by_hand(desired, live):
        return desired
    kept = copy.deepcopy(dict(desired))
    _keep_texts(kept, live)
    if not installs_alike(_template(kept)["spec"], running):
        return desired
    for container in _containers(kept):
        for row in container.get("env") or ():
            if row["name"] == DIGEST_ENV:
                row["value"] = known
    return kept


def _is_by_hand(desired: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """The digest is neither ours nor the original's: no node knows its driver by it."""
    writers = {each.manager for each in differences(desired, live) if f"[name={DIGEST_ENV}]" in each.path}
    return bool(writers - {names.FIELD_MANAGER, *PREDECESSORS, ""})


def _is_marked_otherwise(desired: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Pods that have all our marks run our texts too."""
    ours, running = _pod_labels(desired), _pod_labels(live)
    marks = (names.OPERAND_LABEL, *_chart_labels(ours, running))
    return any(ours.get(key) != running.get(key) for key in marks)


def _chart_labels(ours: Mapping[str, str], running: Mapping[str, str]) -> tuple[str, ...]:
    return CHART_LABELS if CHART_LABELS[0] in {*ours, *running} else ()


def _keep_labels(ours: dict[str, str], running: Mapping[str, str]) -> None:
    if names.OPERAND_LABEL not in running:
        ours.pop(names.OPERAND_LABEL, None)
    for key in _chart_labels(ours, running):
        if key in running:
            ours[key] = running[key]
        else:
            ours.pop(key, None)


def _keep_texts(ours: Mapping[str, Any], running: Mapping[str, Any]) -> None:
    there = {container["name"]: container for container in _containers(running)}
    for container in _containers(ours):
        args, texts = (each.get("args") or [] for each in (container, there.get(container["name"], {})))
        if len(args) == len(texts) == 1 and does_the_same(args[0], texts[0]):
            container["args"] = list(texts)


def _keep_order(ours: Mapping[str, Any], running: Mapping[str, Any]) -> None:
    """An applied list takes the order in which it is applied, and another order is another template."""
    there = {container["name"]: container for container in _containers(running)}
    for container in _containers(ours):
        _list_alike(container, there.get(container["name"], {}))
    _list_alike(_template(ours).get("spec") or {}, _template(running).get("spec") or {})


# Lists without a meaning of their order, and what tells their entries apart.
_UNORDERED = {"env": "name", "volumeMounts": "mountPath", "volumes": "name", "imagePullSecrets": "name"}


def _list_alike(ours: Any, running: Mapping[str, Any]) -> None:
    for name, key in _UNORDERED.items():
        if ours.get(name):
            place = {entry.get(key): number for number, entry in enumerate(running.get(name) or ())}
            ours[name] = sorted(ours[name], key=lambda entry: place.get(entry.get(key), len(place)))


def _note_config(ours: Mapping[str, Any], running: Mapping[str, Any]) -> None:
    """Pods of the original carry none; the one on their DaemonSet says with which content we found them."""
    noted, digest = (_annotations(each).get(CONFIG_DIGEST) for each in (running, _template(ours)))
    if digest and noted in (None, digest) and CONFIG_DIGEST not in _annotations(_template(running)):
        del _annotations(_template(ours))[CONFIG_DIGEST]
        ours["metadata"].setdefault("annotations", {})[CONFIG_DIGEST] = digest


def _annotations(obj: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] | None = obj.get("metadata", {}).get("annotations")
    return found or {}


def _template(daemonset: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = daemonset["spec"].get("template") or {}
    return found


def _containers(daemonset: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    pod = _template(daemonset).get("spec") or {}
    yield from pod.get("initContainers") or ()
    yield from pod.get("containers") or ()


def _leaves_pods_alone(desired: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    fields = taken_over(live["metadata"].get("managedFields") or (), PREDECESSORS, names.FIELD_MANAGER)
    ours = {**live, "metadata": {**live["metadata"], "managedFields": fields}}
    gone = [each for each in dropped(desired, ours, names.FIELD_MANAGER) if not is_default(each)]
    return not any(each.path.startswith("spec.template") for each in (*differences(desired, live), *gone))


# Here false and 0 say something that absence does not.
_MORE_THAN_ABSENT = (
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "defaultMode",
    "enableServiceLinks",
    "fsGroup",
    "mode",
    "runAsGroup",
    "runAsUser",
    "terminationGracePeriodSeconds",
)
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


def is_default(gone: Difference) -> bool:
    """Who takes it away gets it back from the API server, or what means the same."""
    field = gone.path.rpartition(".")[2]
    if not gone.live:
        return field not in _MORE_THAN_ABSENT
    return field == "serviceAccount" or _DEFAULTS.get(field) == gone.live


def _pod_labels(daemonset: Mapping[str, Any]) -> dict[str, str]:
    labels: dict[str, str] | None = _template(daemonset).get("metadata", {}).get("labels")
    return labels or {}
