"""YAML as sigs.k8s.io/yaml reads it: the first document, made into JSON and read as that. Pure.

No dates, no numbers of base 60; `yes` and `on` are true; only a strict reader minds what is said twice.

Source: go-yaml v2, resolve.go, decode.go; sigs.k8s.io/yaml, yaml.go.
"""

from __future__ import annotations

import base64
import re
from typing import Any, Final

import yaml

from gpuready_sim.apiserver.go_values import Number, Whole, json_text, syntax, type_of

_PLAIN: Final = "!plain"
_TAG: Final = "tag:yaml.org,2002:"
_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_NO_JSON: Final = {
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), "+Inf"),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), "-Inf"),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), "NaN"),
}
_OTHER_VERSION: Final = re.compile(r"\s*%YAML[ \t]+(?!1\.1\s)")
_JSON_ESCAPE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\(/|u[dD][89a-fA-F])")
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASES: Final = (16, 2, 8, 10)
_LARGEST_INT64: Final = 2**63


class Unreadable(ValueError):
    """No YAML, or YAML that is no JSON; in the server's words."""


class _Loader(yaml.CSafeLoader):
    """Tells plain scalars from the others, and resolves none."""


_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver(_PLAIN, re.compile(r".*", re.DOTALL), None)


class _Reading:
    """One document on its way; `repeated` collects what it says twice."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.repeated: list[str] = []

    def document(self) -> Any:
        if _OTHER_VERSION.match(self._text):
            raise Unreadable("yaml: found incompatible YAML document")
        loader = _Loader(self._text)
        try:
            node = loader.get_node() if loader.check_node() else None
            return self._value(node) if node is not None else None
        except yaml.YAMLError as exc:
            raise Unreadable(f"yaml: {self._of_yaml(exc)}") from exc
        finally:
            loader.dispose()

    def _value(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._map(node, {})
        if isinstance(node, yaml.SequenceNode):
            return [self._value(child) for child in node.value]
        if isinstance(node, yaml.ScalarNode) and node.style == '"':
            self._refuse_escapes(node)
        return _scalar(node)

    def _map(self, node: yaml.MappingNode, out: dict[str, Any]) -> dict[str, Any]:
        """Fills `out`, which is returned."""
        for name, child in node.value:
            if name.tag in (_PLAIN, f"{_TAG}merge") and name.value == "<<":
                for merged in child.value if isinstance(child, yaml.SequenceNode) else [child]:
                    self._map(merged, out)
                continue
            value = self._value(child)
            said = self._value(name)
            key = _key(said, value)
            if key in out:
                line = name.start_mark.line + 1
                self.repeated.append(f"line {line}: key {syntax(said)} already set in map")
            out[key] = value
        return out

    def _refuse_escapes(self, node: yaml.Node) -> None:
        """Those of JSON that go-yaml does not know: a slash, and letters in two halves."""
        written = self._text[node.start_mark.index : node.end_mark.index]
        found = _JSON_ESCAPE.search(written)
        if found is None:
            return
        line = node.start_mark.line + written[: found.start()].count("\n")
        problem = "found unknown escape character"
        if found[1] != "/":
            problem = "found invalid Unicode character escape code"
        raise Unreadable(f"yaml: {_at(line + 1 if line else 0)}{problem}")

    def _of_yaml(self, exc: yaml.YAMLError) -> str:
        """Source: go-yaml v2, decode.go, (*parser).fail."""
        if not isinstance(exc, yaml.MarkedYAMLError):
            is_control = "control characters" in str(exc)
            return "control characters are not allowed" if is_control else " ".join(str(exc).split())
        if exc.problem == "found undefined alias" and exc.problem_mark is not None:
            alias = re.match(r"\*([-\w]*)", self._text[exc.problem_mark.index :])
            return f"unknown anchor '{alias[1] if alias else ''}' referenced"
        if exc.problem_mark is not None and exc.problem_mark.line:
            return _at(exc.problem_mark.line + isinstance(exc, yaml.scanner.ScannerError)) + str(exc.problem)
        return _at(exc.context_mark.line if exc.context_mark is not None else 0) + str(exc.problem)


def _at(line: int) -> str:
    return f"line {line}: " if line else ""


def parse(body: bytes) -> Any:
    """The first document, its numbers as Go holds those of which it knows no type.

    raises  Unreadable
    """
    return _Reading(body.decode("utf-8", "replace")).document()


def said_twice(body: bytes) -> list[str]:
    """What a strict reader says of each key that the first document says again."""
    reading = _Reading(body.decode("utf-8", "replace"))
    reading.document()
    return reading.repeated


def is_other_than_json(body: bytes) -> bool:
    """Whether JSON says something that YAML reads otherwise."""
    return _JSON_ESCAPE.search(body.decode("utf-8", "replace")) is not None


def _scalar(node: yaml.Node) -> Any:
    text: str = node.value
    tag = node.tag.removeprefix(_TAG)
    if node.tag == _PLAIN or tag in ("int", "float", "bool", "null"):
        return _resolved(text)
    if tag == "binary":
        return base64.b64decode(text).decode("utf-8", "replace")
    return text


def _resolved(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text in _NO_JSON:
        raise Unreadable(f"json: unsupported value: {_NO_JSON[text]}")
    digits = text.replace("_", "") if text[:1] in "+-0123456789" else text
    if found := _INTEGER.fullmatch(digits):
        sign, *groups = found.groups()
        base, number = next((b, group) for b, group in zip(_BASES, groups, strict=True) if group is not None)
        return _of_json(int(sign + number, base))
    if _FLOAT.fullmatch(digits) and abs(float(digits)) != float("inf"):
        return _of_json(float(digits))
    return text


def _of_json(number: float) -> float:
    """A number that has been written as JSON and read again: 1.0 is 1 now, 2**63 a float."""
    if number != int(number) or abs(number) >= 10**21:
        return float(number)
    return int(number) if abs(number) < _LARGEST_INT64 else Whole(number)


def from_json(value: Any) -> Any:
    """What JSON says, read as YAML: a number that no float64 holds is a text."""
    if isinstance(value, dict):
        return {key: from_json(child) for key, child in value.items()}
    if isinstance(value, list):
        return [from_json(child) for child in value]
    if isinstance(value, Number):
        return value.text if abs(value) == float("inf") else _of_json(float(value))
    if isinstance(value, int) and not -_LARGEST_INT64 <= value < _LARGEST_INT64:
        return _of_json(value)
    return value


def _key(name: Any, value: Any) -> str:
    """
    raises  Unreadable for a key that JSON cannot have
    """
    if isinstance(name, (dict, list)):
        raise Unreadable(f"yaml: invalid map key: {syntax(name)}")
    if name is None:
        what = f"key: <nil>, value: {syntax(value)}"
        raise Unreadable(f"unsupported map key of type: {type_of(None)}, {what}")
    if isinstance(name, str):
        return name
    return str(name).lower() if isinstance(name, bool) else json_text(name)
