"""Refusals of the API server, with the reasons, codes and sentences of the real one.

Everything a request can be refused for is one exception, `Failure`, which knows its Status body.

Source: kubernetes, staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

Obj = dict[str, Any]


class FieldProblem(Protocol):
    """What schemas, structural schemas and our own checks all say about one field."""

    def message(self) -> str: ...
    def cause(self) -> dict[str, str]: ...


class Failure(Exception):
    """A request that is answered with a Status object of status Failure."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Sequence[tuple[str, str]] = (),
        list_meta: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details) if details is not None else None
        self.headers = list(headers)
        self.list_meta = dict(list_meta or {})

    def status(self) -> Obj:
        """The Status object, as it stands in an answer's body or in a watch's ERROR event."""
        body: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_meta,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def qualified(plural: str, group: str) -> str:
    """The name by which messages call a resource: "pods", "deployments.apps"."""
    return f"{plural}.{group}" if group else plural


def _details(plural: str, group: str, name: str, **more: Any) -> Obj:
    details: Obj = {"name": name} if name else {}
    if group:
        details["group"] = group
    if plural:
        details["kind"] = plural
    return details | more


def not_found(plural: str, group: str, name: str) -> Failure:
    return Failure(
        404,
        "NotFound",
        f'{qualified(plural, group)} "{name}" not found',
        details=_details(plural, group, name),
    )


def no_such_path() -> Failure:
    return Failure(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed(verb: str = "", of: str = "") -> Failure:
    """
    verb, of  what custom resources `of` a definition cannot do; of others that is not told
    """
    if verb:
        message = f'{verb} is not supported on resources of kind "{of}"'
        plural, _, group = of.partition(".")
        return Failure(405, "MethodNotAllowed", message, details={"group": group, "kind": plural})
    message = "the server does not allow this method on the requested resource"
    return Failure(405, "MethodNotAllowed", message, details={})


def not_simulated() -> Failure:
    message = (
        "attach and port-forward into pods are not simulated; "
        "run a program in a pod with `kubectl exec POD -- COMMAND`, or read what it serves with "
        "`kubectl get --raw /api/v1/namespaces/NAMESPACE/pods/POD:PORT/proxy/PATH`"
    )
    return Failure(405, "MethodNotAllowed", message, details={})


def already_exists(plural: str, group: str, name: str, *, ending: bool = False) -> Failure:
    """ending   the one that is there is being deleted"""
    return Failure(
        409,
        "AlreadyExists",
        f'{"object is being deleted: " if ending else ""}{qualified(plural, group)} "{name}" already exists',
        details=_details(plural, group, name),
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(plural: str, group: str, name: str, why: str = MODIFIED) -> Failure:
    return Failure(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}',
        details=_details(plural, group, name),
    )


def apply_conflict(message: str, causes: Sequence[Mapping[str, str]]) -> Failure:
    return Failure(409, "Conflict", message, details={"causes": [dict(c) for c in causes]})


def forbidden(plural: str, group: str, name: str, why: str, causes: Sequence[Obj] = ()) -> Failure:
    more = {"causes": list(causes)} if causes else {}
    what = f'{qualified(plural, group)} "{name}"' if name else qualified(plural, group)
    return Failure(
        403, "Forbidden", f"{what} is forbidden: {why}", details=_details(plural, group, name, **more)
    )


def forbidden_path(why: str) -> Failure:
    """Of a path that is no resource."""
    return Failure(403, "Forbidden", f"forbidden: {why}", details={})


def bad_request(message: str) -> Failure:
    return Failure(400, "BadRequest", message)


def unauthorized() -> Failure:
    return Failure(401, "Unauthorized", "Unauthorized")


def invalid(kind: str, group: str, name: str, problems: Iterable[FieldProblem]) -> Failure:
    """422 with one cause per field.

    message  'Pod "a" is invalid: spec.x: Required value', or the causes in brackets when several
    """
    found = list(problems)
    texts = [problem.message() for problem in found]
    unique = list(dict.fromkeys(texts))
    tail = unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]"
    causes = [problem.cause() for problem in found]
    return Failure(
        422,
        "Invalid",
        f'{qualified(kind, group)} "{name}" is invalid: {tail}',
        details=_details(kind, group, name, causes=causes),
    )


def rejected_patch(why: str) -> Failure:
    """A patch that does not fit the object it is for."""
    causes = [{"reason": "UnexpectedServerResponse", "message": why}]
    message = "the server rejected our request due to an error in our request"
    return Failure(422, "Invalid", message, details={"causes": causes})


def unsupported_media_type(accepted: Sequence[str]) -> Failure:
    kinds = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {kinds}"
    return Failure(415, "UnsupportedMediaType", message)


def not_acceptable(offered: Sequence[str]) -> Failure:
    kinds = ", ".join(offered)
    return Failure(406, "NotAcceptable", f"only the following media types are accepted: {kinds}")


def nothing_acceptable(offered: Sequence[str]) -> Failure:
    """Of a request that accepts none of the media types that are served at all."""
    message = f"406: Not Acceptable\n\nAvailable representations: {', '.join(offered)}"
    return Failure(406, "NotAcceptable", message, details={})


def expired(message: str, continue_token: str = "") -> Failure:
    """410: the version asked for has been compacted away."""
    meta = {"continue": continue_token} if continue_token else None
    return Failure(410, "Expired", message, list_meta=meta)


def too_old(version: int, oldest: int) -> Failure:
    return expired(f"too old resource version: {version} ({oldest})")


def too_new(version: int, current: int) -> Failure:
    """A version that the server has not reached: a client that talked to another server."""
    return Failure(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {version}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        headers=[("Retry-After", "1")],
    )


def too_many_requests(message: str, *, retry_after_s: int = 0, causes: Sequence[Obj] = ()) -> Failure:
    details: Obj = {"causes": list(causes)} if causes else {}
    headers: list[tuple[str, str]] = []
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
        headers = [("Retry-After", str(retry_after_s))]
    return Failure(429, "TooManyRequests", message, details=details, headers=headers)


def internal_error(what: str) -> Failure:
    causes = [{"message": what}]
    return Failure(500, "InternalError", f"Internal error occurred: {what}", details={"causes": causes})
