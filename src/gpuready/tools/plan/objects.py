"""Which objects would be created, changed or pruned, and in which fields. Pure.

What counts as a change is decided where the operator decides it: kube/apply.py and policy/pruning.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuready import names
from gpuready.controller.policy import pruning
from gpuready.controller.policy.plan import Plan, key_of
from gpuready.controller.policy.pod_marks import without_new_mark
from gpuready.kube.apply import Change, decide, with_digest
from gpuready.kube.compare import Difference, dropped
from gpuready.tools.plan.forecast import Fate, Field, ObjectChange
from gpuready.tools.plan.look import Look

Object = Mapping[str, Any]
_DIGEST = f"metadata.annotations.{names.DIGEST_ANNOTATION}"
TAKEN_OVER = str(Change.TAKEN_OVER)


def changes_of(plan: Plan, look: Look) -> list[ObjectChange]:
    """In the order in which the operator applies, then what it prunes."""
    found = [_applied(obj, look.find_live(key_of(obj))) for obj in plan.objects]
    pruned = pruning.surplus(look.owned, plan.keys, plan.refused)
    return [*(each for each in found if each), *(_change(Fate.PRUNED, obj) for obj in pruned)]


def _applied(obj: Object, live: Object | None) -> ObjectChange | None:
    if live is None:
        return _change(Fate.CREATED, obj)
    marked = with_digest(without_new_mark(obj, live))
    change, found = decide(marked, live)
    if change is Change.REPAIRED:
        # A field that is ours and differs all the same is the server's own spelling: it is left alone.
        found = tuple(each for each in found if each.manager != names.FIELD_MANAGER)
    gone = dropped(marked, live, names.FIELD_MANAGER)
    fields = [_field(each) for each in (*found, *gone) if not each.path.startswith(_DIGEST)]
    if change is Change.NONE or (change is Change.REPAIRED and not fields):
        return None
    why = TAKEN_OVER if _is_foreign(live) else str(change)
    return _change(Fate.CHANGED, obj, why, tuple(fields) or (_digest_field(marked, live),))


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
