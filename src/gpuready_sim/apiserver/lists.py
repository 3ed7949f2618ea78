"""Lists: which objects, as of which version, in which pages."""

from __future__ import annotations

import base64
import posixpath
import string
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from gpuready_sim.apiserver import go_json
from gpuready_sim.apiserver.failures import Failure, Obj, bad_request, expired, invalid
from gpuready_sim.apiserver.field_errors import not_supported
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
from gpuready_sim.apiserver.store import Entry, Key, Store, Table, decode, encode, path_of

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
    first  path from which on to show, below the selected namespace: "/name"; empty for all
    """

    rv: int | None = None
    first: str = ""


def list_page(store: Store, table: Table, selection: Selection, request: Request) -> Page:
    """The page that a list request asks for.

    raises  Failure 410 when its version has been compacted, 504 when it has not been reached,
            400 or 422 for a contradictory query
    """
    limit = max(0, request.number("limit") or 0)
    request.number("timeoutSeconds")
    start = _start_of(request, table, store)
    if request.query.get("resourceVersion") == "0":
        limit = 0  # as a watch cache answers, which has all of it
    if start.rv is None:
        shown_rv, candidates = store.rv, selection.among(table)
    else:
        shown_rv = start.rv
        if start.rv < table.compacted:
            raise expired("The resourceVersion for the provided list is too old.")
        candidates = [e for e in table.entries_at(start.rv) if selection.covers(e.key)]
    if start.first:
        candidates = [entry for entry in candidates if _below(selection, entry.key) >= start.first]
    return _cut(candidates, limit, shown_rv, selection)


def _cut(candidates: Sequence[Entry], limit: int, rv: int, selection: Selection) -> Page:
    """There is more where objects are left, whether they are selected or not: nobody has looked at them."""
    meta: Obj = {"resourceVersion": str(rv)}
    chosen = [i for i, entry in enumerate(candidates) if selection.matches(entry.obj)]
    entries = [candidates[i] for i in (chosen[:limit] if limit else chosen)]
    if not limit or len(chosen) < limit or chosen[limit - 1] == len(candidates) - 1:
        return Page(entries, meta)
    meta["continue"] = _token(rv, _below(selection, entries[-1].key) + "\0")
    if selection.matches_all:
        meta["remainingItemCount"] = len(candidates) - limit
    return Page(entries, meta)


def _below(selection: Selection, key: Key) -> str:
    return f"/{key[1]}" if selection.namespace else f"/{path_of(key)}"


def _start_of(request: Request, table: Table, store: Store) -> _Start:
    _check_list_options(request)
    token, text = request.query.get("continue", ""), request.query.get("resourceVersion", "")
    if token:
        start = _continued(token, table)
        if text not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        return start
    rv, match = version_of(text), request.query.get("resourceVersionMatch", "")
    if not rv:
        return _Start()
    store.check_reached(rv)
    exact = match == "Exact" or (not match and request.number("limit"))
    return _Start(rv if exact else None)


_TOKEN_VERSION = "meta.k8s.io/v1"


def _continued(token: str, table: Table) -> _Start:
    """
    Source: kubernetes, apiserver/pkg/storage/continue.go, DecodeContinue.
    """
    content = _token_content(token)
    version, rv, start = content.get("v", ""), content.get("rv", 0), content.get("start", "")
    if version != _TOKEN_VERSION:
        raise _bad_token(f": server does not recognize this encoded version {version}")
    if not rv:
        raise _bad_token(f": incorrect encoded start resourceVersion (version {version})")
    if not start:
        raise _bad_token(f": encoded start key empty (version {version})")
    first = start if start.startswith("/") else f"/{start}"
    if posixpath.normpath(first) != first:
        raise _bad_token(f": {start}")
    if rv < 0:
        return _Start(None, first)
    if rv < table.compacted:
        raise expired(_CONTINUE_EXPIRED, _token(-1, first))
    return _Start(rv, first)


def _token_content(token: str) -> Obj:
    """
    raises  Failure 400
    """
    wrong = next((i for i, letter in enumerate(token) if letter not in _LETTERS), None)
    if wrong is None and len(token) % 4 == 1:
        wrong = len(token) - 1
    if wrong is not None:
        raise _bad_token(f": illegal base64 data at input byte {wrong}")
    body = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    try:
        content = decode(body)
    except msgspec.DecodeError as exc:
        raise _bad_token(f": {go_json.complaint(body) or exc}") from None
    return content if isinstance(content, dict) else {}


_LETTERS = frozenset(string.ascii_letters + string.digits + "-_")


def _bad_token(why: str) -> Failure:
    return bad_request(f"invalid continue token: continue key is not valid{why}")


def _token(rv: int, start: str) -> str:
    content = encode({"v": _TOKEN_VERSION, "rv": rv, "start": start})
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


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


def bare_version_of(text: str) -> int:
    """The same for who reads one object or watches: there it counts as the server's own fault.

    raises  Failure 500 when it is no number
    """
    try:
        return version_of(text)
    except Failure as exc:
        raise Failure(500, "", exc.message.removeprefix("invalid resource version: ")) from exc


def _check_list_options(request: Request) -> None:
    """
    raises  Failure 422 with all that contradicts

    Source: kubernetes, apimachinery/pkg/apis/meta/internalversion/validation/validation.go.
    """
    query, errors = request.query, []
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    if match and not version:
        errors.append(_forbidden_match("is forbidden unless resourceVersion is provided"))
    if match and query.get("continue"):
        errors.append(_forbidden_match(_WITH_CONTINUE))
    if match not in ("", "Exact", "NotOlderThan"):
        errors.append(not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", "")))
    if match == "Exact" and version == "0":
        errors.append(_forbidden_match('"exact" is forbidden for resourceVersion "0"'))
    if "sendInitialEvents" in query:
        errors.append(
            FieldError("sendInitialEvents", "Forbidden", detail="sendInitialEvents is forbidden for list")
        )
    if errors:
        raise invalid("ListOptions", "meta.k8s.io", "", errors)


_WITH_CONTINUE = "is forbidden when continue is provided"


def _forbidden_match(why: str) -> FieldError:
    return FieldError("resourceVersionMatch", "Forbidden", detail=f"resourceVersionMatch {why}")


def check_initial_events(request: Request) -> bool:
    """Whether a watch begins with what is there: who asks for it, or says no version to begin at.

    raises  Failure 422 when it does so without saying how fresh
    """
    query, errors = request.query, []
    match, said = query.get("resourceVersionMatch", ""), "sendInitialEvents" in query
    from_anywhere = query.get("resourceVersion", "") in ("", "0")
    by_default = not said and not match and from_anywhere
    if said and match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(FieldError("resourceVersionMatch", "Forbidden", detail=detail))
    if match and not said:
        errors.append(_forbidden_match("is forbidden for watch unless sendInitialEvents is provided"))
    if match not in ("", "NotOlderThan"):
        errors.append(not_supported("resourceVersionMatch", match, ("NotOlderThan",)))
    if (match or by_default) and query.get("continue"):
        errors.append(_forbidden_match(_WITH_CONTINUE))
    if errors:
        raise invalid("ListOptions", "meta.k8s.io", "", errors)
    return by_default or request.flag("sendInitialEvents")
