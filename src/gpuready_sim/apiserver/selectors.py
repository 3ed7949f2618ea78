"""Label and field selectors: parsed once, asked for every object. Pure.

Source: kubernetes, apimachinery/pkg/labels/selector.go, apimachinery/pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuready_sim.apiserver.failures import Obj, bad_request
from gpuready_sim.apiserver.names import label_key_errors, label_value_errors

_EVERYWHERE = frozenset({"metadata.name", "metadata.namespace"})
_SPECIAL = frozenset({"(", ")", "=", "==", "!", "!=", ",", "<", ">"})


@dataclass(frozen=True)
class Requirement:
    """One term of a label selector: `key operator values`."""

    key: str
    operator: str  # exists, absent, in, notin, !=, >, <
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "absent":
                return value is None
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case _:
                return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        try:
            left, right = int(value), int(next(iter(self.values)))
        except ValueError:
            return False
        return left > right if self.operator == ">" else left < right


@dataclass(frozen=True)
class LabelSelector:
    requirements: tuple[Requirement, ...] = ()

    def matches(self, obj: Obj) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __bool__(self) -> bool:
        return bool(self.requirements)


ANY_LABELS = LabelSelector()


def parse_labels(text: str) -> LabelSelector:
    """A label selector from its text, e.g. "app=x,tier in (a,b),!gone".

    raises  Failure 400 with the real parser's sentence
    """
    if not text.strip():
        return ANY_LABELS
    return LabelSelector(tuple(_LabelParser(text).parse()))


def selector_of(spec: Obj | None) -> LabelSelector:
    """A LabelSelector object (matchLabels, matchExpressions) as a selector; None matches nothing."""
    if spec is None:
        return LabelSelector((Requirement("", "in"),))
    found = [Requirement(k, "in", frozenset([v])) for k, v in (spec.get("matchLabels") or {}).items()]
    words = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
    for term in spec.get("matchExpressions") or []:
        operator = words.get(term.get("operator", ""), "in")
        found.append(Requirement(term.get("key", ""), operator, frozenset(term.get("values") or [])))
    return LabelSelector(tuple(found))


def selector_text(spec: Obj) -> str:
    """A LabelSelector object, or the plain map of older kinds, as it is typed: "app=x,tier in (a,b)"."""
    if not {"matchLabels", "matchExpressions"} & set(spec):
        spec = {"matchLabels": spec}
    terms = [(key, f"{key}={value}") for key, value in (spec.get("matchLabels") or {}).items()]
    for one in spec.get("matchExpressions") or []:
        key, values = one["key"], ",".join(sorted(one.get("values") or []))
        words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        terms.append((key, words.get(one["operator"], f"!{key}")))
    return ",".join(text for _, text in sorted(terms))


class _LabelParser:
    """The real grammar, by recursive descent over tokens."""

    def __init__(self, text: str) -> None:
        self.tokens = re.findall(r"==|!=|[()=!,<>]|[^\s()=!,<>]+", text)
        self.at = 0

    def parse(self) -> list[Requirement]:
        found = [self._first()]
        while (token := self._peek()) != "":
            if token != ",":
                raise self._expected("',' or 'end of string'", at_the_end=True)
            self._next()
            if self._peek() in ("", ","):
                raise self._expected("identifier after ','", at_the_end=True)
            found.append(self._first())
        return found

    def _first(self) -> Requirement:
        if (token := self._peek()) == "" or token in _SPECIAL - {"!"}:
            raise self._expected("!, identifier, or 'end of string'", at_the_end=True)
        return self._requirement()

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            return Requirement(self._key(), "absent")
        key = self._key()
        token = self._peek()
        if token in ("", ","):
            return Requirement(key, "exists")
        return self._with_operator(key, token)

    def _with_operator(self, key: str, token: str) -> Requirement:
        self._next()
        match token:
            case "=" | "==":
                return Requirement(key, "in", frozenset([self._exact_value(key)]))
            case "!=":
                return Requirement(key, "notin", frozenset([self._exact_value(key)]))
            case "in" | "notin":
                return Requirement(key, token, self._value_set(key))
            case ">" | "<":
                return Requirement(key, token, frozenset([self._integer(key)]))
            case _:
                self.at -= 1
                raise self._expected("in, notin, =, ==, !=, gt, lt")

    def _key(self) -> str:
        token = self._next()
        if token == "" or token in _SPECIAL:
            self.at -= 1
            raise self._expected("identifier")
        if problems := label_key_errors(token):
            raise _unparsable(f'<nil>: Invalid value: "{token}": {"; ".join(problems)}')
        return token

    def _exact_value(self, key: str) -> str:
        token = self._peek()
        if token in ("", ","):
            return ""
        if token in _SPECIAL:
            raise self._expected("identifier")
        return self._checked(key, self._next())

    def _value_set(self, key: str) -> frozenset[str]:
        if self._next() != "(":
            self.at -= 1
            raise _unparsable(f"found '{self._peek()}' expected: '('")  # no comma there
        values: set[str] = set()
        pending = ""
        while True:
            token = self._next()
            if token in (",", ")"):
                values.add(pending)
                pending = ""
                if token == ")":
                    return frozenset(values)
            elif token == "" or token in _SPECIAL:
                self.at -= 1
                raise self._expected("',' or ')'" if pending else "',', ')' or identifier")
            else:
                pending = self._checked(key, token)

    def _integer(self, key: str) -> str:
        token = self._next()
        if not re.fullmatch(r"[+-]?\d+", token):
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise _unparsable(f'values[0]: Invalid value: "{token}": {why}')
        return self._checked(key, token)

    def _checked(self, key: str, value: str) -> str:
        if problems := label_value_errors(value):
            raise _unparsable(f'values[0][{key}]: Invalid value: "{value}": {"; ".join(problems)}')
        return value

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self.at += 1
        return token

    def _expected(self, what: str, *, at_the_end: bool = False) -> Exception:
        """at_the_end   between two requirements, not within one"""
        why = f"found '{self._peek()}', expected: {what}"
        return bad_request(why) if at_the_end else _unparsable(why)


def _unparsable(why: str) -> Exception:
    return bad_request(f"unable to parse requirement: {why}")


@dataclass(frozen=True)
class FieldTerm:
    path: str
    value: str
    equal: bool
    read: Callable[[Obj], str]

    def matches(self, obj: Obj) -> bool:
        return (self.read(obj) == self.value) is self.equal


@dataclass(frozen=True)
class FieldSelector:
    terms: tuple[FieldTerm, ...] = ()

    def matches(self, obj: Obj) -> bool:
        return all(term.matches(obj) for term in self.terms)

    def __bool__(self) -> bool:
        return bool(self.terms)

    def required(self, path: str) -> str | None:
        """The value that `path` must have, when the selector fixes one."""
        return next((t.value for t in self.terms if t.path == path and t.equal), None)


ANY_FIELDS = FieldSelector()


def parse_fields(text: str, selectable: frozenset[str]) -> FieldSelector:
    """A field selector from its text; `selectable` are the paths that this resource offers.

    raises  Failure 400 when it cannot be parsed or names another path
    """
    terms = [_field_term(part, selectable) for part in _split_terms(text) if part]
    return FieldSelector(tuple(terms))


def _split_terms(text: str) -> list[str]:
    return re.findall(r"(?:\\.|[^,\\])+", text)


def _field_term(part: str, selectable: frozenset[str]) -> FieldTerm:
    found = re.fullmatch(r"((?:\\.|[^=!\\])*)(==|!=|=)(.*)", part, re.DOTALL)
    if found is None:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    path, operator, value = found.groups()
    if stray := re.search(r"(?<!\\)=", value):
        why = f"unescaped character in value: {ord(stray.group())}"
        raise bad_request(f"invalid field selector: {why}")
    if path not in selectable:
        if selectable == _EVERYWHERE:
            why = f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            raise bad_request(why)
        raise bad_request(f"field label not supported: {path}")
    return FieldTerm(path, re.sub(r"\\(.)", r"\1", value), operator != "!=", _reader(path))


def _source_of(event: Obj) -> str:
    return str((event.get("source") or {}).get("component") or event.get("reportingComponent") or "")


def _reader(path: str) -> Callable[[Obj], str]:
    if path == "source":
        return _source_of
    steps = path.lstrip(".").split(".")

    def read(obj: Obj) -> str:
        value: object = obj
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        if value is None:
            return "false" if path in ("spec.unschedulable", "spec.hostNetwork") else ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    return read


_EVERYWHERE = frozenset({"metadata.name", "metadata.namespace"})
_BY_RESOURCE: dict[str, frozenset[str]] = {
    "pods": frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        }
    ),
    "nodes": frozenset({"spec.unschedulable"}),
    "secrets": frozenset({"type"}),
    "namespaces": frozenset({"status.phase"}),
    "services": frozenset({"spec.clusterIP", "spec.type"}),
    "replicationcontrollers": frozenset({"status.replicas"}),
    "jobs.batch": frozenset({"status.successful"}),
    "certificatesigningrequests.certificates.k8s.io": frozenset({"spec.signerName"}),
    "resourceslices.resource.k8s.io": frozenset({"spec.nodeName", "spec.driver"}),
    "events": frozenset(
        {
            *(
                f"involvedObject.{field}"
                for field in (
                    "kind",
                    "namespace",
                    "name",
                    "uid",
                    "apiVersion",
                    "resourceVersion",
                    "fieldPath",
                )
            ),
            *(
                f"regarding.{field}"
                for field in (
                    "kind",
                    "namespace",
                    "name",
                    "uid",
                    "apiVersion",
                    "resourceVersion",
                    "fieldPath",
                )
            ),
            "reason",
            "reportingComponent",
            "reportingController",
            "source",
            "type",
        }
    ),
}


def selectable_fields(qualified_name: str, extra: frozenset[str] = frozenset()) -> frozenset[str]:
    """Paths that a field selector may name; `extra` are a custom resource's selectableFields."""
    return _EVERYWHERE | _BY_RESOURCE.get(qualified_name, frozenset()) | extra
