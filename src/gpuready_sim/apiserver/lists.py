"""Lists: which objects, as of which version, in which pages."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from gpuready_sim.apiserver.failures import Failure, Obj, bad_request, expired, invalid
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.requests import Request
from gpuready_sim.apiserver.schemas import FieldError
from gpuready_sim.apiserver.selectors import (
    ANY_FIELDS,
    ANY_LABELS,
    FieldSelector,
    LabelSelector,
    parse_fields,
    parse_labels,
)
from gpuready_sim.apiserver.store import Entry, Key, Store, Table, decode, encode

_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - "
    "objects that were created, modified, or deleted between the time the first chunk was returned and "
    "now may show up in the list."
)


@dataclass(frozen=True)
class Selection:
    """Which objects of a table a list or a watch is about."""

    namespace: str = ""
    name: str = ""
    labels: LabelSelector = ANY_LABELS
    fields: FieldSelector = ANY_FIELDS

    @property
    def matches_all(self) -> bool:
        """True when `covers` alone decides."""
        return not self.labels and not self.fields

    def covers(self, key: Key) -> bool:
        return (not self.namespace or key[0] == self.namespace) and (not self.name or key[1] == self.name)

    def matches(self, obj: Obj) -> bool:
        return self.labels.matches(obj) and self.fields.matches(obj)

    def among(self, table: Table) -> list[Entry]:
        """The current entries that are covered, in key order."""
        if self.name and self.namespace:
            entry = table.get(self.namespace, self.name)
            return [entry] if entry is not None else []
        entries = table.sorted_entries(self.namespace or None)
        return [e for e in entries if e.key[1] == self.name] if self.name else entries


def selection_of(request: Request, resource: ResourceType) -> Selection:
    """What the path and the query select.

    raises  Failure 400 for selectors that cannot be parsed
    """
    assert request.target is not None
    fields = parse_fields(request.query.get("fieldSelector", ""), resource.selectable)
    return Selection(
        namespace=request.target.namespace or fields.required("metadata.namespace") or "",
        name=request.target.name or fields.required("metadata.name") or "",
        labels=parse_labels(request.query.get("labelSelector", "")),
        fields=fields,
    )


@dataclass(frozen=True)
class Page:
    """One answer to a list request."""

    entries: Sequence[Entry]
    meta: Obj


@dataclass(frozen=True)
class _Start:
    """Where a page begins.

    rv     version to show, None for the current one
    after  key after which to go on
    """

    rv: int | None = None
    after: Key | None = None


def list_page(store: Store, table: Table, selection: Selection, request: Request) -> Page:
    """The page that a list request asks for.

    raises  Failure 410 when its version has been compacted, 504 when it has not been reached,
            400 or 422 for a contradictory query
    """
    start = _start_of(request, table, store)
    limit = max(0, request.number("limit") or 0)
    if start.rv is None:
        shown_rv, candidates = store.rv, selection.among(table)
    else:
        shown_rv = start.rv
        candidates = [e for e in table.entries_at(start.rv) if selection.covers(e.key)]
    if start.after is not None:
        candidates = [entry for entry in candidates if entry.key > start.after]
    if not selection.matches_all:
        candidates = [entry for entry in candidates if selection.matches(entry.obj)]
    return _cut(candidates, limit, shown_rv, count_rest=selection.matches_all)


def _cut(candidates: Sequence[Entry], limit: int, rv: int, *, count_rest: bool) -> Page:
    meta: Obj = {"resourceVersion": str(rv)}
    if not limit or len(candidates) <= limit:
        return Page(candidates, meta)
    entries = candidates[:limit]
    meta["continue"] = _token(rv, entries[-1].key)
    if count_rest:
        meta["remainingItemCount"] = len(candidates) - limit
    return Page(entries, meta)


def _start_of(request: Request, table: Table, store: Store) -> _Start:
    token, text = request.query.get("continue", ""), request.query.get("resourceVersion", "")
    match = request.query.get("resourceVersionMatch", "")
    rv = version_of(text)
    if token:
        if match:
            raise _bad_options("resourceVersionMatch", "resourceVersionMatch is forbidden for continue")
        if rv:
            raise bad_request("specifying resource version is not allowed when using continue")
        return _continued(token, table)
    if match:
        _check_match(match, text)
    if "sendInitialEvents" in request.query:
        raise _bad_options("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if not rv:
        return _Start()
    store.check_reached(rv)
    exact = match == "Exact" or (not match and request.number("limit"))
    return _Start(rv if exact else None)


def _continued(token: str, table: Table) -> _Start:
    try:
        content = decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        rv, after = int(content["rv"]), (str(content["start"][0]), str(content["start"][1]))
    except (ValueError, KeyError, IndexError, TypeError, msgspec.DecodeError):
        raise bad_request("continue key is not valid") from None
    if rv < 0:
        return _Start(None, after)
    if rv < table.compacted:
        raise expired(_CONTINUE_EXPIRED, _token(-1, after))
    return _Start(rv, after)


def _token(rv: int, after: Key) -> str:
    return (
        base64.urlsafe_b64encode(encode({"v": "meta.k8s.io/v1", "rv": rv, "start": after}))
        .rstrip(b"=")
        .decode()
    )


def version_of(text: str) -> int:
    """A resourceVersion of a query; 0 when it is not given.

    raises  Failure 400 when it is no number
    """
    if text in ("", "0"):
        return 0
    if not text.isdigit():
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": '
            f'strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


def _check_match(match: str, version: str) -> None:
    if match not in ("Exact", "NotOlderThan"):
        raise _bad_options(
            "resourceVersionMatch", 'supported values: "Exact", "NotOlderThan", ""', "NotSupported", match
        )
    if version == "":
        raise _bad_options(
            "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if match == "Exact" and version == "0":
        raise _bad_options(
            "resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        )


def _bad_options(path: str, detail: str, type: str = "Forbidden", value: str = "") -> Failure:
    return invalid("ListOptions", "meta.k8s.io", "", [FieldError(path, type, value, detail)])


def check_initial_events(request: Request) -> bool:
    """Whether a watch asks for the streaming list.

    raises  Failure 422 when it does so without saying how fresh
    """
    if "sendInitialEvents" not in request.query:
        if request.query.get("resourceVersionMatch"):
            detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise _bad_options("resourceVersionMatch", detail)
        return False
    if request.query.get("resourceVersionMatch") != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise _bad_options("resourceVersionMatch", detail)
    return request.flag("sendInitialEvents")
