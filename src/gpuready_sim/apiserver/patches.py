"""PATCH: from a body and its media type to what it makes of the live object."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from gpuready_sim.apiserver import go_json, go_values, restoring, strategic_merge, yaml_bodies
from gpuready_sim.apiserver.failures import Failure, Obj, bad_request, invalid, unsupported_media_type
from gpuready_sim.apiserver.json_patch import PatchError, json_patch, merge_patch
from gpuready_sim.apiserver.negotiation import VERSION_AND_KIND, parse_json
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.requests import Request
from gpuready_sim.apiserver.schemas import FieldError
from gpuready_sim.apiserver.store import encode
from gpuready_sim.apiserver.write_options import WriteOptions

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
MOST_OPERATIONS = 10_000


def media_of(request: Request, resource: ResourceType) -> str:
    """The kind of patch.

    raises  Failure 415 for a kind that this resource does not take
    """
    given = request.headers.get("content-type", "").partition(";")[0]
    accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    if resource.custom is None:
        accepted.insert(2, STRATEGIC_PATCH)
    if given in accepted:
        return given
    if resource.custom is None and given.strip() not in accepted:
        raise Failure(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    raise unsupported_media_type(accepted)


def edit_of(
    request: Request, resource: ResourceType, media: str, options: WriteOptions
) -> Callable[[Obj], Obj]:
    """What a patch that is no apply does to a live object; the function never edits what it is given.

    options  learn from the function what is to be said of the patch
    raises   Failure 422 for an option that is none; the function: 400, 422 or 500 for a body that is no patch
             or does not fit
    """
    if "force" in request.query:
        error = FieldError("force", "Forbidden", None, "may not be specified for non-apply patch")
        raise invalid("PatchOptions", "meta.k8s.io", "", [error])
    options.patching = True

    def edit(live: Obj) -> Obj:
        patch = _readable(request.body, media, options)
        try:
            if media == STRATEGIC_PATCH:
                return _merged(live, patch, resource, options)
            result = json_patch(live, patch) if media == JSON_PATCH else merge_patch(live, patch)
        except PatchError as exc:
            raise _refusal(exc) from exc
        if not isinstance(result, dict):
            raise _no_object(result)
        if resource.custom is None:
            return result
        if why := go_json.too_large(result):
            raise invalid("", "", "", [FieldError("patch", "Invalid", encode(result).decode(), why)])
        plain: Obj = go_values.plain(result)
        return plain

    return edit


def _readable(body: bytes, media: str, options: WriteOptions) -> Any:
    """The patch, of the right shape.

    raises  Failure 400, 413
    """
    lenient = options.validation == "Ignore"
    if media == JSON_PATCH:
        return _operations(body, options, lenient=lenient)
    if media == MERGE_PATCH and lenient:
        return _merged_as_it_is(body)
    before = "" if media == STRATEGIC_PATCH else "error decoding patch: "
    patch = parse_json(body, before)
    if patch is None and media == MERGE_PATCH:
        raise bad_request("Invalid JSON Patch")
    if patch is not None and not isinstance(patch, dict):
        raise bad_request(before + go_json.unmarshalled(patch, "map[string]interface {}"))
    if why := go_json.too_large(patch):
        raise bad_request(f"{before}{why}")
    return patch or {}


def _merged_as_it_is(body: bytes) -> Any:
    """A merge patch that nobody decodes before it is merged.

    raises  Failure 400
    """
    if go_json.complaint(body) or not isinstance(patch := go_values.decode(body), (dict, list)):
        raise bad_request("Invalid JSON Patch")
    return patch


def _operations(body: bytes, options: WriteOptions, *, lenient: bool) -> list[Obj | None]:
    """
    raises  Failure 400, 413
    """
    before = "" if lenient else "error decoding patch: "
    operation = "jsonpatch.Operation" if lenient else "handlers.jsonPatchOp"
    patch = parse_json(body, before)
    if patch is None:
        return []
    if not isinstance(patch, list):
        kind = "jsonpatch.Patch" if lenient else "[]handlers.jsonPatchOp"
        raise bad_request(before + go_json.unmarshalled(patch, kind))
    for op in patch:
        if op is not None and not isinstance(op, dict):
            raise bad_request(before + go_json.unmarshalled(op, operation))
        if not lenient and (why := _misread(op or {})):
            raise bad_request(before + why)
    if len(patch) > MOST_OPERATIONS:
        told = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(patch)}"
        raise Failure(413, "RequestEntityTooLarge", f"Request entity too large: {told}")
    options.objections = [
        *(f"json patch {text}" for text in options.objections),
        *(
            f'json patch unknown field "[{i}].{key}"'
            for i, op in enumerate(patch)
            for key in op or {}
            if key not in _FIELDS
        ),
    ]
    return patch


_FIELDS = ("op", "path", "from", "value")


def _misread(op: Obj) -> str:
    for field in ("op", "path", "from"):
        if op.get(field) is not None and not isinstance(op[field], str):
            return go_json.unmarshalled(op[field], "string", f"jsonPatchOp.{field}")
    return go_json.too_large(op.get("value"), "jsonPatchOp.value")


def _merged(live: Obj, patch: Obj, resource: ResourceType, options: WriteOptions) -> Obj:
    """After a strategic merge, with its values as their structs hold them.

    raises  PatchError; Failure 422 for a value that has no place in its struct
    """
    schema = resource.schema
    result, rest = strategic_merge.merged(live, go_values.untyped(patch), schema)
    options.shown = go_values.printed(rest)
    if schema is None:
        return result
    try:
        made: Obj = restoring.restored(result, schema)
    except restoring.Unrestorable as exc:
        raise invalid("", "", "", [FieldError("patch", "Invalid", options.shown, str(exc))]) from exc
    return made | {"apiVersion": resource.api_version, "kind": resource.kind}


def _no_object(result: Any) -> Failure:
    """Of what a patch has made of the whole object."""
    why = f"couldn't get version/kind; json parse error: {go_json.unmarshalled(result, VERSION_AND_KIND)}"
    return invalid("", "", "", [FieldError("patch", "Invalid", encode(result).decode(), why)])


def _refusal(exc: PatchError) -> Failure:
    return Failure(exc.code, exc.reason, exc.status_message, details={} if exc.code == 422 else None)


def applied_object(request: Request, options: WriteOptions) -> Obj:
    """The body of a server-side apply.

    options  learn what only a strict reader objects to
    raises   Failure 400 when it is no object with apiVersion and kind, 422 without a field manager
    """
    if not request.query.get("fieldManager"):
        error = FieldError("fieldManager", "Required", "", "is required for apply patch")
        raise invalid("PatchOptions", "meta.k8s.io", "", [error])
    applied = _applied(request.body)
    if options.validation != "Ignore":
        twice = options.objections or not _looks_like_json(request.body)
        options.objections = yaml_bodies.said_twice(request.body) if twice else []
    if applied is not None and not isinstance(applied, dict):
        what = go_json.unmarshalled(applied, "map[string]interface {}")
        raise bad_request(f"{_YAML}error unmarshaling JSON: while decoding JSON: {what}")
    named = [(applied or {}).get(key) for key in ("apiVersion", "kind")]
    version, kind = (one if isinstance(one, str) else "" for one in named)
    if not applied or not version or not kind:
        raise bad_request(f"invalid object type: {'' if '/' in version else '/'}{version}, Kind={kind}")
    return applied


_YAML = "error decoding YAML: "


def _applied(body: bytes) -> Any:
    """JSON is YAML, and so read.

    raises  Failure 400
    """
    said = None
    if _looks_like_json(body) and not yaml_bodies.is_other_than_json(body):
        with contextlib.suppress(msgspec.DecodeError):
            said = go_values.decode(body)
    try:
        return yaml_bodies.parse(body) if said is None else yaml_bodies.from_json(said)
    except yaml_bodies.Unreadable as exc:
        raise bad_request(f"{_YAML}error converting YAML to JSON: {exc}") from exc


def _looks_like_json(body: bytes) -> bool:
    return body.lstrip()[:1] == b"{"
