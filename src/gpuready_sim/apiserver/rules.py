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
from gpuready_sim.apiserver.field_errors import NOWHERE, OMITTED, FieldError, TypeName
from gpuready_sim.apiserver.schema import INT_OR_STRING, Schema
from gpuready_sim.apiserver.values import ABSENT, correlated, is_same, predecessor

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

    def __init__(self, schema: Schema, *, root: bool = True) -> None:
        """
        root  it is the schema of a whole object, whose head rules may read
        """
        node = schema.node
        if root:
            schema = Schema(node | {"properties": node.get("properties", {}) | ALWAYS_THERE})
        self._schema = schema
        self._below: dict[int, bool] = {}
        self.has_rules = self._has_rules(schema)

    def validate(self, obj: Any, old: Any = None, warnings: list[str] | None = None) -> list[FieldError]:
        """
        warnings  collects what is not refused, since it was wrong before
        """
        if not self.has_rules:
            return []
        found: list[FieldError] = []
        for error, excused in self._walk(obj, ABSENT if old is None else old, self._schema, "", False):
            if not excused:
                found.append(error)
            elif warnings is not None:
                warnings.append(error.message())
        return found

    def _has_rules(self, schema: Schema) -> bool:
        found = self._below.get(id(schema))
        if found is None:
            parts = [*schema.properties.values(), schema.items, schema.additional]
            below = [self._has_rules(part) for part in parts if part is not None]
            found = self._below[id(schema)] = bool(schema.node.get("x-kubernetes-validations")) or any(below)
        return found

    def _walk(
        self, value: Any, old: Any, schema: Schema, path: str, same: bool
    ) -> Iterator[tuple[FieldError, bool]]:
        """(what is wrong, whether it is excused)

        same  the nearest value above that can be found in the old object is there as it is
        """
        if value is None or not self._has_rules(schema):
            return
        same = is_same(value, old) if old is not ABSENT else same
        for raw in schema.node.get("x-kubernetes-validations", ()):
            rule = Rule.of(raw)
            for error in _verdict(rule, value, old, schema, path):
                yield error, same and not rule.is_transition
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for name, child in value.items():
                field = schema.properties.get(name) or schema.additional
                if field is not None:
                    at = f"{path}.{name}" if path else name
                    yield from self._walk(child, before.get(name, ABSENT), field, at, same)
        elif isinstance(value, list) and schema.items is not None:
            before = correlated(old, schema)
            for i, item in enumerate(value):
                previous = predecessor(item, schema, before)
                yield from self._walk(item, previous, schema.items, f"{path}[{i}]", same)


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
        # Of duplicates nothing is said but what is there twice.
        detail = "" if rule.reason == "Duplicate" else _message(rule, values)
        yield FieldError(at, rule.reason, shown, detail)


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
    """The place that a rule points at, with the keys of maps as the server has them: .[key]"""
    told = re.sub(r"\['([^']*)'\]", r"[\1]", field_path).removeprefix(".")
    return ".".join(part for part in (path, told) if part) or NOWHERE


def _kind(schema: Schema) -> TypeName:
    return TypeName("" if schema.type == INT_OR_STRING else schema.type or "object")
