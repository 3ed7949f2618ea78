"""YAML as Kubernetes people expect it, without the surprises of YAML 1.1.

Reading: dates, `12:30:45` and the like stay text, `1e3` is a number, duplicate keys are an error that names
the line. `yes`, `on`, `no`, `off` are booleans as for kubectl. Aliases may repeat what is written, within
limits: nothing is built before it has been counted. Writing: every string that some reader could take for
something else is quoted. The library is imported on first use only.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from gpuready.errors import UsageError

MAX_COPIES = 10_000  # nodes that aliases and merge keys may add to those that are written
MAX_DEPTH = 100


class YamlError(UsageError):
    """Text that is not YAML, has the same key twice or is too much; the message names line and column."""


def parse_yaml(text: str, *, source: str = "", max_nodes: int | None = None) -> Any:
    """The one document in `text`; None for an empty one.

    max_nodes  keys and values that it may hold, aliases followed; for text that comes from the cluster
    """
    documents = _documents(text, source, max_nodes)
    if len(documents) > 1:
        raise YamlError(
            f"{source or 'the text'} holds {len(documents)} YAML documents",
            why="one is expected",
            next_step="keep one of them",
        )
    return documents[0] if documents else None


def parse_yaml_documents(text: str, *, source: str = "") -> list[Any]:
    """All documents in `text`, empty ones left out."""
    return _documents(text, source, None)


def _documents(text: str, source: str, max_nodes: int | None) -> list[Any]:
    """Whatever the library or one of its constructors raises is a YamlError here."""
    import yaml

    try:
        return [each for each in _constructed(text, max_nodes) if each is not None]
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise _error(f"{source or 'the text'}{where}: {_short(exc.problem or exc.context)}") from exc
    except Exception as exc:
        raise _error(f"{source or 'the text'}: {_short(exc)}") from exc


def _error(what: str) -> YamlError:
    return YamlError(what, why="it is not valid YAML", next_step="correct it there")


def _short(what: object) -> str:
    text = str(what)
    return text if len(text) <= 200 else text[:197] + "..."


def _constructed(text: str, max_nodes: int | None) -> Iterator[Any]:
    loader = _loader()(text)
    try:
        counted = _Counted(loader, max_nodes)
        while loader.check_node():
            node = loader.get_node()
            counted.add(node)
            yield loader.construct_document(node)
    finally:
        loader.dispose()


class _Counted:
    """What the text amounts to once every alias is followed, found without following any twice."""

    def __init__(self, loader: Any, max_nodes: int | None) -> None:
        self._loader = loader
        self._max_nodes = max_nodes
        self._total = 0
        self._sizes: dict[Any, tuple[int, int]] = {}  # node -> nodes in it, levels in it
        self._open: set[Any] = set()

    def add(self, node: Any) -> None:
        """raises ConstructorError for a document that is too much, contains itself or has a key twice"""
        self._total += self._measured(node, 0)[0]
        self._refuse_too_many(node, self._total)

    def _measured(self, node: Any, depth: int) -> tuple[int, int]:
        size, levels = self._sizes.get(node) or self._measured_first(node, depth)
        if depth + levels > MAX_DEPTH:
            raise _refusal(node, f"is nested more than {MAX_DEPTH} levels deep")
        return size, levels

    def _measured_first(self, node: Any, depth: int) -> tuple[int, int]:
        if node in self._open:
            raise _refusal(node, "contains itself")
        if depth > MAX_DEPTH:
            raise _refusal(node, f"is nested more than {MAX_DEPTH} levels deep")
        self._open.add(node)
        size, levels = 1, 0
        for child in self._children(node):
            inner, below = self._measured(child, depth + 1)
            size, levels = size + inner, max(levels, below + 1)
            self._refuse_too_many(node, size)
        self._open.remove(node)
        self._sizes[node] = size, levels
        return size, levels

    def _children(self, node: Any) -> Iterable[Any]:
        if node.id == "mapping":
            _refuse_duplicates(self._loader, node)
            return (child for pair in node.value for child in pair)
        return node.value if node.id == "sequence" else ()

    def _refuse_too_many(self, node: Any, size: int) -> None:
        if self._max_nodes is not None and size > self._max_nodes:
            raise _refusal(node, f"holds more than {self._max_nodes} keys and values")
        if size - len(self._sizes) - len(self._open) > MAX_COPIES:
            raise _refusal(node, f"repeats more than {MAX_COPIES} keys and values by its aliases")


def _refusal(node: Any, problem: str) -> Exception:
    import yaml

    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def dump_yaml(value: Any) -> str:
    import yaml

    return str(yaml.dump(value, Dumper=_dumper(), sort_keys=False, default_flow_style=False, width=110))


def dump_yaml_documents(values: Iterable[Any]) -> str:
    return "---\n".join(dump_yaml(value) for value in values)


_AMBIGUOUS = re.compile(r"^(y|n|yes|no|on|off|true|false|null|~|[-+.0-9].*|)$", re.IGNORECASE)
_INT = re.compile(r"^[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_FLOAT = re.compile(r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$")
_SPECIAL_FLOAT = re.compile(r"^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$")
_OWN_TAGS = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


@functools.cache
def _loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep=deep)
            except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as exc:
                # The library's constructors trust the tag: `!!int x`, `!!bool maybe`, `!!timestamp x`.
                kind = node.tag.rpartition(":")[2]
                value = _short(node.value) if node.id == "scalar" else f"a {node.id}"
                raise _refusal(node, f'"{value}" is no {kind}') from exc

    kept = {
        first: [(tag, regexp) for tag, regexp in resolvers if tag not in _OWN_TAGS]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    Loader.yaml_implicit_resolvers = kept
    Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _SPECIAL_FLOAT, list("-+."))
    Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
    Loader.add_constructor("tag:yaml.org,2002:map", _construct_map)
    return Loader


def _construct_map(loader: Any, node: Any) -> Any:
    value: dict[Any, Any] = {}
    yield value
    value.update(loader.construct_mapping(node))


def _construct_int(loader: Any, node: Any) -> int:
    text = loader.construct_scalar(node).replace("_", "")
    digits = text.lstrip("+-")
    if len(digits) > _MAX_DIGITS:
        raise _refusal(node, "the number does not fit into 64 bits")
    value = int(digits, 8) if re.fullmatch(r"0[0-7]+", digits) else int(digits, 0)
    value = -value if text.startswith("-") else value
    if not -(2**63) <= value < 2**63:
        raise _refusal(node, "the number does not fit into 64 bits")
    return value


_MAX_DIGITS = 80  # more than 64 binary ones with their prefix


def _refuse_duplicates(loader: Any, node: Any) -> None:
    seen = set()
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        if key_node.id != "scalar":
            raise _refusal(key_node, "a map or list cannot be a key")
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise _refusal(key_node, f'the key "{_short(key)}" stands here for the second time')
        seen.add(key)


@functools.cache
def _dumper() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent_str(dumper: Any, data: str) -> Any:
        style = "|" if "\n" in data else "'" if _AMBIGUOUS.match(data) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, represent_str)
    return Dumper
