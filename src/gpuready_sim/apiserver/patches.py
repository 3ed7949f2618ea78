"""PATCH: from a body and its media type to what it makes of the live object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuready_sim.apiserver.failures import Failure, Obj, bad_request, invalid, unsupported_media_type
from gpuready_sim.apiserver.json_patch import PatchError, json_patch, merge_patch
from gpuready_sim.apiserver.negotiation import parse_json, parse_yaml
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.requests import Request
from gpuready_sim.apiserver.schemas import FieldError
from gpuready_sim.apiserver.strategic_merge import strategic_merge

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
        raise unsupported_media_type(accepted)
    return media


def edit_of(request: Request, resource: ResourceType, media: str) -> Callable[[Obj], Obj]:
    """What a patch that is no apply does to a live object; the function never edits what it is given.

    raises  Failure 400 for a body that is no patch; the function: 400 or 422 for a patch that does not fit
    """
    if "force" in request.query:
        error = FieldError("force", "Forbidden", None, "may not be specified for non-apply patch")
        raise invalid("PatchOptions", "meta.k8s.io", "", [error])
    patch = parse_json(request.body)
    if media == JSON_PATCH and isinstance(patch, dict):
        why = "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        raise bad_request(f"error decoding patch: {why}")
    if media != JSON_PATCH and not isinstance(patch, dict):
        kind = {list: "array", str: "string", bool: "bool", type(None): "null"}.get(type(patch), "number")
        why = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding patch: {why}")

    def edit(live: Obj) -> Obj:
        try:
            result = _patched(live, patch, media, resource)
        except PatchError as exc:
            raise _refusal(exc) from exc
        if not isinstance(result, dict):
            raise bad_request("the patched object is not an object")
        return result

    return edit


def _patched(live: Obj, patch: Any, media: str, resource: ResourceType) -> Any:
    if media == JSON_PATCH:
        return json_patch(live, patch)
    if media == MERGE_PATCH:
        return merge_patch(live, patch)
    return strategic_merge(live, patch, resource.schema)


def _refusal(exc: PatchError) -> Failure:
    return Failure(exc.code, exc.reason, exc.status_message, details={} if exc.code == 422 else None)


def applied_object(request: Request) -> Obj:
    """The body of a server-side apply.

    raises  Failure 400 when it is no object with apiVersion and kind, 422 without a field manager
    """
    if not request.query.get("fieldManager"):
        error = FieldError("fieldManager", "Required", "", "is required for apply patch")
        raise invalid("PatchOptions", "meta.k8s.io", "", [error])
    applied = parse_yaml(request.body) if request.body.lstrip()[:1] != b"{" else parse_json(request.body)
    if not isinstance(applied, dict):
        raise bad_request("error decoding YAML: the applied configuration is not an object")
    version, kind = applied.get("apiVersion"), applied.get("kind")
    if not version or not kind:
        raise bad_request(f"invalid object type: /{version or ''}, Kind={kind or ''}")
    return applied
