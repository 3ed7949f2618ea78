"""Health of one GPU over time: a state and what each new fact makes of it.

Pure: facts and the time are given. The feed (gpu/feed.py) brings the facts; the device plugin tells the
kubelet; records, conditions and Events show reason, XID, time and action.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuready.gpu.inventory import GPU
from gpuready.gpu.xid import Policy, Recovery

_WEIGHT = {recovery: weight for weight, recovery in enumerate(Recovery)}
_RESET_ACTIONS = (1, 3, 4, 6)
_REBOOT_ACTIONS = (2, 7)
_QUIET_PROBES = 5
# A reset may be over before the first probe: this many probes in a row in which the driver itself says
# that nothing is to be done count as its word for it. After fewer it may not have made up its mind.


@dataclass(frozen=True)
class LastXid:
    code: int
    time: float
    action: str


@dataclass(frozen=True)
class Health:
    """One GPU's state.

    recovery      what ends an unhealthy state
    last_xid      the XID that made it unhealthy; while healthy, the last one seen
    clean_probes  in a row since it became unhealthy
    reset_seen    a reset was seen since it became unhealthy
    needs_reset   the driver itself asked for a reset since then
    energy_mj     as last probed; it goes back only at a reset
    answered      whether the last probe was answered
    """

    healthy: bool = True
    reason: str = ""
    message: str = ""
    recovery: Recovery = Recovery.NONE
    last_xid: LastXid | None = None
    since: float = 0.0
    clean_probes: int = 0
    reset_seen: bool = False
    needs_reset: bool = False
    energy_mj: int | None = None
    answered: bool = True


@dataclass(frozen=True)
class Probe:
    """One look at a GPU: None where the driver does not tell.

    error            "" when it answered; else NVML's name for the refusal
    recovery_action  as NVML numbers it: 0 none, 1 reset, 2 reboot, ...
    """

    error: str = ""
    lost: bool = False
    reset_required: bool = False
    recovery_action: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    energy_mj: int | None = None

    @property
    def answers(self) -> bool:
        return not self.error

    @property
    def wants_reset(self) -> bool:
        return self.reset_required or self.recovery_action in _RESET_ACTIONS

    @property
    def wants_reboot(self) -> bool:
        return self.recovery_action in _REBOOT_ACTIONS

    @property
    def is_clean(self) -> bool:
        return self.answers and not self.wants_reset and not self.wants_reboot and not self.remap_failed


def probe_of(gpu: GPU) -> Probe:
    """What the inventory already tells of a GPU's health."""
    return Probe(
        recovery_action=gpu.recovery_action,
        remap_pending=gpu.remap_pending,
        remap_failed=gpu.remap_failed,
    )


def after_xid(health: Health, code: int, now: float, policy: Policy) -> Health:
    """A critical XID was raised."""
    rule = policy.rule_of(code)
    xid = LastXid(code, now, rule.action)
    if rule.is_healthy:
        return replace(health, last_xid=xid) if health.healthy else health
    text = f"XID {code}: {rule.meaning}"
    return _unhealthy(health, rule.reason, text, rule.recovery, now, xid)


def after_probe(health: Health, probe: Probe, now: float, policy: Policy) -> Health:
    """The GPU was looked at."""
    seen = _with_reset_evidence(health, probe)
    trouble = _trouble_of(probe)
    if trouble is not None:
        reason, text, recovery = trouble
        worse = seen.healthy or _WEIGHT[recovery] > _WEIGHT[seen.recovery]
        seen = _unhealthy(seen, reason, text, recovery, now, seen.last_xid) if worse else seen
        return replace(seen, clean_probes=0)
    if seen.healthy:
        return seen
    seen = replace(seen, clean_probes=seen.clean_probes + 1)
    return _healthy(seen, now) if _is_over(seen, probe, policy) else seen


def after_reenumeration(health: Health, now: float) -> Health:
    """The node rebooted, or the GPU was gone from the bus and has come back: a new life."""
    return _healthy(health, now) if not health.healthy else health


def _trouble_of(probe: Probe) -> tuple[str, str, Recovery] | None:
    """What a probe alone says against the GPU: the driver's own recovery action first."""
    if probe.lost:
        return "GpuLost", "the GPU does not answer: it has fallen off the bus", Recovery.REBOOT
    if probe.wants_reboot:
        return "RebootRequired", "the driver asks for a reboot of the node", Recovery.REBOOT
    if probe.wants_reset:
        return "GpuResetRequired", "the driver asks for a reset of the GPU", Recovery.RESET
    if probe.remap_failed:
        return "RowRemapFailed", "a memory row could not be remapped", Recovery.REMAP
    if not probe.answers:
        return "GpuNotAnswering", f"NVML answers {probe.error}", Recovery.CLEAN_PROBES
    return None


def _with_reset_evidence(health: Health, probe: Probe) -> Health:
    """A reset shows as a wish for it that is gone, an energy counter that went back or a break in answers."""
    went_back = (
        probe.energy_mj is not None and health.energy_mj is not None and probe.energy_mj < health.energy_mj
    )
    granted = health.needs_reset and probe.answers and probe.recovery_action == 0 and not probe.wants_reset
    returned = probe.answers and not health.answered
    return replace(
        health,
        reset_seen=health.reset_seen or went_back or granted or returned,
        needs_reset=health.needs_reset or probe.wants_reset,
        energy_mj=health.energy_mj if probe.energy_mj is None else probe.energy_mj,
        answered=probe.answers,
    )


def _is_over(health: Health, probe: Probe, policy: Policy) -> bool:
    match health.recovery:
        case Recovery.CLEAN_PROBES:
            return health.clean_probes >= policy.clean_probes
        case Recovery.RESET:
            return _was_reset(health, probe)
        case Recovery.REMAP:
            return _was_reset(health, probe) and not probe.remap_pending
        case Recovery.REBOOT:
            return False
    return True


def _was_reset(health: Health, probe: Probe) -> bool:
    return health.reset_seen or (probe.recovery_action == 0 and health.clean_probes >= _QUIET_PROBES)


def _unhealthy(
    health: Health, reason: str, message: str, recovery: Recovery, now: float, xid: LastXid | None
) -> Health:
    """The graver of what was and what is new gives the reason; a new trouble needs a new reset."""
    graver = health.healthy or _WEIGHT[recovery] >= _WEIGHT[health.recovery]
    base = replace(health, clean_probes=0, reset_seen=False)
    if not graver:
        return base
    since = now if health.healthy else health.since
    return replace(
        base,
        healthy=False,
        reason=reason,
        message=message,
        recovery=recovery,
        last_xid=xid,
        since=since,
        needs_reset=health.needs_reset and not health.healthy,
    )


def _healthy(health: Health, now: float) -> Health:
    return Health(last_xid=health.last_xid, since=now, energy_mj=health.energy_mj)
