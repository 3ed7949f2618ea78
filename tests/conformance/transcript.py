"""Scenarios: requests in order, and answers in a form that two servers can agree on.

A request may name what came before: $NS the test's namespace, $UID0 and $RV0 the uid and resourceVersion of
answer 0. In answers, uids become <uid 1>, <uid 2> ... and resourceVersions <rv 1>, <rv 2> ... in the order of
their first appearance, so two servers agree exactly when the same things change; times become <time>, and the
tokens of lists that go on <token>. Of a table's columns the descriptions are passed over.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import served
from .api import Answer, Api

# What differs from run to run.
_PASSING = [
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"kube-api-access-[a-z0-9]{5}"), "kube-api-access-<x>"),
    (re.compile(r"\b(Bad-|g-)[a-z0-9]{5}\b"), r"\1<x>"),
    (re.compile(r"^\d+s$"), "<age>"),
    (re.compile(r"(in record \(|current: )\d+"), r"\1<rv>"),
    # What a pod's update would change, as a diff of Go structs.
    (re.compile(r"(if it was previously negative\))\n@@.*", re.DOTALL), r"\1"),
    (re.compile(r"(is missing in ')\{.*\}'"), r"\1<object>'"),
    # A whole object, in the order of its Go fields.
    (re.compile(r'Invalid value: "\{(?:\\.|[^"\\])*"'), 'Invalid value: "<object>"'),
    (re.compile(r"\b127\.0\.0\.1:\d+\b"), "<address>"),
    (re.compile(r"\bselfType\d*\b"), "selfType"),
    # Go structs of a definition: its versions, or a schema.
    (
        re.compile(r'Invalid value: (\{"ID"|\[\{"Name"):.*?\}\]?: (?=must |only |per-)', re.DOTALL),
        'Invalid value: "<object>": ',
    ),
]


@dataclass(frozen=True)
class Ask:
    """One request. `type`, `accept` and `params` as in api.Api.call.

    only_status   of the answer's body nothing is compared
    only_served   of what a server can do, only that is compared which the embedded one can
    until         asked again until this is the status
    """

    method: str
    path: str
    body: object = None
    type: str = "json"
    accept: str = "application/json"
    params: Mapping[str, str] = field(default_factory=dict)
    only_status: bool = False
    only_served: bool = False
    until: int = 0


@dataclass(frozen=True)
class Scenario:
    """`title` is a sentence; it names the file of what is expected, too."""

    title: str
    asks: Sequence[Ask]

    @property
    def id(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


async def played(api: Api, scenario: Scenario, namespace: str) -> list[dict[str, Any]]:
    """The comparable answers of all requests."""
    answers: list[Answer] = []
    names = {"$NS": namespace}
    for number, ask in enumerate(scenario.asks):
        body = _filled(ask.body, names)
        params = {key: _fill(value, names) for key, value in ask.params.items()}
        answer = await _asked(api, ask, _fill(ask.path, names), body, params)
        answers.append(answer)
        meta = answer.body.get("metadata") or {} if isinstance(answer.body, dict) else {}
        names[f"$UID{number}"] = meta.get("uid", "none")
        names[f"$RV{number}"] = meta.get("resourceVersion", "none")
    comparable = _Comparable(namespace)
    return [
        {
            "request": f"{ask.method} {ask.path}",
            "status": answer.status,
            "body": None if ask.only_status else comparable.of(_known(ask, answer.body)),
        }
        | ({"warnings": comparable.of(list(answer.warnings))} if answer.warnings else {})
        for ask, answer in zip(scenario.asks, answers, strict=True)
    ]


async def _asked(api: Api, ask: Ask, path: str, body: object, params: dict[str, str]) -> Answer:
    """
    raises  TimeoutError when the status that is waited for does not come
    """
    async with asyncio.timeout(30):
        while True:
            answer = await api.call(ask.method, path, body, type=ask.type, accept=ask.accept, params=params)
            if ask.until in (0, answer.status):
                return answer
            await asyncio.sleep(0.05)


def _known(ask: Ask, body: Any) -> Any:
    return served.only(body) if ask.only_served else body


def _filled(value: object, names: Mapping[str, str]) -> Any:
    if value is None or not names:
        return value
    if isinstance(value, str):
        return _fill(value, names)
    return json.loads(_fill(json.dumps(value), names))


def _fill(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\$(NS|UID\d+|RV\d+)", lambda found: names[found.group(0)], text)


# A bookmark tells how far its watch has come, which is as far as others have made the server go.
_VERSION = re.compile(r'"resourceVersion": "\d+"')

# Their order depends on when a second ends, or on that of a Go map.
_UNORDERED = {"managedFields": ("operation", "manager", "subresource"), "causes": ("field", "message")}


def _order(key: str) -> Callable[[Any], list[str]]:
    return lambda item: [str(item.get(name, "")) for name in _UNORDERED[key]]


class _Comparable:
    """Remembers what it has replaced, across the answers of one scenario."""

    def __init__(self, namespace: str) -> None:
        self._known: dict[str, str] = {namespace: "$NS"}
        self._counts = {"uid": 0, "rv": 0}
        self._namespace = namespace
        self._is_own_group = False

    def of(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            if key == "":
                self._is_own_group = self._namespace in str(value.get("groupVersion", ""))
            if value.get("type") == "BOOKMARK":
                value = json.loads(_VERSION.sub('"resourceVersion": ""', json.dumps(value)))
            # An empty list of metadata has null for its items.
            is_list = "items" in value or isinstance(value.get("rows"), list)
            return {k: self._member(k, v, key, is_list and key == "") for k, v in sorted(value.items())}
        if isinstance(value, list):
            items = [self.of(item, key) for item in value]
            if key == "causes":  # validated in several versions, and told as often
                items = [item for i, item in enumerate(items) if item not in items[:i]]
            return sorted(items, key=_order(key)) if key in _UNORDERED else items
        return self._text(value) if isinstance(value, str) else value

    def _member(self, key: str, value: Any, parent: str, in_list: bool) -> Any:
        if key == "metadata" and in_list:
            # Everything that happens in a server counts into a list's version.
            return {**self.of({**value, "resourceVersion": ""}, key), "resourceVersion": "<rv of the list>"}
        if parent == "metadata" and key == "resourceVersion" and isinstance(value, str) and value:
            return self._named(value, "rv")
        if parent == "metadata" and key == "continue":
            return "<token>"
        if key == "storageVersionHash" and self._is_own_group:
            return "<hash>"  # of a name that differs from run to run
        if key == "columnDefinitions":
            return [self.of({k: v for k, v in column.items() if k != "description"}) for column in value]
        if key == "uid" and isinstance(value, str):
            return self._named(value, "uid")
        return self.of(value, key)

    def _named(self, value: str, kind: str) -> str:
        if value not in self._known:
            self._counts[kind] += 1
            self._known[value] = f"<{kind} {self._counts[kind]}>"
        return self._known[value]

    def _text(self, text: str) -> str:
        for known, name in self._known.items():
            if len(known) > 6 and known in text:
                text = text.replace(known, name)
        for pattern, name in _PASSING:
            text = pattern.sub(name, text)
        return text
