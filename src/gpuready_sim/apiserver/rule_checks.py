"""What the server asks of the rules (x-kubernetes-validations) in a CustomResourceDefinition.

Source: kubernetes, apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go,
pkg/apiserver/schema/cel/compilation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gpuready_sim.apiserver import cel, cel_cost, cel_types
from gpuready_sim.apiserver.cel_types import STRING, Type
from gpuready_sim.apiserver.field_errors import FieldError, InOrder, not_supported
from gpuready_sim.apiserver.rules import REASONS, Rule
from gpuready_sim.apiserver.schema import Node, Schema

RULES: Final = "x-kubernetes-validations"
_LINE_ENDS: Final = re.compile(r"[\n\r]")


def statement_errors(node: Node, path: str) -> Iterator[FieldError]:
    """What is wrong with the rules of one schema node, before anybody tries to read their expressions."""
    for i, raw in enumerate(node.get(RULES) or []):
        yield from _statement(raw, node, f"{path}.{RULES}[{i}]")


def _statement(raw: Mapping[str, Any], node: Node, path: str) -> Iterator[FieldError]:
    rule, message = raw.get("rule", "").strip(), raw.get("message", "")
    if not rule:
        yield FieldError(f"{path}.rule", "Required", detail="rule is not specified")
    elif message and not message.strip():
        yield FieldError(f"{path}.message", "Invalid", message, "must be non-empty if specified")
    elif _LINE_ENDS.search(message.strip()):
        yield FieldError(f"{path}.message", "Invalid", message, "must not contain line breaks")
    elif _LINE_ENDS.search(rule) and not message.strip():
        detail = "message must be specified if rule contains line breaks"
        yield FieldError(f"{path}.message", "Required", detail=detail)
    told = raw.get("messageExpression", "")
    if told and not told.strip():
        detail = "messageExpression must be non-empty if specified"
        yield FieldError(f"{path}.messageExpression", "Required", detail=detail)
    if raw.get("reason") is not None and raw["reason"] not in REASONS:
        yield not_supported(f"{path}.reason", raw["reason"], sorted(REASONS))
    yield from _field_path(raw.get("fieldPath", ""), node, f"{path}.fieldPath")


def _field_path(text: str, node: Node, path: str) -> Iterator[FieldError]:
    if text and not text.strip():
        yield FieldError(path, "Invalid", text, "must be non-empty if specified")
    if _LINE_ENDS.search(text):
        yield FieldError(path, "Invalid", text, "must not contain line breaks")
    if text and not _leads_somewhere(text, node):
        yield FieldError(path, "Invalid", text, "must be a valid path")


def _leads_somewhere(path: str, node: Node) -> bool:
    """Whether a fieldPath (.a.b or ['a'].b) names a field below the schema node."""
    schema = Schema(node)
    for plain, quoted in re.findall(r"\.([^.\[]+)|\['([^']+)'\]", path):
        field = schema.properties.get(plain or quoted) or schema.additional
        if field is None:
            return False
        schema = field
    return path.startswith((".", "["))


def rule_errors(schema: Node, path: str) -> list[FieldError]:
    """What is wrong with the expressions of a schema, those deeper down first, and with their cost."""
    bill: list[tuple[str, int]] = []
    errors = list(_below(schema, path, _Surroundings(root=True), bill))
    total = min(cel_cost.MOST, sum(cost for _, cost in bill))
    if total > TOTAL_LIMIT:
        dear = sorted((one for one in bill if one[1] >= TOTAL_LIMIT // 100), key=lambda one: -one[1])[:4]
        detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        errors += [FieldError(at, "Forbidden", detail=detail) for at, _ in dear]
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        errors.append(FieldError(path, "Forbidden", detail=_too_dear(what, total, TOTAL_LIMIT)))
    return errors


LIMIT: Final = 10_000_000  # of one expression
TOTAL_LIMIT: Final = 100_000_000  # of all of a schema


@dataclass(frozen=True)
class _Surroundings:
    """Where a schema node stands.

    root    it is that of the whole object
    beyond  the list above it in which old elements cannot be found again
    count   how many such values an object can hold; None without limit
    """

    root: bool = False
    beyond: str = ""
    count: int | None = 1


def _below(node: Node, path: str, around: _Surroundings, bill: list[tuple[str, int]]) -> Iterator[FieldError]:
    """
    bill  collects (path, cost) of every expression
    """
    inner = replace(around, root=False, count=_multiplied(around.count, node))
    for name, child in (node.get("properties") or {}).items():
        yield from _below(child, f"{path}.properties[{name}]", inner, bill)
    if isinstance(node.get("additionalProperties"), dict):
        yield from _below(node["additionalProperties"], f"{path}.additionalProperties", inner, bill)
    if isinstance(node.get("items"), dict):
        lost = path if node.get("x-kubernetes-list-type") != "map" else ""
        yield from _below(node["items"], f"{path}.items", replace(inner, beyond=around.beyond or lost), bill)
    of = cel_types.declared(Schema(node), root=around.root) if node.get(RULES) else None
    for i, raw in enumerate(node.get(RULES) or [] if of is not None else []):
        assert of is not None
        yield from _expressions(raw, of, f"{path}.{RULES}[{i}]", around, bill)


def _multiplied(count: int | None, node: Node) -> int | None:
    most: int | None = 1
    if node.get("type") == "array":
        most = node.get("maxItems")
    elif node.get("type") == "object" and node.get("additionalProperties") is not None:
        most = node.get("maxProperties")
    return None if count is None or most is None else cel_cost.times(count, max(0, most))


def _expressions(
    raw: Mapping[str, Any], of: Type, path: str, around: _Surroundings, bill: list[tuple[str, int]]
) -> Iterator[FieldError]:
    rule, shown = Rule.of(raw), _as_go_has_it(raw)
    verdict = cel.check(rule.expression, of, optional_old=rule.optional_old)
    count = around.count if around.count is not None else cel_types.MOST_BYTES // (of.least + 1)
    cost = cel_cost.times(verdict.cost, count)
    yield from _cost(cost, "estimated rule cost", f"{path}.rule", bill)
    if verdict.problem:
        yield FieldError(f"{path}.rule", "Invalid", shown, verdict.problem)
    elif rule.message_expression:
        told = cel.check(rule.message_expression, of, optional_old=rule.optional_old, gives=STRING)
        if told.problem:
            problem = told.problem.replace("compilation failed", "messageExpression compilation failed", 1)
            yield FieldError(f"{path}.messageExpression", "Invalid", shown, problem)
        else:
            what = "estimated messageExpression cost"
            yield from _cost(told.cost, what, f"{path}.messageExpression", bill)
    transition = rule.is_transition and not verdict.problem
    if transition and around.beyond:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {around.beyond}"
        yield FieldError(f"{path}.rule", "Invalid", rule.expression, detail)
    if not transition and raw.get("optionalOldSelf") is not None:
        detail = "may not be set if oldSelf is not used in rule"
        yield FieldError(f"{path}.optionalOldSelf", "Invalid", raw["optionalOldSelf"], detail)


def _cost(cost: int, what: str, path: str, bill: list[tuple[str, int]]) -> Iterator[FieldError]:
    bill.append((path, cost))
    if cost > LIMIT:
        yield FieldError(path, "Forbidden", detail=_too_dear(what, cost, LIMIT))


def _too_dear(what: str, cost: int, limit: int) -> str:
    times = cost / limit
    factor = "more than 100x" if times > 100 else f"{times:f}x" if times < 1.5 else f"{times:.1f}x"
    return (
        f"{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, "
        "maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


_GO_FIELDS: Final = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")
_GO_POINTERS: Final = ("reason", "optionalOldSelf")


def _as_go_has_it(raw: Mapping[str, Any]) -> InOrder:
    """The whole rule, as the server shows one that it does not take."""
    return InOrder(
        {
            name[0].upper() + name[1:]: raw.get(name, None if name in _GO_POINTERS else "")
            for name in _GO_FIELDS
        }
    )
