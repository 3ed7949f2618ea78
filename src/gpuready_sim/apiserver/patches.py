"""PATCH: from a body and its media type to what it makes of the live object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuready_sim.apiserver import go_json
from gpuready_sim.apiserver.failures import Failure, Obj, bad_request, invalid, unsupported_media_type
from gpuready_sim.apiserver.json_patch import PatchError, json_patch, merge_patch
from gpuready_sim.apiserver.negotiation import parse_json, parse_yaml
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.requests import Request
from gpuready_sim.apiserver.schemas import FieldError
from gpuready_sim.apiserver.strategic_merge import strategic_merge
from gpuready_sim.apiserver.validation import unrestorable

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def media_of(request: Request, resource: ResourceType) -> str:
    """The kind of patch.

    raises  Failure 415 for a kind that this resource does not take
    """
    media = request.headers.get("content-type", "").split(";")[0].strip().lower()
    accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    if resource.custom is None:
        accepted.insert(2, STRATEGIC_PATCH)
    if media not in accepted:
        if resource.custom is None:
            raise Failure(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
        raise unsupported_media_type(accepted)
    return media


def edit_of(request: Request, resource: ResourceType, media: str) -> Callable[[Obj], Obj]:
    """What a patch that is no apply does to a live object; the function never edits what it is given.

    raises  Failure 400 for a body that is no patch; the function: 400 or 422 for a patch that does not fit
    """
    if "force" in request.query:
        error = FieldError("force", "Forbidden", None, "may not be specified for non-apply patch")
        raise invalid("PatchOptions", "meta.k8s.io", "", [error])
    patch = _readable(request.body, media)

    def edit(live: Obj) -> Obj:
        try:
            result = _patched(live, patch, media, resource)
        except PatchError as exc:
            raise _refusal(exc) from exc
        if not isinstance(result, dict):
            raise bad_request("the patched object is not an object")
        return result

    return edit


def _readable(body: bytes, media: str) -> Any:
    """The patch, of the right shape.

    raises  Failure 400
    """
    before = "" if media == STRATEGIC_PATCH else "error decoding patch: "
    patch = parse_json(body, before)
    if patch is None:
        if media == MERGE_PATCH:
            raise bad_request("Invalid JSON Patch")
        return [] if media == JSON_PATCH else {}
    wanted, name = (
        (list, "[]handlers.jsonPatchOp") if media == JSON_PATCH else (dict, "map[string]interface {}")
    )
    if not isinstance(patch, wanted):
        kind = go_json.kind_of(patch)
        raise bad_request(f"{before}json: cannot unmarshal {kind} into Go value of type {name}")
    for op in patch if media == JSON_PATCH else ():
        if op is not None and not isinstance(op, dict):
            kind = go_json.kind_of(op)
            what = f"json: cannot unmarshal {kind} into Go value of type handlers.jsonPatchOp"
            raise bad_request(before + what)
    return patch


def _patched(live: Obj, patch: Any, media: str, resource: ResourceType) -> Any:
    if media == JSON_PATCH:
        return json_patch(live, patch)
    if media == MERGE_PATCH:
        return merge_patch(live, patch)
    result = strategic_merge(live, patch, resource.schema)
    if resource.schema is not None and (why := unrestorable(result, resource.schema)):
        raise invalid("", "", "", [FieldError("patch", "Invalid", go_json.printed(patch), why)])
    return result


def _refusal(exc: PatchError) -> Failure:
    return Failure(exc.code, exc.reason, exc.status_message, details={} if exc.code == 422 else None)


def applied_object(request: Request) -> Obj:
    """The body of a server-side apply.

    raises  Failure 400 when it is no object with apiVersion and kind, 422 without a field manager
    """
    if not request.query.get("fieldManager"):
        error = FieldError("fieldManager", "Required", "", "is required for apply patch")
        raise invalid("PatchOptions", "meta.k8s.io", "", [error])
    before = "error decoding YAML: "
    is_json = request.body.lstrip()[:1] == b"{"
    applied = parse_json(request.body, before) if is_json else parse_yaml(request.body, before)
    if not isinstance(applied, dict):
        raise bad_request("error decoding YAML: the applied configuration is not an object")
    version, kind = applied.get("apiVersion"), applied.get("kind")
    if not version or not kind:
        raise bad_request(f"invalid object type: /{version or ''}, Kind={kind or ''}")
    return applied
