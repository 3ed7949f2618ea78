"""x-kubernetes-validations: which rules a schema has, and what they say of an object.

Source: kubernetes, apiextensions-apiserver pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuready_sim.apiserver import cel
from gpuready_sim.apiserver.cel import CelError
from gpuready_sim.apiserver.field_errors import OMITTED, FieldError, InOrder, TypeName, not_supported
from gpuready_sim.apiserver.fields import element_key
from gpuready_sim.apiserver.schema import INT_OR_STRING, MAP, UNTYPED, Node, Schema

REASONS = {
    "FieldValueInvalid": "Invalid",
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required",
    "FieldValueDuplicate": "Duplicate",
}
ALWAYS_THERE = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
    },
}
# What rules at the root of an object may read although the CRD does not specify it.

ABSENT: Any = object()
PREVIOUS = "__previous"


@dataclass(frozen=True)
class Rule:
    """One entry of x-kubernetes-validations."""

    expression: str
    message: str = ""
    message_expression: str = ""
    reason: str = "Invalid"
    field_path: str = ""
    optional_old: bool = False

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Rule:
        return cls(
            expression=raw.get("rule", ""),
            message=raw.get("message", ""),
            message_expression=raw.get("messageExpression", ""),
            reason=REASONS.get(raw.get("reason", ""), "Invalid"),
            field_path=raw.get("fieldPath", ""),
            optional_old=bool(raw.get("optionalOldSelf")),
        )

    @property
    def is_transition(self) -> bool:
        return "oldSelf" in self.expression


class RuleSet:
    """The rules of a schema, found once; parts without rules cost nothing."""

    def __init__(self, schema: Schema) -> None:
        node = schema.node
        self._schema = schema = Schema(node | {"properties": node.get("properties", {}) | ALWAYS_THERE})
        self._below: dict[int, bool] = {}
        self.has_rules = self._has_rules(schema)

    def validate(self, obj: Any, old: Any = None) -> list[FieldError]:
        if not self.has_rules:
            return []
        return list(self._walk(obj, ABSENT if old is None else old, self._schema, ""))

    def _has_rules(self, schema: Schema) -> bool:
        found = self._below.get(id(schema))
        if found is None:
            parts = [*schema.properties.values(), schema.items, schema.additional]
            below = [self._has_rules(part) for part in parts if part is not None]
            found = self._below[id(schema)] = bool(schema.node.get("x-kubernetes-validations")) or any(below)
        return found

    def _walk(self, value: Any, old: Any, schema: Schema, path: str) -> Iterator[FieldError]:
        if value is None or not self._has_rules(schema):
            return
        for raw in schema.node.get("x-kubernetes-validations", ()):
            yield from _verdict(Rule.of(raw), value, old, schema, path)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for name, child in value.items():
                field = schema.properties.get(name) or schema.additional
                if field is not None:
                    at = f"{path}.{name}" if path else name
                    yield from self._walk(child, before.get(name, ABSENT), field, at)
        elif isinstance(value, list) and schema.items is not None:
            before = _correlated(old, schema)
            for i, item in enumerate(value):
                previous = before.get(element_key(item, schema), ABSENT) if before else ABSENT
                yield from self._walk(item, previous, schema.items, f"{path}[{i}]")


def _correlated(old: Any, schema: Schema) -> dict[str, Any]:
    """Old elements by their key; elements of other lists have no known predecessor."""
    if schema.relation != MAP or not isinstance(old, list):
        return {}
    return {element_key(item, schema): item for item in old}


def _verdict(rule: Rule, value: Any, old: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    values = {"self": cel.rule_value(value, schema)}
    if rule.is_transition:
        if old is ABSENT or old is None:
            if not rule.optional_old:
                return
            values["oldSelf"] = None
        else:
            values["oldSelf"] = cel.rule_value(old, schema)
    expression = _with_optional_old(rule.expression, values) if rule.optional_old else rule.expression
    try:
        holds = cel.evaluate(expression, values)
    except CelError as exc:
        named = rule.message.strip() or rule.expression.strip()
        yield FieldError(path, "Invalid", _kind(schema), f"{exc} evaluating rule: {named}")
        return
    if holds is not True:
        at = _below(path, rule.field_path)
        shown = OMITTED if isinstance(value, (dict, list)) else value
        yield FieldError(at, rule.reason, shown, _message(rule, values))


def _with_optional_old(expression: str, values: dict[str, Any]) -> str:
    """With optionalOldSelf, `oldSelf` is an optional value: none when the object or field is new."""
    if "oldSelf" not in values:
        return expression
    values[PREVIOUS] = values.pop("oldSelf")
    old = "optional.none()" if values[PREVIOUS] is None else f"optional.of({PREVIOUS})"
    return f"cel.bind(oldSelf, {old}, {expression})"


def _message(rule: Rule, values: Mapping[str, Any]) -> str:
    if rule.message_expression:
        try:
            text = cel.evaluate(rule.message_expression, values)
        except CelError:
            text = None
        if isinstance(text, str) and text.strip() and "\n" not in text:
            return text.strip()
    return rule.message.strip() or f"failed rule: {rule.expression.strip()}"


def _below(path: str, field_path: str) -> str:
    if not field_path:
        return path
    return f"{path}{field_path}" if path or field_path.startswith("[") else field_path.removeprefix(".")


def _kind(schema: Schema) -> TypeName:
    return TypeName("" if schema.type == INT_OR_STRING else schema.type or "object")


# --- rules in CRDs ---


def rule_errors(node: Node, path: str) -> Iterator[FieldError]:
    """What is wrong with the rules of one schema node themselves."""
    for i, raw in enumerate(node.get("x-kubernetes-validations") or []):
        yield from _rule_errors(raw, node, f"{path}.x-kubernetes-validations[{i}]")


def _rule_errors(raw: Mapping[str, Any], node: Node, path: str) -> Iterator[FieldError]:
    rule, kind = Rule.of(raw), node.get("type", "")
    if not rule.expression.strip():
        yield FieldError(f"{path}.rule", "Required", detail="rule is not specified")
        return
    form, shown = str(node.get("format") or ""), _as_go_has_it(raw)
    problem = cel.check(rule.expression, "" if rule.optional_old else kind, form, old=rule.is_transition)
    problem = problem or _undefined_field(rule.expression, Schema(node))
    if problem:
        yield FieldError(f"{path}.rule", "Invalid", shown, problem)
    if rule.message_expression:
        problem = cel.check(rule.message_expression, kind, form, old=True, gives="STRING")
        if problem:
            yield FieldError(f"{path}.messageExpression", "Invalid", shown, problem)
    if "\n" in rule.message.strip():
        yield FieldError(f"{path}.message", "Invalid", rule.message, "must not contain line breaks")
    if raw.get("reason") and raw["reason"] not in REASONS:
        yield not_supported(f"{path}.reason", raw["reason"], sorted(REASONS))
    if rule.field_path and not _leads_somewhere(rule.field_path, node):
        yield FieldError(f"{path}.fieldPath", "Invalid", rule.field_path, "must be a valid path")


_GO_FIELDS = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")
_GO_POINTERS = ("reason", "optionalOldSelf")


def _as_go_has_it(raw: Mapping[str, Any]) -> InOrder:
    """The whole rule, as the server shows one that it does not take."""
    return InOrder(
        {
            name[0].upper() + name[1:]: raw.get(name, None if name in _GO_POINTERS else "")
            for name in _GO_FIELDS
        }
    )


SELF_PATH = re.compile(r"(?<![\w.])self((?:\.\??[A-Za-z_]\w*(?!\w|\s*\())+)")
LITERAL = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")


def _undefined_field(expression: str, root: Schema) -> str:
    """A field after `self` that the schema does not have; the library itself checks scalars only."""
    bare = LITERAL.sub(lambda match: " " * len(match.group()), expression)
    for match in SELF_PATH.finditer(bare):
        schema, at = root, match.start(1)
        for step in re.findall(r"\.\??\w+", match.group(1)):
            if not schema.properties or schema.preserve_unknown:
                break
            name = step.lstrip(".?")
            fields = {cel.escaped(one): field for one, field in schema.properties.items()}
            if name not in fields and not (schema is root and name in ALWAYS_THERE):
                told = f"ERROR: <input>:1:{at + 1}: undefined field '{name}'"
                return f"compilation failed: {cel.pointed_out(told, expression)}"
            schema, at = fields.get(name, UNTYPED), at + len(step)
    return ""


def _leads_somewhere(path: str, node: Node) -> bool:
    """Whether a fieldPath (.a.b or ['a'].b) names a field below the schema node."""
    schema = Schema(node)
    for plain, quoted in re.findall(r"\.([^.\[]+)|\['([^']+)'\]", path):
        field = schema.properties.get(plain or quoted) or schema.additional
        if field is None:
            return False
        schema = field
    return path.startswith((".", "["))
