"""What a client accepts and what it sends: JSON, YAML, tables, metadata only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from gpuready_sim.apiserver import go_json, protobuf
from gpuready_sim.apiserver.failures import (
    Failure,
    Obj,
    bad_request,
    not_acceptable,
    nothing_acceptable,
    unsupported_media_type,
)
from gpuready_sim.apiserver.requests import JSON, Request
from gpuready_sim.apiserver.store import decode

YAML = "application/yaml"
_OFFERED = (JSON, YAML)
# What a real server names. Who asks for protobuf alone is refused here all the same: nobody does.
_SAID = (*_OFFERED, protobuf.MEDIA_TYPE)
_STREAMED = tuple(f"{media};stream=watch" for media in (JSON, protobuf.MEDIA_TYPE))
_READ = (JSON, YAML, protobuf.MEDIA_TYPE)


@dataclass(frozen=True)
class Form:
    """How the objects of an answer are to look.

    shape    "", "Table" or "PartialObjectMetadata"
    listed   the shape was asked for as that of a list
    version  of a shape: v1, or v1beta1 as old clients ask for it
    """

    media: str = JSON
    shape: str = ""
    listed: bool = False
    version: str = "v1"

    @property
    def content_type(self) -> str:
        shape = self.shape + ("List" if self.listed else "")
        return self.media if not shape else f"{self.media};as={shape};g=meta.k8s.io;v={self.version}"


PLAIN = Form()


def form_of(request: Request) -> Form:
    """The first form that the client accepts and we can give.

    raises  Failure 406 when there is none, e.g. for a client that insists on protobuf
    """
    accept = request.headers.get("accept", "")
    if accept in ("", JSON, "*/*", "application/json, */*"):
        return PLAIN
    streams = request.verb == "watch"
    if _is_of_go_restful(request) and not _names_any(accept):
        raise nothing_acceptable((*_SAID, *_STREAMED) if request.verb in ("list", "watch") else _SAID)
    for media, parameters in media_ranges(accept):
        form = _form(media, parameters, streams)
        if form is not None:
            return form
    asks_for_another_stream = any("stream" in parameters for _, parameters in media_ranges(accept))
    raise not_acceptable(_STREAMED if streams and not asks_for_another_stream else _SAID)


def _is_of_go_restful(request: Request) -> bool:
    """Built-in kinds are served through a router that looks at the media types first."""
    group = request.target.group if request.target is not None else ""
    return "." not in group or group.endswith(".k8s.io")


def _names_any(accept: str) -> bool:
    return any(media in (*_READ, "*/*") for media, _ in media_ranges(accept))


def media_ranges(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The clauses of an Accept header, those with the greatest q first."""
    found: list[tuple[float, str, dict[str, str]]] = []
    for clause in accept.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        parameters = dict(part.split("=", 1) for part in rest if "=" in part)
        found.append((_quality(parameters.pop("q", "1")), media, parameters))
    found.sort(key=lambda item: -item[0])
    return [(media, parameters) for _, media, parameters in found]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


def _form(media: str, parameters: dict[str, str], streams: bool) -> Form | None:
    if media in ("*/*", "application/*"):
        media = JSON
    if media not in (_OFFERED[:1] if streams else _OFFERED):
        return None
    if parameters.get("stream", "watch") != "watch":
        return None
    shape = parameters.get("as", "")
    if shape == "":
        return Form(media)
    version = parameters.get("v", "")
    known = parameters.get("g") == "meta.k8s.io" and version in ("v1", "v1beta1")
    if not known or shape not in _SHAPES:
        return None
    return Form(media, shape.removesuffix("List"), shape.endswith("List"), version)


_SHAPES = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")


def error_form(request: Request) -> Form:
    """In which form a refusal is told: as YAML to who asks for that before JSON."""
    ranges = media_ranges(request.headers.get("accept", ""))
    first = next((media for media, _ in ranges if media in (*_OFFERED, "*/*")), JSON)
    return Form(YAML) if first == YAML else PLAIN


def to_yaml(raw: bytes) -> bytes:
    """A JSON answer as YAML."""
    text: str = yaml.dump(decode(raw), Dumper=_Dumper, sort_keys=True)
    return text.encode()


class _Dumper(yaml.CSafeDumper):
    """Writes text as Go's library does."""


def _written_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    plain = "tag:yaml.org,2002:str"
    is_plain = dumper.resolve(yaml.ScalarNode, text, (True, False)) == plain  # type: ignore[no-untyped-call]
    style = "|" if "\n" in text else None if is_plain else '"'
    return dumper.represent_scalar(plain, text, style)


_Dumper.add_representer(str, _written_text)


def body_of(request: Request, kind: str = "", *, custom: bool = False) -> Obj:
    """The object in a request's body.

    kind    what it must be, where that is said of a body that cannot be read
    custom  a custom resource, of which nobody knows the kind unless it says so
    raises  Failure 415 for a media type that we do not read, 400 for what cannot be parsed
    """
    media = request.headers.get("content-type", JSON).split(";")[0].strip().lower()
    if media in (JSON, "", "*/*"):
        parsed = _parse_object(request.body, kind)
    elif media == protobuf.MEDIA_TYPE:
        parsed = _parse_protobuf(request.body)
    elif media in (YAML, "application/x-yaml", "text/yaml"):
        parsed = parse_yaml(request.body)
    else:
        raise unsupported_media_type(_READ)
    if not isinstance(parsed, dict):
        raise bad_request("the body of the request is not an object")
    if custom and not parsed.get("kind"):
        why = f"Object 'Kind' is missing in '{request.body.decode('utf-8', 'replace')}'"
        raise _unrecognized(kind, why, request.body)
    return parsed


def _parse_object(body: bytes, kind: str) -> Any:
    if why := _unreadable(body):
        why = f"couldn't get version/kind; json parse error: {why}"
        if not kind:
            raise bad_request(why)
        raise _unrecognized(kind, why, body)
    return decode(body)


def _unrecognized(kind: str, why: str, body: bytes) -> Failure:
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {why} ({_summary(body)})"
    )


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    shown, rest = body[:30], " ..." if len(body) > 30 else ""
    return (shown.decode("utf-8", "replace") if body.startswith(b"{") else shown.hex()) + rest


def _unreadable(body: bytes) -> str:
    """What Go would say of a body that is no JSON; empty when it is."""
    try:
        decode(body)
    except msgspec.DecodeError as exc:
        return go_json.complaint(body) or str(exc)
    return ""


def parse_json(body: bytes, before: str = "") -> Any:
    """
    before  what is said before the words of the parser
    raises  Failure 400
    """
    if why := _unreadable(body):
        raise bad_request(before + why)
    return decode(body)


def _parse_protobuf(body: bytes) -> Obj:
    try:
        return protobuf.decode_body(body)
    except protobuf.ProtobufError as exc:
        raise bad_request(f"the object provided is unrecognized: {exc}") from exc


def parse_yaml(body: bytes, before: str = "") -> Any:
    """One YAML document as sigs.k8s.io/yaml reads it: no dates, no base 60, keys are text.

    before  what is said before the words of the parser
    raises  Failure 400
    """
    try:
        return _with_text_keys(yaml.load(body, Loader=_Loader))
    except yaml.YAMLError as exc:
        raise bad_request(f"{before}error converting YAML to JSON: {_of_yaml(exc)}") from exc


def _of_yaml(exc: yaml.YAMLError) -> str:
    """As Go's YAML library says it. Source: go-yaml v2, decode.go, (*parser).fail."""
    if not isinstance(exc, yaml.MarkedYAMLError):
        return "yaml: " + " ".join(str(exc).split())
    lines = [mark.line for mark in (exc.context_mark, exc.problem_mark) if mark is not None and mark.line]
    line = lines[0] + isinstance(exc, yaml.scanner.ScannerError) if lines else 0
    return f"yaml: {f'line {line}: ' if line else ''}{exc.problem}"


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key_text(key): _with_text_keys(child) for key, child in value.items()}
    return [_with_text_keys(child) for child in value] if isinstance(value, list) else value


def _key_text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


class _Loader(yaml.CSafeLoader):
    """Plain values as Kubernetes reads them."""


def _yes_or_no(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> bool:
    return str(node.value).lower() in ("y", "yes", "true", "on")


_Loader.add_constructor("tag:yaml.org,2002:bool", _yes_or_no)
_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":int", ":float"))
    ]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^[-+]?(0|[1-9][0-9_]*|0o?[0-7_]+|0x[0-9a-fA-F_]+)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$"),
    list("-+0123456789."),
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^[yYnN]$"), list("yYnN"))
