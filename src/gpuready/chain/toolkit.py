"""Does the node's container runtime know the handlers of GPU pods, and do the CDI names of the node resolve.

Pure. Facts: the toolkit's own record, what the control plane wants, and the spec files. What the running
daemon answers counts; its files, looked at by the toolkit, explain it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from gpuready import names
from gpuready.chain.cdi_specs import SpecFacts, SpecProblem, problems_of
from gpuready.chain.cdi_support import RunningRuntime, support
from gpuready.chain.device_plugin import Problem
from gpuready.chain.verdict import Link, State, Verdict

DISABLED, OPTED_OUT, LEAVING = "Disabled", "OptedOut", "Leaving"
_WAITS = "WaitingFor"  # reasons that may end by themselves
_PAUSED = "paused"
_LABEL = "nvidia.com/gpu.deploy.container-toolkit"
_DAEMON_SET = "nvidia-container-toolkit-daemonset"
_LOOK = f"look at the pod of DaemonSet {_DAEMON_SET} on this node, if this lasts"
_MOST_EVIDENCE = 5


@dataclass(frozen=True)
class ToolkitRecord:
    """The toolkit's record file of this boot.

    whole     the running daemon knows the handlers, and the files say so too
    programs  behind its handlers
    cdi       it injects CDI devices; None = it does not say
    lacks     what the running daemon does not know yet
    notes     what is in its files and has no effect, with the file's name
    specs     why nobody keeps the node's CDI specs now
    """

    runtime: str = ""
    version: str = ""
    config: str = ""
    whole: bool = False
    handlers: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    cdi: bool | None = None
    lacks: tuple[str, ...] = ()
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
            programs=tuple(row.get("programs") or ()),
            cdi=row.get("cdi"),
            lacks=tuple(row.get("lacks") or ()),
            notes=tuple(row.get("notes") or ()),
            specs=tuple(row.get("specs") or ()),
            problem=Problem.from_json(row.get("problem")),
        )


@dataclass(frozen=True)
class ToolkitFacts:
    """Everything that `judge` may know.

    wanted        our toolkit is to run here; None while nobody has said
    original      NVIDIA's toolkit is: it writes no record, its validator's gate is all there is
    kept_away     the taint for which no pod of it comes here; one that runs already stays
    gate          the gate toolkit-ready is there
    installed     the runtime's configuration holds something of ours
    record        None when this boot's toolkit has not written one
    deploy_label  value of nvidia.com/gpu.deploy.container-toolkit ("" = absent)
    plugin_label  value of nvidia.com/gpu.deploy.device-plugin ("" = absent)
    specs         the CDI specs as they lie on the node
    strategies    by which the device plugin hands out GPUs; () = it has not said
    has_driver    the driver's link is whole: else files are missing for that reason, and that link says so
    """

    wanted: bool | None = None
    original: bool = False
    kept_away: Problem | None = None
    gate: bool = False
    installed: bool = False
    record: ToolkitRecord | None = None
    deploy_label: str = "true"
    plugin_label: str = ""
    specs: SpecFacts = field(default_factory=SpecFacts)
    strategies: tuple[str, ...] = ()
    has_driver: bool = True


def judge(facts: ToolkitFacts) -> Verdict:
    if facts.deploy_label.startswith(_PAUSED):
        return _verdict(State.WAITING, "Paused", f"paused: {_LABEL}={facts.deploy_label}")
    if facts.deploy_label not in ("", "true"):
        return _verdict(State.NOT_CHECKED, OPTED_OUT, f"opted out: {_LABEL}={facts.deploy_label}")
    if facts.original:
        return _by_the_original(facts)
    if facts.wanted is False and facts.installed:
        said = "the policy wants no container toolkit any more; it gives the runtime back what it had"
        return _verdict(State.NOT_CHECKED, LEAVING, said)
    if not facts.wanted:
        return _verdict(State.NOT_CHECKED, DISABLED, "the policy does not want a container toolkit")
    return (
        _without_record(facts)
        or _with_a_problem(facts)
        or _not_whole(facts)
        or _without_cdi(facts)
        or _with_specs_that_stop_pods(facts)
        or _with_hidden_settings(facts)
        or _with_wrong_specs(facts)
        or _known(facts)
    )


def _by_the_original(facts: ToolkitFacts) -> Verdict:
    if facts.gate:
        ready = _verdict(State.OK, "ToolkitReady", "NVIDIA's validator has found the toolkit ready")
        return _with_specs_that_stop_pods(facts) or _with_wrong_specs(facts) or ready
    if facts.kept_away:
        return _kept_away(facts.kept_away)
    return _verdict(State.WAITING, "ToolkitNotReady", "NVIDIA's toolkit is not ready yet", next_step=_LOOK)


def _without_record(facts: ToolkitFacts) -> Verdict | None:
    if facts.record is not None:
        return None
    if facts.kept_away:
        return _kept_away(facts.kept_away)
    return _verdict(
        State.WAITING,
        "ToolkitNotStarted",
        "the container toolkit has not reported since this boot",
        next_step=_LOOK,
    )


def _kept_away(problem: Problem) -> Verdict:
    return _verdict(State.BROKEN, problem.reason, problem.message, problem.evidence, problem.next_step)


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
    lacks = tuple(f"still: {each}" for each in record.lacks)
    return _verdict(State.WAITING, "ToolkitWorking", said, evidence=(*lacks, *record.notes), next_step=_LOOK)


def _without_cdi(facts: ToolkitFacts) -> Verdict | None:
    """The device plugin names CDI devices, and the runtime would start the container without them."""
    record = _record(facts)
    runtime = RunningRuntime(record.runtime, record.version, record.cdi, record.programs)
    found = support(facts.strategies, runtime)
    if found.usable or not found.why:
        return None
    step = f"{found.next_step}; the file is {record.config}" if record.config else found.next_step
    return _verdict(State.BROKEN, "CdiNotEnabled", found.why[0], found.why[1:], step)


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


def _with_specs_that_stop_pods(facts: ToolkitFacts) -> Verdict | None:
    if not facts.has_driver:
        return None
    found = problems_of(facts.specs)
    if not found or not found[0].stops_pods:
        return None
    if facts.plugin_label.startswith(_PAUSED) and found[0].file == names.PLUGIN_CDI_FILE:
        return _while_its_writer_is_paused(facts, found[0].problem)
    return _of_specs(facts, State.BROKEN, found)


def _while_its_writer_is_paused(facts: ToolkitFacts, problem: Problem) -> Verdict:
    """Another driver has come, and the device plugin writes its spec anew when it is back."""
    label = f"{names.DEPLOY_DEVICE_PLUGIN}={facts.plugin_label}"
    said = f"{names.PLUGIN_CDI_FILE} is of an earlier driver, and the device plugin that writes it is paused"
    back = f"kubectl label node NODE {names.DEPLOY_DEVICE_PLUGIN}=true --overwrite"
    step = f"when the new driver is there: {back}"
    return _verdict(State.WAITING, "PluginPaused", f"{said} ({label})", (problem.message,), step)


def _with_wrong_specs(facts: ToolkitFacts) -> Verdict | None:
    """The device plugin's own names resolve all the same: this concerns nvidia.com/gpu and management."""
    record = facts.record
    if record is not None and record.specs:
        said = f"{_named(record)} knows the handlers; {record.specs[0]}"
        return _verdict(State.DEGRADED, "CdiSpecsNotKept", said, record.specs[1:], _LOOK)
    found = problems_of(facts.specs)
    return _of_specs(facts, State.DEGRADED, found) if found else None


def _of_specs(facts: ToolkitFacts, state: State, found: list[SpecProblem]) -> Verdict:
    first, others = found[0].problem, [each.problem for each in found[1:]]
    about = f"{_named(facts.record)} knows the handlers; " if facts.record else ""
    more = tuple(f"{each.reason}: {each.message}" for each in others[:_MOST_EVIDENCE])
    evidence = (*first.evidence[:_MOST_EVIDENCE], *more)
    return _verdict(state, first.reason, f"{about}{first.message}", evidence, first.next_step)


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
    state: State, reason: str, message: str, evidence: tuple[str, ...] = (), next_step: str = ""
) -> Verdict:
    return Verdict(Link.TOOLKIT, state, reason, message, evidence, next_step)
