"""Does the node's container runtime know the handlers of GPU pods, and inject CDI devices.

Pure. Facts: the toolkit's own record, and what the control plane wants. What the running daemon answers
counts; its files, looked at by the toolkit, explain it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from gpuready.chain.device_plugin import Problem
from gpuready.chain.verdict import Link, State, Verdict

DISABLED, OPTED_OUT = "Disabled", "OptedOut"
_WAITS = "WaitingFor"  # reasons that may end by themselves
_PAUSED = "paused"
_LABEL = "nvidia.com/gpu.deploy.container-toolkit"
_DAEMON_SET = "nvidia-container-toolkit-daemonset"


@dataclass(frozen=True)
class ToolkitRecord:
    """The toolkit's record file of this boot.

    whole     the running daemon knows the handlers, and the files say so too
    cdi       it injects CDI devices; None = it does not say
    notes     what is in its files and has no effect, with the file's name
    specs     what is wrong with the node's CDI specs
    """

    runtime: str = ""
    version: str = ""
    config: str = ""
    whole: bool = False
    handlers: tuple[str, ...] = ()
    cdi: bool | None = None
    notes: tuple[str, ...] = ()
    specs: tuple[str, ...] = ()
    problem: Problem | None = None

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        runtime = row.get("runtime") or {}
        return cls(
            runtime=str(runtime.get("name") or ""),
            version=str(runtime.get("version") or ""),
            config=str(runtime.get("config") or ""),
            whole=bool(row.get("whole")),
            handlers=tuple(row.get("handlers") or ()),
            cdi=row.get("cdi"),
            notes=tuple(row.get("notes") or ()),
            specs=tuple(row.get("specs") or ()),
            problem=Problem.from_json(row.get("problem")),
        )


@dataclass(frozen=True)
class ToolkitFacts:
    """Everything that `judge` may know.

    wanted        our toolkit is to run here; None while nobody has said
    original      NVIDIA's toolkit is: it writes no record, its validator's gate is all there is
    gate          the gate toolkit-ready is there
    record        None when this boot's toolkit has not written one
    deploy_label  value of nvidia.com/gpu.deploy.container-toolkit ("" = absent)
    settled       nothing of the above has changed for a while
    """

    wanted: bool | None = None
    original: bool = False
    gate: bool = False
    record: ToolkitRecord | None = None
    deploy_label: str = "true"
    settled: bool = True


def judge(facts: ToolkitFacts) -> Verdict:
    if facts.deploy_label.startswith(_PAUSED):
        return _verdict(State.WAITING, "Paused", f"paused: {_LABEL}={facts.deploy_label}")
    if facts.deploy_label not in ("", "true"):
        return _verdict(State.NOT_CHECKED, OPTED_OUT, f"opted out: {_LABEL}={facts.deploy_label}")
    if facts.original:
        return _by_the_original(facts)
    if not facts.wanted:
        return _verdict(State.NOT_CHECKED, DISABLED, "the policy does not want a container toolkit")
    return (
        _without_record(facts)
        or _with_a_problem(facts)
        or _not_whole(facts)
        or _with_hidden_settings(facts)
        or _with_wrong_specs(facts)
        or _known(facts)
    )


def _by_the_original(facts: ToolkitFacts) -> Verdict:
    if facts.gate:
        return _verdict(State.OK, "ToolkitReady", "NVIDIA's validator has found the toolkit ready")
    step = f"look at the pod of DaemonSet {_DAEMON_SET} on this node, if this lasts"
    return _verdict(State.WAITING, "ToolkitNotReady", "NVIDIA's toolkit is not ready yet", next_step=step)


def _without_record(facts: ToolkitFacts) -> Verdict | None:
    if facts.record is not None:
        return None
    return _verdict(
        State.WAITING,
        "ToolkitNotStarted",
        "the container toolkit has not reported since this boot",
        next_step=f"look at the pod of DaemonSet {_DAEMON_SET} on this node, if this lasts",
    )


def _with_a_problem(facts: ToolkitFacts) -> Verdict | None:
    record = _record(facts)
    problem = record.problem
    if problem is None:
        return None
    waits = problem.reason.startswith(_WAITS)
    return Verdict(
        Link.TOOLKIT,
        State.WAITING if waits else State.BROKEN,
        problem.reason,
        f"{_named(record)}: {problem.message}",
        (*problem.evidence, *record.notes),
        problem.next_step,
    )


def _not_whole(facts: ToolkitFacts) -> Verdict | None:
    record = _record(facts)
    if record.whole:
        return None
    said = f"{_named(record)} is being taught the handlers of GPU pods"
    return _verdict(State.WAITING, "ToolkitWorking", said, evidence=record.notes)


def _with_hidden_settings(facts: ToolkitFacts) -> Verdict | None:
    """The handlers are there, and something that an administrator wrote is not in force."""
    record = _record(facts)
    if not record.notes:
        return None
    return _verdict(
        State.DEGRADED,
        "SettingsWithoutEffect",
        f"{_named(record)} knows the handlers; {record.notes[0]}",
        evidence=record.notes[1:],
        next_step=f"merge the lines of the other file into {record.config}, or remove it",
    )


def _with_wrong_specs(facts: ToolkitFacts) -> Verdict | None:
    """The device plugin's own names resolve all the same: this concerns nvidia.com/gpu and management."""
    record = _record(facts)
    if not record.specs:
        return None
    return _verdict(
        State.DEGRADED,
        "CdiSpecsNotTrue",
        f"{_named(record)} knows the handlers; {record.specs[0]}",
        evidence=record.specs[1:],
        next_step="mend what it names and the spec is written anew; on the node: gpuready cdi check",
    )


def _known(facts: ToolkitFacts) -> Verdict:
    record = _record(facts)
    ours = [name for name in record.handlers if name.startswith("nvidia")] or list(record.handlers)
    cdi = {True: ", CDI is enabled", False: ", CDI is not enabled", None: ""}[record.cdi]
    said = f"{_named(record)} knows the handlers {', '.join(ours)}{cdi}"
    return _verdict(State.OK, "HandlersKnown", said)


def _named(record: ToolkitRecord) -> str:
    return f"{record.runtime} {record.version}".strip() or "the container runtime"


def _record(facts: ToolkitFacts) -> ToolkitRecord:
    assert facts.record is not None
    return facts.record


def _verdict(
    state: State, reason: str, message: str, *, evidence: tuple[str, ...] = (), next_step: str = ""
) -> Verdict:
    return Verdict(Link.TOOLKIT, state, reason, message, evidence, next_step)
