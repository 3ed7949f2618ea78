"""What a client accepts and what it sends: JSON, YAML, tables, metadata only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import NoneType
from typing import Any

import msgspec
import yaml

from gpuready_sim.apiserver import go_json, go_values, protobuf, store, yaml_bodies
from gpuready_sim.apiserver.failures import (
    Failure,
    Obj,
    bad_request,
    not_acceptable,
    nothing_acceptable,
    unsupported_media_type,
)
from gpuready_sim.apiserver.go_values import decode
from gpuready_sim.apiserver.requests import JSON, Request

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
    text: str = yaml.dump(store.decode(raw), Dumper=_Dumper, sort_keys=True)
    return text.encode()


class _Dumper(yaml.CSafeDumper):
    """Writes text as Go's library does."""


def _written_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    plain = "tag:yaml.org,2002:str"
    is_plain = dumper.resolve(yaml.ScalarNode, text, (True, False)) == plain  # type: ignore[no-untyped-call]
    style = "|" if "\n" in text else None if is_plain else '"'
    return dumper.represent_scalar(plain, text, style)


_Dumper.add_representer(str, _written_text)


def body_of(request: Request) -> Obj:
    """The object in a request's body, its numbers as Go holds those of which it knows no type.

    raises  Failure 415 for a media type that we do not read, 400 for what cannot be parsed
    """
    parsed = _parsed(request, "")
    if why := go_json.too_large(parsed):
        raise bad_request(why)
    plain: Obj = go_values.plain(parsed)
    return plain


def object_of(request: Request, kind: str, *, custom: bool) -> Obj:
    """The object in the body of a create or an update; numbers of a built-in kind keep their text.

    kind    what it must be, which is said of a body that cannot be read
    custom  a custom resource, of which nobody knows the kind unless it says so
    raises  as body_of
    """
    parsed = _parsed(request, kind)
    if not custom:
        return parsed
    if not parsed.get("kind"):
        why = f"Object 'Kind' is missing in '{request.body.decode('utf-8', 'replace')}'"
        raise _unrecognized(kind, why, request.body)
    why = go_json.too_large(parsed)
    if not why and parsed.get("apiVersion", "") is None:
        why = ".apiVersion accessor error: <nil> is of the type <nil>, expected string"
    if why:
        version = str(parsed.get("apiVersion") or "").rpartition("/")[2]
        raise bad_request(f'{parsed["kind"]} in version "{version}" cannot be handled as a {kind}: {why}')
    plain: Obj = go_values.plain(parsed)
    return plain


def _parsed(request: Request, kind: str) -> Obj:
    media = _media_of(request)
    if media == JSON:
        parsed = _parse_object(request.body, kind)
    elif media == protobuf.MEDIA_TYPE:
        parsed = _parse_protobuf(request.body, kind)
    else:
        parsed = _parse_yaml(request.body, kind)
    if not isinstance(parsed, (dict, NoneType)):
        why = go_json.unmarshalled(parsed, VERSION_AND_KIND)
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {why}", request.body)
    read: Obj = parsed or {}
    _refuse_unkind(read, kind, request.body)
    return read


# A struct without a name, which Go prints whole.
VERSION_AND_KIND = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


_PARAMETER = re.compile(r"\s*[\w!#$&^.+-]+=(\"[^\"]*\"|[^\s;\"]+)\s*")


def _media_of(request: Request) -> str:
    """
    raises  Failure 415 for a media type that we do not read
    """
    media, *parameters = request.headers.get("content-type", JSON).split(";")
    media = media.strip().lower() or JSON
    if media not in _READ or not all(_PARAMETER.fullmatch(one) for one in parameters if one.strip()):
        raise unsupported_media_type(_READ)
    return media


def _refuse_unkind(parsed: Obj, kind: str, body: bytes) -> None:
    """
    raises  Failure 400
    """
    for key in ("apiVersion", "kind"):
        if kind and not isinstance(parsed.get(key), (str, NoneType)):
            why = go_json.unmarshalled(parsed[key], "string", f".{key}")
            raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {why}", body)


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


def _parse_protobuf(body: bytes, kind: str) -> Obj:
    try:
        return protobuf.decode_body(body)
    except protobuf.ProtobufError as exc:
        raise _unrecognized(kind, str(exc), body) from exc


def _parse_yaml(body: bytes, kind: str) -> Any:
    try:
        return yaml_bodies.parse(body)
    except yaml_bodies.Unreadable as exc:
        raise _unrecognized(kind, str(exc), body) from exc
