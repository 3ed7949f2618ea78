"""A forecast as people read it: what hurts first, one fact a line, numbers last. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gpuready.chain.wording import counted
from gpuready.tools.plan.forecast import Fate, Field, Forecast, LabelChange, PodFate, Workload
from gpuready.tools.terminal import joined

_VERBS = {Fate.CREATED: "create", Fate.CHANGED: "change", Fate.PRUNED: "delete"}
_POD_VERBS = {
    PodFate.RESTARTS: ("restart", ""),
    PodFate.STARTS: ("start", ""),
    PodFate.STOPS: ("stop", ""),
    PodFate.OUTDATED: ("keep", "; the pod there takes up the change when somebody deletes it"),
}
_MOST_NAMED = 8
_LONGEST_VALUE = 60
# Follows from a field that is shown.
_NOISE = ("spec.devicePlugin.configDigest",)
_TOLD_IN_WORDS = ("spec.driver.trouble", "spec.devicePlugin.error", "spec.devicePlugin.refused")


def text_of(forecast: Forecast) -> str:
    return joined([*_lines(forecast), _summary(forecast)])


def _lines(forecast: Forecast) -> Iterator[str]:
    if forecast.ignored_for:
        yield _line("wait", forecast.policy, f"{forecast.ignored_for} is older and stays in force")
    for problem in forecast.problems:
        yield _line("refuse", forecast.policy, problem)
    for operand in forecast.refused:
        yield _line("refuse", operand.name, operand.refused)
        yield _line("", "next", operand.next_step)
    why, step = forecast.agent_refused
    if why:
        yield _line("refuse", "node-agent", why)
        yield _line("", "next", step)
    for obstacle in forecast.obstacles:
        yield _line("refuse", f"{obstacle.operand} {obstacle.kind} {obstacle.name}", obstacle.message)
        yield _line("", "next", obstacle.next_step)
    yield from _trouble_lines(forecast)
    yield from _workload_lines(forecast.workloads)
    yield from _pod_lines(forecast)
    yield from _object_lines(forecast)
    yield from _label_lines(forecast.labels)
    if forecast.namespace_labels:
        yield _line("label", "the operator's namespace", "by the operator")
        yield from _labels_of(forecast.namespace_labels)
    yield from _gpu_node_lines(forecast)
    for operand in forecast.operands:
        if operand.images:
            yield _line("run", operand.name, f"{_WHOSE[operand.flavour]}: {', '.join(operand.images)}")
    for name in forecast.not_implemented:
        yield _line("skip", name, "enabled, and not installed by this version")
    for path in forecast.unknown_fields:
        yield _line("ignore", path, "nobody knows this field")
    for told in forecast.no_effect:
        path, _, why = told.partition(": ")
        yield _line("ignore", path, why)
    for remark in forecast.remarks:
        yield f"note    {remark}"


def _line(verb: str, subject: str, rest: str = "") -> str:
    return f"{verb:<7} {subject}  {rest}".rstrip()


_WHOSE = {"own": "gpuready's", "original": "the original's"}


def _trouble_lines(forecast: Forecast) -> Iterator[str]:
    """The same words about many nodes are said once."""
    told = [(each.node, trouble) for each in forecast.gpu_nodes for trouble in each.troubles]
    for trouble, those in _grouped(told, lambda each: each[1]):
        yield _line("warn", _listed(node for node, _ in those), f"{trouble.link}: {trouble.message}")
        if trouble.next_step:
            yield _line("", "next", trouble.next_step)


# --- workloads and pods -----------------------------------------------------------------------------------


def _workload_lines(workloads: Sequence[Workload]) -> Iterator[str]:
    for why, those in _grouped(workloads, lambda each: each.why):
        yield _line("DISTURB", _listed(f"{each.pod} ({_held(each.holds)})" for each in those), why)


def _held(holds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {resource}" for resource, count in holds.items())


def _pod_lines(forecast: Forecast) -> Iterator[str]:
    for fate, (verb, more) in _POD_VERBS.items():
        those = [pod for pod in forecast.pods if pod.fate is fate]
        for daemonset, pods in _grouped(those, lambda pod: pod.daemonset):
            yield _line(verb, daemonset, f"on {_listed(pod.node for pod in pods)}{more}")


# --- objects and nodes ------------------------------------------------------------------------------------


def _object_lines(forecast: Forecast) -> Iterator[str]:
    """A changed object with its fields; what comes or goes is named operand by operand."""
    for change in forecast.of_fate(Fate.CHANGED):
        why = change.why if change.why != "desired changed" else ""
        yield _line("change", f"{change.kind} {change.full_name}", why)
        yield from _field_lines(change.fields)
    for fate in (Fate.CREATED, Fate.PRUNED):
        for (operand, why), those in _grouped(forecast.of_fate(fate), lambda each: (each.operand, each.why)):
            told = ", ".join(f"{each.kind} {each.name}" for each in those)
            yield _line(_VERBS[fate], operand, f"{told} ({why} by the original)" if why else told)


def _field_lines(fields: Iterable[Field]) -> Iterator[str]:
    for each in fields:
        if each.path not in _NOISE and not each.path.startswith(_TOLD_IN_WORDS):
            yield _line("", f"  {each.path}", f"{_value(each.old)} -> {_value(each.new)}")


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def _label_lines(labels: Sequence[LabelChange]) -> Iterator[str]:
    """The same change of many nodes is said once."""
    for (by, changed), those in _grouped(labels, lambda each: (each.by, each.labels)):
        yield _line("label", _listed(each.node for each in those), f"by the {by.replace('-', ' ')}")
        yield from _labels_of(changed)


def _labels_of(changed: Mapping[str, str | None]) -> Iterator[str]:
    for key, value in changed.items():
        yield f"          {key}={value}" if value is not None else f"          {key}- (goes)"


def _gpu_node_lines(forecast: Forecast) -> Iterator[str]:
    for (fate, fields), those in _grouped(forecast.gpu_nodes, lambda each: (each.fate, each.fields)):
        yield _line(_VERBS[fate], f"GPUNode {_listed(each.node for each in those)}")
        if fate is Fate.CHANGED:
            yield from _field_lines(fields)


def _grouped(rows: Iterable[Any], key: Callable[[Any], Any]) -> list[tuple[Any, list[Any]]]:
    """(key, its rows) in the order of first appearance; keys may hold lists, so they are compared as text."""
    found: dict[bytes, tuple[Any, list[Any]]] = {}
    for row in rows:
        value = key(row)
        found.setdefault(msgspec.json.encode(value), (value, []))[1].append(row)
    return list(found.values())


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - _MOST_NAMED
    return ", ".join(every[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


# --- the last line ----------------------------------------------------------------------------------------


_ENDS = {
    PodFate.STARTS: "to start",
    PodFate.STOPS: "to stop",
    PodFate.RESTARTS: "to restart",
    PodFate.OUTDATED: "to wait",
}


def _summary(forecast: Forecast) -> str:
    if forecast.problems:
        return f"{counted(len(forecast.problems), 'problem')}: what runs would be left as it is"
    if not forecast.changes_something:
        return "nothing would change"
    wishes = Counter(each.fate for each in forecast.gpu_nodes)
    labels = sum(len(each.labels) for each in forecast.labels)
    nodes = len({each.node for each in forecast.labels})
    parts = [
        *(
            f"{counted(len(forecast.of_fate(fate)), 'object')} {fate}"
            for fate in Fate
            if forecast.of_fate(fate)
        ),
        *(f"{counted(count, 'pod')} {_ENDS[fate]}" for fate in PodFate if (count := forecast.count(fate))),
        *([f"{counted(labels, 'label')} on {counted(nodes, 'node')}"] if labels else []),
        *([f"{counted(own, 'label')} on the namespace"] if (own := len(forecast.namespace_labels)) else []),
        *(f"{counted(count, 'GPUNode')} {fate}" for fate, count in sorted(wishes.items())),
    ]
    touched = len(forecast.workloads)
    ends = f"{counted(touched, 'workload')} disturbed" if touched else "no workload is touched"
    return ", ".join([*parts, ends])
