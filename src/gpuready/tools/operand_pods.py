"""What the pod of an operand says of a link that does not work: it crashes, waits, or is not there at all.

Pure. The node knows only the last words of a daemon; whether that daemon runs, the API server knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuready import names
from gpuready.chain.kept_away import kept_away
from gpuready.chain.reporting import STUCK
from gpuready.chain.verdict import Link, State, Verdict
from gpuready.tools import placement
from gpuready.tools.placement import Object, labels_of, name_of

OPERAND_OF: Mapping[str, str] = {
    Link.DRIVER: "driver",
    Link.TOOLKIT: "toolkit",
    Link.DEVICE_PLUGIN: "device-plugin",
}
# Verdicts that would be another one if the operand's pod ran as it should.
_NEED_THE_POD: Mapping[str, Sequence[str]] = {
    Link.DRIVER: ("DriverInstalling",),
    Link.TOOLKIT: ("ToolkitNotStarted", "ToolkitNotReady", "ToolkitWorking"),
    Link.DEVICE_PLUGIN: (
        "PluginNotStarted",
        "PluginNotRunning",
        "PluginNotRegistered",
        "Registering",
        "KubeletShowsNothing",
        "CdiSpecStale",
    ),
}
# The device plugin is not meant to work yet, whatever its pod does.
_NOT_ITS_TURN = ("WaitingForDriver", "Paused")


def explained(verdict: Verdict, pod: Object | None, daemonsets: Sequence[Object], node: Object) -> Verdict:
    """The verdict with what is known of the operand's pod on this node; None = there is no pod."""
    needs_pod = verdict.reason in _NEED_THE_POD[verdict.link]
    if pod is None:
        return _without_pod(verdict, daemonsets, node) if needs_pod else verdict
    if not needs_pod and not (verdict.link is Link.DEVICE_PLUGIN and _may_be_blamed(verdict)):
        return verdict
    reason = _stuck_by(pod, verdict)
    if reason:
        return _stuck(verdict, pod, reason)
    return _with_pod(verdict, pod) if needs_pod else verdict


def node_of(pod: Object) -> str:
    """Where it is, or where the DaemonSet controller wants it: a pod that found no room has no node yet."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms")
    fields = [row for term in terms or () for row in term.get("matchFields") or ()]
    named = [row.get("values") or () for row in fields if row.get("key") == "metadata.name"]
    return str(named[0][0]) if named and named[0] else ""


def waiting_of(pod: Object) -> Mapping[str, Any]:
    """Why its first container that waits does so; nothing when none does."""
    states = [(row.get("state") or {}).get("waiting") for row in _statuses(pod)]
    return next((state for state in states if state), {})


def lines_of(pods: Iterable[Object], most: int) -> list[str]:
    """What keeps pods from being ready; the same reason of many is one line, with some of them by name.

    most   lines, and pods by name in each
    """
    by_reason: dict[str, list[str]] = {}
    for pod in pods:
        if why := _why_not_ready(pod):
            by_reason.setdefault(why, []).append(f"{_full_name(pod)} on {node_of(pod) or 'no node'}")
    return [f"{_named(places, most)}: {why}" for why, places in list(by_reason.items())[:most]]


def _named(places: Sequence[str], most: int) -> str:
    more = len(places) - most
    word = "pod" if len(places) == 1 else "pods"
    return f"{word} {', '.join(places[:most])}{f' and {more} more' if more > 0 else ''}"


def _why_not_ready(pod: Object) -> str:
    """In one line; "" for one that is."""
    if _is_ready(pod):
        return ""
    waiting = waiting_of(pod)
    ended = next((end for row in _statuses(pod) if _failed(end := _end(row, "lastState"))), None)
    why = str(
        waiting.get("reason") or _unscheduled(pod) or (pod.get("status") or {}).get("phase") or "no status"
    )
    said = str(waiting.get("message") or (_end_text(ended) if ended else _unready(pod)))
    return " ".join(f"{why}{': ' if said else ''}{said}".split())


# --- there is a pod ---------------------------------------------------------------------------------------


def _may_be_blamed(verdict: Verdict) -> bool:
    return verdict.holds_up and verdict.reason not in _NOT_ITS_TURN


def _stuck_by(pod: Object, verdict: Verdict) -> str:
    """Why it will not come up by itself; "" when it may. One that runs between two crashes is stuck too."""
    waiting = str(waiting_of(pod).get("reason") or "")
    if waiting in STUCK:
        return waiting
    ended = next((end for row in _statuses(pod) if _failed(end := _end(row, "state"))), None)
    if ended is None and verdict.state is State.BROKEN and not _is_ready(pod):
        ended = next((end for row in _statuses(pod) if _failed(end := _end(row, "lastState"))), None)
    return str(ended.get("reason") or "Error") if ended else ""


def _stuck(verdict: Verdict, pod: Object, reason: str) -> Verdict:
    name = _full_name(pod)
    ends = [end for row in _statuses(pod) if (end := _end(row, "state") or _end(row, "lastState"))]
    lines = [*(_end_text(end) for end in ends[:1]), str(waiting_of(pod).get("message") or "")]
    does = "crashes" if ends else "does not start"
    before = () if verdict.state is State.WAITING else (f"said last: {verdict.message}",)
    look = f"kubectl logs -n {name.replace('/', ' ')} --all-containers"
    return Verdict(
        verdict.link,
        State.BROKEN,
        reason,
        f"the {OPERAND_OF[verdict.link]} pod {name} {does}: {reason}",
        evidence=(*(line for line in lines if line), *verdict.evidence, *before),
        next_step=f"{look}{' --previous' if ends else ''}, and kubectl describe pod",
    )


def _with_pod(verdict: Verdict, pod: Object) -> Verdict:
    """It runs, or is about to: one that is not up yet is the reason for anything its daemon lacks."""
    name = _full_name(pod)
    waiting = waiting_of(pod)
    if _is_running(pod):
        return replace(verdict, evidence=(*verdict.evidence, f"pod {name} is there"))
    why = str(waiting.get("reason") or _unscheduled(pod) or (pod.get("status") or {}).get("phase") or "")
    line = f"pod {name} does not run yet{': ' if why else ''}{why}"
    step = f"kubectl describe pod -n {name.replace('/', ' ')}, if this lasts"
    return replace(verdict, evidence=(line, *verdict.evidence), next_step=step)


def _unscheduled(pod: Object) -> str:
    return _condition(pod, "PodScheduled")


def _unready(pod: Object) -> str:
    return _condition(pod, "Ready")


def _condition(pod: Object, type_: str) -> str:
    rows = (pod.get("status") or {}).get("conditions") or ()
    return next((str(row.get("message") or "") for row in rows if row.get("type") == type_), "")


def _is_running(pod: Object) -> bool:
    return any((row.get("state") or {}).get("running") is not None for row in _statuses(pod))


def _is_ready(pod: Object) -> bool:
    rows = (pod.get("status") or {}).get("conditions") or ()
    return any(row.get("type") == "Ready" and row.get("status") == "True" for row in rows)


def _statuses(pod: Object) -> list[Mapping[str, Any]]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _end(status: Mapping[str, Any], when: str) -> Mapping[str, Any]:
    """`when` is state or lastState."""
    return (status.get(when) or {}).get("terminated") or {}


def _failed(end: Mapping[str, Any]) -> bool:
    return bool(end.get("exitCode"))


def _end_text(end: Mapping[str, Any]) -> str:
    said = f"; {end['message']}" if end.get("message") else ""
    return f"last run ended with exit status {end.get('exitCode')} ({end.get('reason') or 'no reason'}){said}"


def _full_name(pod: Object) -> str:
    return f"{pod['metadata'].get('namespace')}/{name_of(pod)}"


# --- there is none ----------------------------------------------------------------------------------------


def _without_pod(verdict: Verdict, daemonsets: Sequence[Object], node: Object) -> Verdict:
    operand = OPERAND_OF[verdict.link]
    own = [obj for obj in daemonsets if labels_of(obj).get(names.OPERAND_LABEL) == operand]
    if not own:
        step = "check that the operator runs, and read its log: it makes the DaemonSet"
        return _absent(verdict, f"there is no DaemonSet for the {operand}", step)
    taints = {taint for obj in own for taint in placement.taints_against_daemonset(node, obj)}
    if taints:
        return _kept_away(verdict, operand, name_of(own[0]), sorted(taints))
    unmatched = [placement.unmatched_selector(node, obj["spec"]["template"]["spec"]) for obj in own]
    if all(unmatched):
        labels = ", ".join(unmatched[0])
        why = f"DaemonSet {name_of(own[0])} does not select this node: it asks for {labels}"
        step = f"label the node {labels}; labels under {_DEPLOY} are set by the operator: check that it runs"
        return _absent(verdict, why, step)
    why = f"DaemonSet {name_of(own[0])} has no pod on this node yet"
    namespace = own[0]["metadata"].get("namespace")
    return _absent(
        verdict, why, f"kubectl describe daemonset -n {namespace} {name_of(own[0])}, if this lasts"
    )


_DEPLOY = "nvidia.com/gpu.deploy."


def _absent(verdict: Verdict, why: str, step: str) -> Verdict:
    """The reason stays: it is what the node says of itself."""
    message = f"no {OPERAND_OF[verdict.link]} runs on this node: {why}"
    evidence = (f"the node says: {verdict.message}", *verdict.evidence)
    return replace(verdict, message=message, evidence=evidence, next_step=step)


def _kept_away(verdict: Verdict, operand: str, daemonset: str, taints: Sequence[str]) -> Verdict:
    found = kept_away(operand, daemonset, taints)
    return Verdict(verdict.link, State.BROKEN, found.reason, found.message, verdict.evidence, found.next_step)
