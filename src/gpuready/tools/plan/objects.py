"""Which objects would be created, changed or pruned, and in which fields. Pure.

What counts as a change is decided where the operator decides it: kube/apply.py and policy/pruning.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuready import names
from gpuready.controller.policy import pruning
from gpuready.controller.policy.plan import Plan, key_of
from gpuready.controller.policy.spared_pods import is_default, sparing
from gpuready.kube.apply import Change, Occupied, decide, find_occupied, is_strangers, with_digest
from gpuready.kube.compare import Difference, dropped
from gpuready.tools.plan.forecast import Fate, Field, ObjectChange, Obstacle
from gpuready.tools.plan.look import Look

Object = Mapping[str, Any]
_DIGEST = f"metadata.annotations.{names.DIGEST_ANNOTATION}"
TAKEN_OVER, LEFT_BEHIND = str(Change.TAKEN_OVER), "left behind"


@dataclass(frozen=True)
class ObjectsOutlook:
    """
    changes     in the order in which the operator applies, then what it prunes
    obstacles   objects of others that it does not write over
    """

    changes: tuple[ObjectChange, ...]
    obstacles: tuple[Obstacle, ...]

    @property
    def renewed(self) -> set[str]:
        return {each.name for each in self.changes if each.changes_pods}


def outlook_of(plan: Plan, look: Look, left_behind: Sequence[tuple[str, Object]]) -> ObjectsOutlook:
    """`left_behind`: (operand, object) of the original that nobody wants."""
    applied = [_applied(obj, look.find_live(key_of(obj))) for obj in plan.objects]
    pruned = [_change(Fate.PRUNED, obj) for obj in pruning.surplus(look.owned, plan.keys, plan.refused)]
    pruned += [
        replace(_change(Fate.PRUNED, obj, LEFT_BEHIND), operand=operand) for operand, obj in left_behind
    ]
    return ObjectsOutlook(
        changes=(*(each for each in applied if isinstance(each, ObjectChange)), *pruned),
        obstacles=tuple(each for each in applied if isinstance(each, Obstacle)),
    )


def _applied(obj: Object, live: Object | None) -> ObjectChange | Obstacle | None:
    if live is None:
        return _change(Fate.CREATED, obj)
    marked = with_digest(sparing(obj, live))
    if is_strangers(marked, live):
        return _obstacle(obj, find_occupied(marked, live))
    change, found = decide(marked, live)
    if change is Change.REPAIRED:
        # A field that is ours and differs all the same is the server's own spelling: it is left alone.
        found = tuple(each for each in found if each.manager != names.FIELD_MANAGER)
    gone = [each for each in dropped(marked, live, names.FIELD_MANAGER) if not is_default(each)]
    fields = [_field(each) for each in (*found, *gone) if not each.path.startswith(_DIGEST)]
    if change is Change.NONE or (change is Change.REPAIRED and not fields):
        return None
    why = TAKEN_OVER if _is_foreign(live) else str(change)
    return _change(Fate.CHANGED, obj, why, tuple(fields) or (_digest_field(marked, live),))


def _obstacle(obj: Object, occupied: Occupied | None) -> Obstacle | None:
    if occupied is None:
        return None
    kind, _, name = key_of(obj)
    why = f"{occupied.what} ({occupied.why})"
    return Obstacle(kind, name, pruning.operand_of(obj), why, occupied.next_step or "")


def _is_foreign(live: Object) -> bool:
    return names.OPERAND_LABEL not in (live["metadata"].get("labels") or {})


def _field(difference: Difference) -> Field:
    return Field(difference.path, difference.live, difference.desired)


def _digest_field(marked: Object, live: Object) -> Field:
    """What we want is spelled otherwise and means the same to the server: only our note of it changes."""
    return Field(_DIGEST, _digest_on(live), _digest_on(marked))


def _digest_on(obj: Object) -> Any:
    return (obj["metadata"].get("annotations") or {}).get(names.DIGEST_ANNOTATION)


def _change(fate: Fate, obj: Object, why: str = "", fields: tuple[Field, ...] = ()) -> ObjectChange:
    kind, namespace, name = key_of(obj)
    return ObjectChange(fate, kind, namespace, name, pruning.operand_of(obj), why, fields)
