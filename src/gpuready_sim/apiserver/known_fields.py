"""What a write may say of an object: fields that are known, and values of their types.

The rest is refused, told in a warning or dropped, as the request wants it.
"""

from __future__ import annotations

from gpuready_sim.apiserver import metadata, schemas
from gpuready_sim.apiserver.failures import Failure, Obj, bad_request, invalid
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.schemas import FieldError
from gpuready_sim.apiserver.store import encode
from gpuready_sim.apiserver.write_options import WriteOptions


def known_fields(obj: Obj, resource: ResourceType, options: WriteOptions) -> Obj:
    """Refuse, warn of or drop fields that the schema does not know; refuse values of the wrong type."""
    if resource.custom is None:
        return decoded_builtin(obj, resource, options)
    if why := resource.custom.misfit(obj):
        raise _unreadable(obj, resource, options, why)
    unknown = resource.custom.unknown_fields(obj)
    _report_unknown([f'unknown field "{path}"' for path in unknown], obj, resource, options)
    return resource.custom.prune(obj)


def decoded_builtin(obj: Obj, resource: ResourceType, options: WriteOptions) -> Obj:
    """An object of a built-in kind as Go would decode it.

    raises  Failure 400 for a value of the wrong type
    """
    errors = schemas.validate_builtin(obj, strict=True)
    wrong = next((error for error in errors if error.type == "Decode"), None)
    if wrong is not None:
        raise _unreadable(obj, resource, options, wrong.message())
    unknown = [error.message() for error in errors if error.type == "Unknown"]
    _report_unknown(sorted(unknown) if options.shown else unknown, obj, resource, options)
    return schemas.prune_builtin(obj) if unknown else obj


def check_patched(made: Obj, resource: ResourceType, name: str, options: WriteOptions) -> None:
    """Of what a patch has made, that which is looked at first.

    raises  Failure 400, 422
    """
    metadata.refuse_unkind(made, resource, patching=True)
    if unknown := _unversioned(made, resource):
        _report_unknown([f'unknown field "{key}"' for key in unknown], made, resource, options)
    metadata.refuse_nameless(made, name)


def _unversioned(made: Obj, resource: ResourceType) -> list[str]:
    """What a patch leaves of an object of a version that nobody knows: all but its head is unknown."""
    group, _, version = str(made.get("apiVersion") or "").rpartition("/")
    if resource.custom is None:
        # Without any it is read as the server's own type, which has fields of other names.
        return [] if made.get("apiVersion") else sorted(made.keys() - {"apiVersion", "kind"})
    if (group, made.get("kind")) != (resource.group, resource.kind) or version in resource.versions:
        return []
    return sorted(made.keys() - {"apiVersion", "kind", "metadata"})


def _unreadable(obj: Obj, resource: ResourceType, options: WriteOptions, why: str) -> Failure:
    if options.patching:
        shown = options.shown or encode(obj).decode()
        return invalid("", "", "", [FieldError("patch", "Invalid", shown, why)])
    kind = resource.kind
    return bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}')


def _report_unknown(unknown: list[str], obj: Obj, resource: ResourceType, options: WriteOptions) -> None:
    texts = [*options.objections, *unknown]
    if not texts or options.validation == "Ignore":
        return
    if options.validation == "Strict":
        raise _unreadable(obj, resource, options, f"strict decoding error: {', '.join(texts)}")
    options.warnings.extend(texts)
