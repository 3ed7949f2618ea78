"""Does the device plugin offer this node's GPUs, and does the kubelet show them.

Pure. Facts: the plugin's own record, the Node's capacity and allocatable, what the control plane asks for,
and the driver's verdict. What the kubelet shows counts; the record explains it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from gpuready.chain.verdict import Link, State, Verdict
from gpuready.chain.wording import counted

# Reasons of a plugin that somebody does not want here: not checked, and the node offers no GPU.
DISABLED, OPTED_OUT = "Disabled", "OptedOut"
IGNORES_CDI = "RuntimeIgnoresCdi"  # the toolkit may be about to change that
PAUSED = "paused"  # begins the value of a deploy label
_WAITS = "WaitingFor"  # reasons of the plugin's own that may end by themselves
_DRIVER_MISSED = ("NvmlLibraryNotFound", "DriverNotLoaded", "DriverLibraryMismatch")
_NOT_REGISTERED = "NotRegistered"
_STOPPED = "has been stopped"  # words of the plugin's last message when it ends in an orderly way
_MOST_NAMED = 4  # devices that a message names before it counts the rest


@dataclass(frozen=True)
class Problem:
    """Something that stands in the way, as a daemon or the control plane tells it."""

    reason: str
    message: str
    next_step: str = ""
    evidence: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, row: Mapping[str, Any] | None) -> Self | None:
        if not row:
            return None
        return cls(
            reason=str(row.get("reason") or "Unknown"),
            message=str(row.get("message") or "no message given"),
            next_step=str(row.get("nextStep") or ""),
            evidence=tuple(str(line) for line in row.get("evidence") or ()),
        )


@dataclass(frozen=True)
class DeviceHealth:
    """One physical GPU as the plugin sees it.

    xid           code of the last XID, 0 = none
    mig_enabled   it is cut into partitions, or is about to be
    """

    uuid: str
    index: int
    healthy: bool
    reason: str = ""
    xid: int = 0
    action: str = ""
    mig_enabled: bool = False


@dataclass(frozen=True)
class Offered:
    """One resource as the plugin told the kubelet: devices advertised and how many of them are healthy."""

    name: str
    devices: int
    healthy: int


@dataclass(frozen=True)
class PluginRecord:
    """The plugin's record file of this boot."""

    registered: bool
    resources: tuple[Offered, ...] = ()
    devices: tuple[DeviceHealth, ...] = ()
    config_name: str = ""
    config_error: Problem | None = None
    problem: Problem | None = None
    cdi_driver_version: str = ""
    absent: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        config = row.get("config") or {}
        return cls(
            registered=bool(row.get("registered")),
            resources=tuple(
                Offered(item["name"], int(item["devices"]), int(item["healthy"]))
                for item in row.get("resources") or ()
            ),
            devices=tuple(_health_of(item) for item in row.get("devices") or ()),
            config_name=str(config.get("name") or ""),
            config_error=Problem.from_json(config.get("error")),
            problem=Problem.from_json(row.get("problem")),
            cdi_driver_version=str((row.get("cdi") or {}).get("driverVersion") or ""),
            absent=tuple(str(each) for each in row.get("absent") or ()),
        )


def _health_of(row: Mapping[str, Any]) -> DeviceHealth:
    xid = row.get("lastXid") or {}
    return DeviceHealth(
        uuid=str(row["uuid"]),
        index=int(row.get("index", 0)),
        healthy=row.get("health") == "Healthy",
        reason=str(row.get("message") or row.get("reason") or ""),
        xid=int(xid.get("code") or 0),
        action=_BY_RECOVERY.get(str(row.get("recovery")), str(xid.get("action") or "")),
        mig_enabled=bool(row.get("migEnabled")),
    )


@dataclass(frozen=True)
class Desired:
    """What the control plane asks of the plugin; `has_config` False = there is nothing valid to run with.

    original  NVIDIA's plugin is to offer the GPUs: it writes no record, so what the kubelet shows is all
    kept_away   the taint for which no pod of it comes here; one that runs already stays
    refused   why the operator does not run the plugin as the policy asks; one that runs already is left
    """

    enabled: bool = True
    original: bool = False
    refused: Problem | None = None
    kept_away: Problem | None = None
    has_config: bool = True
    error: Problem | None = None
    config_name: str = ""


@dataclass(frozen=True)
class PluginFacts:
    """Everything that `judge` may know.

    toolkit         None where nobody judges it
    desired         None while there is no GPUNode
    record          None when this boot's plugin has not written one
    deploy_label    value of nvidia.com/gpu.deploy.device-plugin ("" = absent)
    opted_out_by    label "key=value" that keeps every operand off the node, "" = none
    capacity, allocatable   of the Node, only names under nvidia.com/; allocatable None = not known
    driver_version  that the driver link found; "" = unknown
    settled         nothing of the above changed for the kubelet's status period: what differs now, stays
    """

    driver: Verdict
    toolkit: Verdict | None = None
    desired: Desired | None = None
    record: PluginRecord | None = None
    deploy_label: str = "true"
    opted_out_by: str = ""
    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] | None = field(default_factory=dict)
    driver_version: str = ""
    settled: bool = True


def judge(facts: PluginFacts) -> Verdict:
    unwanted = _unwanted(facts)
    if unwanted:
        return unwanted
    if not facts.driver.is_whole:
        return _verdict(State.WAITING, "WaitingForDriver", f"for driver: {facts.driver.reason}")
    if facts.desired and facts.desired.original:
        return _by_the_original(facts)
    return (
        _without_config(facts)
        or _without_record(facts)
        or _with_a_problem(facts)
        or _unregistered(facts)
        or _kubelet_disagrees(facts)
        or _cdi_is_stale(facts)
        or _offered(facts)
    )


def _unwanted(facts: PluginFacts) -> Verdict | None:
    if facts.driver.state is State.NOT_CHECKED:
        return _verdict(State.NOT_CHECKED, facts.driver.reason, facts.driver.message)
    if facts.deploy_label.startswith(PAUSED):
        said = f"paused: nvidia.com/gpu.deploy.device-plugin={facts.deploy_label}"
        return _verdict(State.WAITING, "Paused", said)
    if facts.deploy_label not in ("", "true"):
        said = f"opted out: nvidia.com/gpu.deploy.device-plugin={facts.deploy_label}"
        return _not_ours(facts, OPTED_OUT, said)
    if not facts.desired or facts.desired.enabled or facts.desired.original:
        return None
    if facts.desired.refused:
        return _as_told(facts.desired.refused, State.BROKEN)
    if facts.opted_out_by and not facts.deploy_label:
        return _not_ours(facts, OPTED_OUT, f"opted out: {facts.opted_out_by}")
    return _not_ours(facts, DISABLED, "the policy does not want a device plugin")


def _by_the_original(facts: PluginFacts) -> Verdict:
    shown = {name: count for name, count in (facts.allocatable or {}).items() if count}
    if shown:
        told = ", ".join(f"{name}: {count}" for name, count in sorted(shown.items()))
        return _verdict(State.OK, "Registered", f"NVIDIA's device plugin offers {told}")
    had = ", ".join(sorted(name for name, count in facts.capacity.items() if count))
    step = "look at the pod of DaemonSet nvidia-device-plugin-daemonset on this node, if this lasts"
    if had and facts.settled and facts.allocatable is not None:
        said = f"the node has {had}, and nothing of it is allocatable: unhealthy, or the plugin has gone"
        return _verdict(State.BROKEN, "NoHealthyDevices", said, next_step=step)
    if facts.desired and facts.desired.kept_away:
        return _as_told(facts.desired.kept_away, State.BROKEN)
    return _verdict(
        State.WAITING, "PluginNotStarted", "NVIDIA's device plugin offers nothing yet", next_step=step
    )


def _not_ours(facts: PluginFacts, reason: str, why: str) -> Verdict:
    """Somebody wants it so: nothing is wrong, but only another program can then offer the GPUs."""
    others = {name: count for name, count in (facts.allocatable or {}).items() if count}
    if not others:
        return _verdict(State.NOT_CHECKED, reason, why)
    said = ", ".join(f"{name}: {count}" for name, count in sorted(others.items()))
    return _verdict(State.NOT_CHECKED, "OfferedByOthers", f"{why}; the node offers {said} without it")


def _without_config(facts: PluginFacts) -> Verdict | None:
    if not facts.desired or facts.desired.has_config:
        return None
    error = facts.desired.error
    if error is None:
        return _verdict(State.WAITING, "ConfigPending", "the operator has not resolved a configuration yet")
    return _as_told(error, State.BROKEN)


def _without_record(facts: PluginFacts) -> Verdict | None:
    if facts.record is not None:
        return None
    if not facts.desired:
        said = "the operator has not said yet what it wants of this node"
        return _verdict(State.WAITING, "ConfigPending", said)
    if facts.desired.kept_away:
        return _as_told(facts.desired.kept_away, State.BROKEN)
    return _verdict(
        State.WAITING,
        "PluginNotStarted",
        "the device plugin has not reported since this boot",
        next_step="look at the pod of DaemonSet nvidia-device-plugin-daemonset on this node, if this lasts",
    )


def _with_a_problem(facts: PluginFacts) -> Verdict | None:
    """The plugin is not registered and says why; that it is about to be is no reason."""
    record = _record(facts)
    problem = record.problem
    if problem is None or problem.reason == _NOT_REGISTERED:
        return None
    if problem.reason.startswith(_WAITS):
        return _as_told(problem, State.WAITING)
    if problem.reason == IGNORES_CDI and facts.toolkit and facts.toolkit.state is State.WAITING:
        return _verdict(State.WAITING, "WaitingForToolkit", f"for toolkit: {facts.toolkit.reason}")
    if record.registered:
        return None
    # Driver and toolkit are whole: a plugin that still misses what they have brought is about to look again.
    is_behind = problem.reason in (*_DRIVER_MISSED, IGNORES_CDI) and not facts.settled
    return _as_told(problem, State.WAITING if is_behind else State.BROKEN)


def _unregistered(facts: PluginFacts) -> Verdict | None:
    record = _record(facts)
    if record.registered:
        return None
    if record.config_error:
        return _as_told(record.config_error, State.BROKEN)
    if not facts.settled:
        return _verdict(
            State.WAITING, "Registering", "the device plugin is about to register with the kubelet"
        )
    last = record.problem.message if record.problem else ""
    if _STOPPED in last:
        return _verdict(
            State.BROKEN,
            "PluginNotRunning",
            f"the device plugin is not running (it said last: {last})",
            next_step="look at the pod of DaemonSet nvidia-device-plugin-daemonset on this node",
        )
    why = f": {last}" if last else ""
    return _verdict(
        State.BROKEN,
        "PluginNotRegistered",
        f"the device plugin is not registered with the kubelet{why}",
        next_step="check that the kubelet runs and that /var/lib/kubelet/device-plugins/kubelet.sock exists",
    )


def _kubelet_disagrees(facts: PluginFacts) -> Verdict | None:
    """Registered, and yet the kubelet shows nothing to schedule on."""
    if facts.allocatable is None:
        return None
    shown_by_kubelet = facts.allocatable
    offered = [item for item in _record(facts).resources if item.healthy]
    hidden = [item for item in offered if not shown_by_kubelet.get(item.name)]
    if not hidden:
        return None
    told = ", ".join(f"{item.healthy} {item.name}" for item in hidden)
    if not facts.settled:
        said = f"registered with {told}; the kubelet has not shown it on the Node yet"
        return _verdict(State.WAITING, "KubeletCatchingUp", said)
    shown = ", ".join(
        f"{item.name} capacity {facts.capacity.get(item.name, 0)}, "
        f"allocatable {shown_by_kubelet.get(item.name, 0)}"
        for item in hidden
    )
    return _verdict(
        State.BROKEN,
        "KubeletShowsNothing",
        f"the device plugin says that it is registered with {told}, but the Node shows none",
        evidence=(shown,),
        next_step="the plugin has died or the kubelet has lost it: look at the plugin's pod, then restart it",
    )


def _cdi_is_stale(facts: PluginFacts) -> Verdict | None:
    written_for = _record(facts).cdi_driver_version
    if not written_for or not facts.driver_version or written_for == facts.driver_version:
        return None
    said = f"the CDI spec names files of driver {written_for}, but driver {facts.driver_version} runs"
    if not facts.settled:
        return _verdict(State.WAITING, "CdiSpecPending", said)
    return _verdict(
        State.BROKEN,
        "CdiSpecStale",
        f"{said}: new containers fail at creation",
        next_step="delete the device plugin's pod on this node; it writes the spec anew",
    )


def _offered(facts: PluginFacts) -> Verdict:
    record = _record(facts)
    if not record.devices:
        said = "the device plugin is registered without a single device"
        return _verdict(
            State.BROKEN, "NoDevices", said, next_step="read the device plugin's log on this node"
        )
    unhealthy = [device for device in record.devices if not device.healthy]
    none_left = len(unhealthy) == len(record.devices)
    if record.problem:
        return _as_told(record.problem, State.BROKEN if none_left else State.DEGRADED)
    if none_left:
        return _unhealthy(record, unhealthy, State.BROKEN, "NoHealthyDevices")
    if unhealthy:
        return _unhealthy(record, unhealthy, State.DEGRADED, "UnhealthyDevices")
    error = record.config_error or (facts.desired.error if facts.desired else None)
    if error:
        return _on_last_good(record, error)
    if facts.desired and facts.desired.refused:
        return _as_before(record, facts.desired.refused)
    if record.absent:
        return _without_what_was_asked(record)
    if partitioned := [device for device in record.devices if device.mig_enabled]:
        return _partitions_not_offered(record, partitioned)
    return _verdict(State.OK, "Registered", _told(record.resources))


def _without_what_was_asked(record: PluginRecord) -> Verdict:
    """GPUs work; GPUDirect Storage, GDRCopy or an IMEX channel is wanted and not on this node."""
    said = f"{_told(record.resources)}; containers start without {' and '.join(record.absent)}"
    step = (
        "load the kernel module that makes the nodes, or take the wish out of the policy (gds, gdrcopy, imex)"
    )
    return _verdict(State.DEGRADED, "DeviceClassAbsent", said, next_step=step)


def _partitions_not_offered(record: PluginRecord, partitioned: Sequence[DeviceHealth]) -> Verdict:
    """Ours knows whole GPUs alone: CUDA then uses one partition, or finds none."""
    which = [str(device.index) for device in partitioned[:_MOST_NAMED]]
    more = len(partitioned) - len(which)
    named = ", ".join(which) + (f" and {more} more" if more else "")
    are = "is" if len(partitioned) == 1 else "are"
    said = f"GPU {named} {are} in MIG mode and offered whole: a program finds one partition there, or no GPU"
    step = (
        f"switch MIG off (nvidia-smi -i {','.join(which)} -mig 0), or name NVIDIA's device plugin in "
        "spec.devicePlugin (repository, image, version): it offers partitions"
    )
    return _verdict(
        State.DEGRADED, "PartitionsNotOffered", f"{_told(record.resources)}; {said}", next_step=step
    )


def _unhealthy(record: PluginRecord, unhealthy: Sequence[DeviceHealth], state: State, reason: str) -> Verdict:
    lines = [health_line(device) for device in unhealthy]
    named = lines if len(lines) <= _MOST_NAMED else [*lines[:_MOST_NAMED], f"{len(lines) - _MOST_NAMED} more"]
    actions = dict.fromkeys(advice(device.action, device.index) for device in unhealthy)
    return _verdict(
        state,
        reason,
        f"{len(unhealthy)} of {counted(len(record.devices), 'GPU')} unhealthy: {'; '.join(named)}",
        evidence=tuple(lines[_MOST_NAMED:]),
        next_step="; ".join(list(actions)[:_MOST_NAMED]),
    )


def health_line(device: DeviceHealth) -> str:
    """`GPU 3 (GPU-…): XID 109, …`: which, what, as one phrase."""
    said = device.reason or ("healthy" if device.healthy else "unhealthy, no reason given")
    if device.xid and "xid" not in said.lower():
        said = f"XID {device.xid}, {said}"
    return f"GPU {device.index} ({device.uuid}): {said}"


_ADVICE = {
    "ResetGpu": "reset GPU {index} once nothing uses it (nvidia-smi --gpu-reset -i {index})",
    "RebootNode": "reboot the node: GPU {index} comes back only so",
    "Observe": "GPU {index} is offered again after some clean looks at it; reset it if they do not come",
    "RestartApplication": "restart the program that used GPU {index}",
    "CheckApplication": "look at the program that used GPU {index}",
}
_BY_RECOVERY = {
    "reset": "ResetGpu",
    "reset-and-no-pending-remap": "ResetGpu",
    "reboot": "RebootNode",
    "clean-probes": "Observe",
}


def advice(action: str, index: int) -> str:
    """What a person does: the health engine's word as a sentence, any other word as it is."""
    text = _ADVICE.get(action, action) or "look at the kernel log, then reset GPU {index} or reboot the node"
    return text.replace("{index}", str(index))


def _on_last_good(record: PluginRecord, error: Problem) -> Verdict:
    in_force = (
        f'configuration "{record.config_name}"' if record.config_name else "the last good configuration"
    )
    return _verdict(
        State.DEGRADED,
        error.reason,
        f"{error.message}; {in_force} stays in force ({_told(record.resources)})",
        evidence=error.evidence,
        next_step=error.next_step,
    )


def _as_before(record: PluginRecord, refused: Problem) -> Verdict:
    return _verdict(
        State.DEGRADED,
        refused.reason,
        f"{refused.message}; the device plugin that runs stays as it is ({_told(record.resources)})",
        next_step=refused.next_step,
    )


def _told(resources: Sequence[Offered]) -> str:
    return ", ".join(f"{item.name}: {item.healthy} of {item.devices}" for item in resources)


def _as_told(problem: Problem, state: State) -> Verdict:
    return _verdict(
        state,
        problem.reason,
        problem.message,
        evidence=problem.evidence,
        next_step=problem.next_step,
    )


def _record(facts: PluginFacts) -> PluginRecord:
    assert facts.record is not None
    return facts.record


def _verdict(
    state: State, reason: str, message: str, *, evidence: tuple[str, ...] = (), next_step: str = ""
) -> Verdict:
    return Verdict(Link.DEVICE_PLUGIN, state, reason, message, evidence, next_step)
