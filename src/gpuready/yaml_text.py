"""YAML as Kubernetes people expect it, without the surprises of YAML 1.1.

Reading: dates, `12:30:45` and the like stay text, `1e3` is a number, duplicate keys are an error that names
the line. `yes`, `on`, `no`, `off` are booleans as for kubectl. Writing: every string that some reader could
take for something else is quoted. The library is imported on first use only.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

from gpuready.errors import UsageError


class YamlError(UsageError):
    """Text that is not YAML, or has the same key twice; the message names line and column."""


def parse_yaml(text: str, *, source: str = "") -> Any:
    """The one document in `text`; None for an empty one."""
    documents = parse_yaml_documents(text, source=source)
    if len(documents) > 1:
        raise YamlError(
            f"{source or 'the text'} holds {len(documents)} YAML documents", why="one is expected"
        )
    return documents[0] if documents else None


def parse_yaml_documents(text: str, *, source: str = "") -> list[Any]:
    """All documents in `text`, empty ones left out."""
    import yaml

    try:
        return [each for each in yaml.load_all(text, Loader=_loader()) if each is not None]
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark
        where = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise YamlError(f"{source or 'the text'}{where}: {exc.problem}", why="it is not valid YAML") from exc
    except yaml.YAMLError as exc:
        raise YamlError(f"{source or 'the text'}: {exc}", why="it is not valid YAML") from exc


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
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            _refuse_duplicates(self, node)
            return dict(super().construct_mapping(node, deep=deep))

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
    value = int(digits, 8) if re.fullmatch(r"0[0-7]+", digits) else int(digits, 0)
    return -value if text.startswith("-") else value


def _refuse_duplicates(loader: Any, node: Any) -> None:
    import yaml

    seen = set()
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = loader.construct_object(key_node, deep=True)
        try:
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'the key "{key}" stands here for the second time', key_node.start_mark
                )
            seen.add(key)
        except TypeError:
            raise yaml.constructor.ConstructorError(
                None, None, "a map or list cannot be a key", key_node.start_mark
            ) from None


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
