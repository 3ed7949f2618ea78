"""Whether a live object still says what we want of it; pure.

Only the fields that `desired` names are looked at: what the server or others added beside them is theirs.
Equal is what means the same: "1000m" and "1", a missing field and an empty one, a list of containers in
another order. Some lists and maps count as a whole, tolerations and node selectors among them: there what
somebody has added changes the meaning of ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuready.kube.quantity import find_quantity

# Lists that are maps in disguise, and what identifies an entry (x-kubernetes-list-map-keys of the API).
_LIST_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "ownerReferences": ("uid",),
    "conditions": ("type",),
    "ports": ("containerPort", "port", "protocol"),
}
_KEY_DEFAULTS = {"protocol": "TCP"}
# Maps that the API takes as one value (x-kubernetes-map-type: atomic), and so is every list without keys.
_WHOLE_MAPS = frozenset({"nodeSelector", "selector", "matchLabels"})
# What the server fills in inside of such lists: API version of a fieldRef, life of a token, of a relabelling.
_FILLED_IN = {"apiVersion": "v1", "expirationSeconds": 3600, "action": "replace"}
_QUANTITY_MAPS = frozenset({"limits", "requests"})
_QUANTITY_FIELDS = frozenset({"sizeLimit"})


@dataclass(frozen=True)
class Difference:
    path: str  # spec.template.spec.containers[name=driver].image
    live: Any
    desired: Any
    manager: str = ""  # who owns the field in the live object, "" when unknown

    def __str__(self) -> str:
        who = f" (set by {self.manager})" if self.manager else ""
        return f"{self.path}: {_brief(self.live)} instead of {_brief(self.desired)}{who}"


def digest(obj: Mapping[str, Any]) -> str:
    """16 hex digits over the whole desired object; the order of keys does not matter."""
    return hashlib.sha256(msgspec.json.encode(obj, order="deterministic")).hexdigest()[:16]


def differences(desired: Mapping[str, Any], live: Mapping[str, Any]) -> list[Difference]:
    """Every field of `desired` whose live value means something else, with the manager that owns it."""
    fields = live.get("metadata", {}).get("managedFields") or []
    return [
        Difference(_path_text(steps), have, want, _manager_of(steps, fields))
        for steps, have, want in _walk(desired, live, ())
    ]


def dropped(desired: Mapping[str, Any], live: Mapping[str, Any], manager: str) -> list[Difference]:
    """Fields that `manager` has applied before and `desired` no longer names: applying it takes them away.

    A field that somebody else claims too stays, so it is not in the list. `desired` of each is None.
    """
    entries = [each for each in live["metadata"].get("managedFields") or () if not each.get("subresource")]
    own = [each for each in entries if each.get("manager") == manager and each.get("operation") == "Apply"]
    others = [each.get("fieldsV1") or {} for each in entries if each not in own]
    return [
        Difference(_path_text(steps), have, None, manager)
        for entry in own
        for steps, have in _unnamed(entry.get("fieldsV1") or {}, desired, live, others, ())
    ]


# --- walking --------------------------------------------------------------------------------------------

_Step = str | tuple[tuple[str, Any], ...]  # a field, or the keys that identify a list entry
_Steps = tuple[_Step, ...]
_IDENTITY = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))


def _walk(want: Any, have: Any, steps: _Steps) -> Iterator[tuple[_Steps, Any, Any]]:
    if steps in _IDENTITY or want is None:
        return
    if isinstance(want, Mapping):
        if not isinstance(have, Mapping):
            if want or have not in (None, ""):
                yield from _missing(want, have, steps)
            return
        if steps and steps[-1] in _WHOLE_MAPS and _says_more(want, have):
            yield steps, dict(have), dict(want)
            return
        for name, value in want.items():
            yield from _walk(value, have.get(name), (*steps, name))
    elif isinstance(want, Sequence) and not isinstance(want, str):
        yield from _walk_list(want, have, steps)
    elif not _same(want, have, steps):
        yield steps, have, want


def _missing(want: Mapping[str, Any], have: Any, steps: _Steps) -> Iterator[tuple[_Steps, Any, Any]]:
    """A map that is not there at all differs only by those fields in it that say something."""
    if have is not None:
        yield steps, have, want
        return
    for name, value in want.items():
        yield from _walk(value, None, (*steps, name))


def _walk_list(want: Sequence[Any], have: Any, steps: _Steps) -> Iterator[tuple[_Steps, Any, Any]]:
    have = have if isinstance(have, Sequence) and not isinstance(have, str) else []
    keys = _LIST_KEYS.get(str(steps[-1])) if steps else None
    if keys and all(isinstance(each, Mapping) for each in want):
        there = {_entry_key(each, keys): each for each in have if isinstance(each, Mapping)}
        for each in want:
            entry = _entry_key(each, keys)
            if entry in there:
                yield from _walk(each, there[entry], (*steps, entry))
            else:
                yield (*steps, entry), None, each
    elif len(want) != len(have):
        yield steps, list(have) or None, list(want)
    elif _says_more(want, have) or any(
        True for index, each in enumerate(want) for _ in _walk(each, have[index], (*steps, str(index)))
    ):
        yield steps, list(have), list(want)


def _says_more(want: Any, have: Any) -> bool:
    """Somewhere in it stands what we have not said and the server does not fill in."""
    if isinstance(want, Mapping) and isinstance(have, Mapping):
        added = {name: value for name, value in have.items() if want.get(name) is None}
        if any(value and _FILLED_IN.get(name) != value for name, value in added.items()):
            return True
        return any(_says_more(want[name], have[name]) for name in want.keys() & have.keys())
    if isinstance(want, list | tuple) and isinstance(have, list | tuple):
        return any(_says_more(*pair) for pair in zip(want, have, strict=False))
    return False


def _entry_key(entry: Mapping[str, Any], keys: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    found = ((key, entry.get(key, _KEY_DEFAULTS.get(key))) for key in keys)
    return tuple((key, value) for key, value in found if value is not None)


def _same(want: Any, have: Any, steps: _Steps) -> bool:
    if want == have and isinstance(want, bool) == isinstance(have, bool):
        return True
    if not want and not have:
        return True  # the server leaves out what is empty
    if _is_quantity(steps):
        return find_quantity(want) is not None and find_quantity(want) == find_quantity(have)
    return False


def _is_quantity(steps: _Steps) -> bool:
    return bool(steps) and (steps[-1] in _QUANTITY_FIELDS or (len(steps) > 1 and steps[-2] in _QUANTITY_MAPS))


def _unnamed(
    fields: Mapping[str, Any], want: Any, have: Any, others: Sequence[Mapping[str, Any]], steps: _Steps
) -> Iterator[tuple[_Steps, Any]]:
    """Walk one entry of managedFields beside the desired and the live object."""
    for name, inner in fields.items():
        step = _step_of(name)
        if step is None:
            continue
        claimed = [each[name] for each in others if name in each]
        below, there = _at(want, step), _at(have, step)
        if below is not None or (inner and claimed):
            yield from _unnamed(inner, below, there, claimed, (*steps, step))
        elif there is not None and not claimed:
            yield (*steps, step), there


def _step_of(name: str) -> _Step | None:
    """ "f:spec" is a field, "k:{…}" an entry of a list; "." and values of sets are no steps."""
    if name.startswith("f:"):
        return name[2:]
    if name.startswith("k:"):
        return tuple(msgspec.json.decode(name[2:]).items())
    return None


def _at(value: Any, step: _Step) -> Any:
    if isinstance(step, str):
        return value.get(step) if isinstance(value, Mapping) else None
    wanted = dict(step)
    entries = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    for entry in entries:
        if isinstance(entry, Mapping) and all(
            entry.get(key, _KEY_DEFAULTS.get(key)) == item for key, item in wanted.items()
        ):
            return entry
    return None


# --- naming the field and its manager -------------------------------------------------------------------


def _path_text(steps: _Steps) -> str:
    text = ""
    for step in steps:
        if isinstance(step, str):
            text += f".{step}" if text else step
        else:
            text += "[" + ",".join(f"{key}={value}" for key, value in step) + "]"
    return text


def _manager_of(steps: _Steps, managed_fields: Sequence[Mapping[str, Any]]) -> str:
    """The manager whose entry reaches deepest into the path, newest first."""
    best, best_depth = "", 0
    for entry in sorted(managed_fields, key=lambda each: str(each.get("time") or ""), reverse=True):
        depth = _depth(steps, entry.get("fieldsV1") or {})
        if depth > best_depth:
            best, best_depth = str(entry.get("manager") or ""), depth
    return best if best_depth == len(steps) else ""


def _depth(steps: _Steps, fields: Mapping[str, Any]) -> int:
    depth = 0
    for step in steps:
        inner = _descend(step, fields)
        if inner is None:
            break
        if not inner:
            return len(steps)  # owned as a whole (an atomic list or map)
        depth, fields = depth + 1, inner
    return depth


def _descend(step: _Step, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if isinstance(step, str):
        found = fields.get(f"f:{step}")
        return found if isinstance(found, Mapping) else None
    wanted = dict(step)
    for name, inner in fields.items():
        if name.startswith("k:"):
            entry = msgspec.json.decode(name[2:])
            if all(wanted.get(key) == value for key, value in entry.items()):
                return inner if isinstance(inner, Mapping) else None
    return None


def _brief(value: Any) -> str:
    if value is None:
        return "nothing"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else text[:77] + "..."
