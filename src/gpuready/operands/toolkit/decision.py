"""What the toolkit does after a look at the runtime. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from gpuready.errors import GPUReadyError
from gpuready.node.cri import RuntimeSilent
from gpuready.operands.toolkit.engine import Look
from gpuready.operands.toolkit.plan import Plan


class Action(StrEnum):
    NOTHING = "nothing"
    CHANGE = "change"


@dataclass(frozen=True)
class Problem:
    """Why the handlers cannot be used; `reason` is stable, conditions and tests use it."""

    reason: str
    message: str
    next_step: str = ""
    evidence: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "reason": self.reason,
            "message": self.message,
            "nextStep": self.next_step,
            "evidence": list(self.evidence),
        }

    @classmethod
    def of(cls, reason: str, exc: GPUReadyError) -> Problem:
        said = f"{exc.what}: {exc.why}" if exc.why else exc.what
        return cls(reason, said, exc.next_step)


@dataclass(frozen=True)
class Request:
    """A restart that the control plane must grant: the node runs workloads, and others may be at it.

    id   of exactly this change: a grant for another one is none
    """

    id: str
    reason: str

    def to_json(self) -> dict[str, str]:
        return {"kind": RESTART_RUNTIME, "id": self.id, "reason": self.reason}


@dataclass(frozen=True)
class Decision:
    action: Action
    problem: Problem | None = None
    request: Request | None = None


RESTART_RUNTIME = "RestartRuntime"
# Reasons that end by themselves, or by somebody else's hand, and are no fault.
WAITING_FOR_GRANT, WAITING_FOR_WISH, RUNTIME_SILENT = "WaitingForGrant", "WaitingForWish", "RuntimeSilent"
REFUSED, ROLLED_BACK, RESTART_NEEDED = (
    "RuntimeConfigRefused",
    "RuntimeConfigRolledBack",
    "RuntimeRestartNeeded",
)
OTHER_TOOLKIT = "OtherToolkitRuns"
INTERNAL = "InternalError"


def decide(look: Look, failed: Mapping[str, Any], grant: str | None, held_by: str = "") -> Decision:
    """failed  what the journal remembers of a change that was rolled back
    grant   id of the change that the control plane allows; None = nobody is to be asked
    held_by why it does not allow ours yet
    """
    if look.is_whole:
        return Decision(Action.NOTHING)
    if look.silent is not None:
        return Decision(Action.NOTHING, _silent(look.silent))
    if failed and failed.get("digest") == look.digest:
        return Decision(Action.NOTHING, _as_before(failed))
    request = Request(look.digest, why_of(look))
    if grant is not None and grant != look.digest and _restarts(look):
        turn = f" ({held_by})" if held_by else ""
        said = f"waits for its turn to restart the runtime{turn}: {request.reason}"
        waits = Problem(WAITING_FOR_GRANT, said, _GRANT_STEP)
        return Decision(Action.NOTHING, waits, request)
    return Decision(Action.CHANGE, request=request)


def _silent(silent: RuntimeSilent) -> Problem:
    problem = Problem.of(RUNTIME_SILENT, silent)
    return problem if problem.next_step else replace(problem, next_step=_SILENT_STEP)


_SILENT_STEP = (
    "start the node's container runtime, or read its log there (journalctl); "
    "if it listens elsewhere, set RUNTIME_SOCKET in spec.toolkit.env"
)
_GRANT_STEP = (
    "wait for the nodes before it; spec.gpuready.toolkit.maxUnavailable says how many may restart at once"
)


def why_of(look: Look) -> str:
    if look.lacks:
        return f"the running daemon has {'; '.join(_readable(look.lacks))}"
    paths = ", ".join(change.path for change in look.plan.files)
    return f"{paths} no longer says what is wanted" if paths else "nothing differs"


def _readable(lacks: tuple[str, ...]) -> tuple[str, ...]:
    return lacks if len(lacks) <= 3 else (*lacks[:3], f"and {len(lacks) - 3} more")


def _restarts(look: Look) -> bool:
    return bool(look.lacks or look.plan.settings)


def _as_before(failed: Mapping[str, Any]) -> Problem:
    why = f": {failed['why']}" if failed.get("why") else ""
    return Problem(
        ROLLED_BACK,
        f"{failed.get('message', 'a change was rolled back')}{why}; not tried again on the same files",
        str(failed.get("nextStep") or ""),
    )


def repair_of(
    plan: Plan, before: Mapping[str, str], now: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(files that others have changed since all was well, keys that were put back); digests by path."""
    changed = sorted(path for path in {*before, *now} if before.get(path) != now.get(path))
    keys = [".".join(each.keys) for each in plan.settings] or [
        ".".join(keys) for change in plan.files for keys in change.values
    ]
    return tuple(changed), tuple(keys)
