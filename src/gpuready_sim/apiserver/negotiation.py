"""What a client accepts and what it sends: JSON, YAML, tables, metadata only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from gpuready_sim.apiserver import protobuf
from gpuready_sim.apiserver.failures import Obj, bad_request, not_acceptable, unsupported_media_type
from gpuready_sim.apiserver.requests import JSON, Request
from gpuready_sim.apiserver.store import decode

YAML = "application/yaml"
_OFFERED = (JSON, YAML)
_READ = (JSON, YAML, protobuf.MEDIA_TYPE)


@dataclass(frozen=True)
class Form:
    """How the objects of an answer are to look.

    shape  "", "Table" or "PartialObjectMetadata"
    """

    media: str = JSON
    shape: str = ""

    @property
    def content_type(self) -> str:
        return self.media if not self.shape else f"{self.media};as={self.shape};g=meta.k8s.io;v=v1"


PLAIN = Form()


def form_of(request: Request) -> Form:
    """The first form that the client accepts and we can give.

    raises  Failure 406 when there is none, e.g. for a client that insists on protobuf
    """
    accept = request.headers.get("accept", "")
    if accept in ("", JSON, "*/*", "application/json, */*"):
        return PLAIN
    for media, parameters in media_ranges(accept):
        form = _form(media, parameters)
        if form is not None:
            return form
    raise not_acceptable(_OFFERED)


def media_ranges(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The clauses of an Accept header, those with the greatest q first."""
    found: list[tuple[float, str, dict[str, str]]] = []
    for clause in accept.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        parameters = dict(part.split("=", 1) for part in rest if "=" in part)
        found.append((_quality(parameters.pop("q", "1")), media.lower(), parameters))
    found.sort(key=lambda item: -item[0])
    return [(media, parameters) for quality, media, parameters in found if quality > 0]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


def _form(media: str, parameters: dict[str, str]) -> Form | None:
    if media in ("*/*", "application/*"):
        media = JSON
    if media not in _OFFERED:
        return None
    shape = parameters.get("as", "").removesuffix("List")
    if shape == "":
        return Form(media)
    known = parameters.get("g") == "meta.k8s.io" and parameters.get("v") == "v1"
    if not known or shape not in ("Table", "PartialObjectMetadata"):
        return None
    return Form(media, shape)


def to_yaml(raw: bytes) -> bytes:
    """A JSON answer as YAML."""
    text: str = yaml.dump(decode(raw), Dumper=yaml.CSafeDumper, sort_keys=False)
    return text.encode()


def body_of(request: Request) -> Obj:
    """The object in a request's body.

    raises  Failure 415 for a media type that we do not read, 400 for what cannot be parsed
    """
    media = request.headers.get("content-type", JSON).split(";")[0].strip().lower()
    if media in (JSON, "", "*/*"):
        parsed = parse_json(request.body)
    elif media == protobuf.MEDIA_TYPE:
        parsed = _parse_protobuf(request.body)
    elif media in (YAML, "application/x-yaml", "text/yaml"):
        parsed = parse_yaml(request.body)
    else:
        raise unsupported_media_type(_READ)
    if not isinstance(parsed, dict):
        raise bad_request("the body of the request is not an object")
    return parsed


def parse_json(body: bytes) -> Any:
    try:
        return decode(body)
    except msgspec.DecodeError as exc:
        raise bad_request(f"the object provided is unrecognized: {exc}") from exc


def _parse_protobuf(body: bytes) -> Obj:
    try:
        return protobuf.decode_body(body)
    except protobuf.ProtobufError as exc:
        raise bad_request(f"the object provided is unrecognized: {exc}") from exc


def parse_yaml(body: bytes) -> Any:
    """One YAML document as sigs.k8s.io/yaml reads it: no dates, no base 60, keys are text."""
    try:
        return _with_text_keys(yaml.load(body, Loader=_Loader))
    except yaml.YAMLError as exc:
        text = " ".join(str(exc).split())
        raise bad_request(f"error converting YAML to JSON: {text}") from exc


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key_text(key): _with_text_keys(child) for key, child in value.items()}
    return [_with_text_keys(child) for child in value] if isinstance(value, list) else value


def _key_text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


class _Loader(yaml.CSafeLoader):
    """Plain values as Kubernetes reads them."""


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
