"""Many verdicts in one line: the first link that holds a node up, the columns, the condition GPUReady.

Pure. A node agent, the controller and the tools all summarise here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuready.chain.device_plugin import DISABLED, OPTED_OUT
from gpuready.chain.verdict import Link, State, Verdict

ORDER = tuple(Link)
_PLACES: Mapping[str, int] = {link: place for place, link in enumerate(ORDER)}
WHOLE_REASON = "ChainWhole"
# What `kubectl get gpunodes` and `gpuready status` show of a link.
COLUMN_LINKS = {
    "driver": Link.DRIVER,
    "runtime": Link.TOOLKIT,
    "plugin": Link.DEVICE_PLUGIN,
    "cuda": Link.CUDA,
}
_CONDITION_OF: Mapping[str, str] = {State.BROKEN: "False", State.WAITING: "False"}


@dataclass(frozen=True)
class Readiness:
    """The Node condition GPUReady: status is "True", "False" or "Unknown"."""

    status: str
    reason: str
    message: str


def in_order(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """As a node comes up; links that only a newer node agent knows come last."""
    return sorted(verdicts, key=lambda verdict: _PLACES.get(verdict.link, len(_PLACES)))


def first_broken(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The first link that holds the node up: broken before or waiting, in the order of the chain."""
    return next((verdict for verdict in in_order(verdicts) if verdict.holds_up), None)


def first_remark(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The first link that is whole and has something to say, or says what we do not understand."""
    return next((each for each in in_order(verdicts) if _is_remark(each)), None)


def _is_remark(verdict: Verdict) -> bool:
    return verdict.state is State.DEGRADED or not verdict.is_understood


def withheld(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The link that offers no GPU because somebody wants it so: nothing is wrong, and nothing is ready."""
    return next((v for v in verdicts if v.link is Link.DEVICE_PLUGIN and _is_unwanted(v)), None)


def _is_unwanted(verdict: Verdict) -> bool:
    return verdict.state is State.NOT_CHECKED and verdict.reason in (DISABLED, OPTED_OUT)


def columns(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """driver, runtime, plugin, cuda -> ok | degraded | broken | waiting | "-", or a newer agent's word."""
    by_link = {verdict.link: verdict for verdict in verdicts}
    return {name: column(by_link.get(link)) for name, link in COLUMN_LINKS.items()}


def column(verdict: Verdict | None) -> str:
    return "-" if verdict is None or verdict.state is State.NOT_CHECKED else str(verdict.state)


def reason(verdicts: Sequence[Verdict]) -> str:
    """The REASON column: why it is broken, waiting or not wanted, else what is worth saying, else nothing."""
    telling = first_broken(verdicts) or withheld(verdicts) or first_remark(verdicts)
    return (telling.reason or str(telling.state)) if telling else ""


def readiness(verdicts: Sequence[Verdict]) -> Readiness:
    """The condition GPUReady of a node that has GPUs."""
    broken = first_broken(verdicts)
    if broken:
        return Readiness(_CONDITION_OF[broken.state], broken.reason, _told(broken))
    if not any(verdict.is_whole for verdict in verdicts):
        return Readiness("Unknown", "NotChecked", "no link of the chain was judged yet")
    unwanted = withheld(verdicts)
    if unwanted:
        return Readiness("False", unwanted.reason, f"this node offers no GPU: {unwanted.message}")
    remarks = [verdict for verdict in in_order(verdicts) if verdict.state is State.DEGRADED]
    if remarks:
        # All of them: the driver link sees that a GPU does not answer, the device plugin knows by which XID.
        return Readiness("True", remarks[0].reason, "; ".join(_told(remark) for remark in remarks))
    return Readiness("True", WHOLE_REASON, "every checked link of the chain is whole")


def _told(verdict: Verdict) -> str:
    text = f"{verdict.link}: {verdict.message}"
    return f"{text}; next: {verdict.next_step}" if verdict.next_step else text
