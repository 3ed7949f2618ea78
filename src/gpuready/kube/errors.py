"""The API server's refusals as types, so that callers catch what they can handle and nothing else.

ApiError (errors.py)
├── Unreachable          no answer that can be used: this call timed out, or its answer cannot be read
│   ├── Away             nobody listens, or whom we meet is not our API server: every call fails alike
│   └── Cut              the connection ended while we waited for the answer
└── ApiStatusError       an answer with an HTTP status >= 400, or an ERROR event in a watch
    ├── BadRequest 400   Unauthorized 401   Forbidden 403   NotFound 404   MethodNotAllowed 405
    ├── AlreadyExists 409   Conflict 409    (they differ only in `reason`)
    ├── Gone 410, and 504 for a version that the server has not reached
    ├── Invalid 422   TooManyRequests 429
    └── ServerTimeout 500/503/504 with such a reason, ServiceUnavailable 502/503
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuready.errors import ApiError


class Unreachable(ApiError):
    """No answer came that can be used. A write may have happened all the same."""


class Away(Unreachable):
    """Connection refused, no such host, TLS failed: nothing was sent, and no other call would do better."""


class Cut(Unreachable):
    """The connection ended in the middle: often one that was kept open and that the server had closed."""


class ApiStatusError(ApiError):
    """The API server answered with a Status; `reason` is the machine's word, `message` the human's."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
        why: str = "",
        next_step: str = "",
    ) -> None:
        super().__init__(message, why=why, next_step=next_step)
        self.message = message
        self.status = status
        self.reason = reason
        self.details = dict(details or {})
        self.retry_after = retry_after


class BadRequest(ApiStatusError):
    pass


class Unauthorized(ApiStatusError):
    pass


class Forbidden(ApiStatusError):
    pass


class NotFound(ApiStatusError):
    pass


class MethodNotAllowed(ApiStatusError):
    pass


class AlreadyExists(ApiStatusError):
    pass


class Conflict(ApiStatusError):
    pass


class Gone(ApiStatusError):
    """The resourceVersion or the continue token is not, or no longer, one of this server's: list again."""


class Invalid(ApiStatusError):
    pass


class TooManyRequests(ApiStatusError):
    pass


class ServerTimeout(ApiStatusError):
    pass


class ServiceUnavailable(ApiStatusError):
    pass


_BY_STATUS: dict[int, type[ApiStatusError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
    502: ServiceUnavailable,
    503: ServiceUnavailable,
    504: ServerTimeout,
}
_BY_REASON: dict[str, type[ApiStatusError]] = {
    "AlreadyExists": AlreadyExists,
    "Expired": Gone,
    "ServerTimeout": ServerTimeout,
    "Timeout": ServerTimeout,
}


def error_of(status: int, body: Any, *, retry_after: str | None = None, call: str = "") -> ApiStatusError:
    """Turn an answer into its exception.

    status       HTTP status, or `code` of the Status in an ERROR event
    body         the decoded Status object, or text when the answer was no Status (a proxy's page)
    retry_after  the header; seconds only, `details.retryAfterSeconds` is the fallback
    call         "PATCH /api/v1/nodes/n1", put in front of the message
    """
    said = body if isinstance(body, Mapping) else {}
    reason = _text(said.get("reason"))
    details = _mapping(said.get("details"))
    message = _text(said.get("message")) or _first_line(body) or _bare(status, body)
    kind = _kind_of(status, reason, details)
    pause = _seconds(retry_after, details.get("retryAfterSeconds"))
    in_between = _is_page(body) or (status in _OF_PROXIES and not said)
    return kind(
        f"{call}: {message}" if call else message,
        status=status,
        reason=reason,
        details=details,
        retry_after=pause,
        why=_SOMEBODY_ELSE if in_between else _WHY.get(status, ""),
        next_step=_BEHIND_IT if in_between else _next_step(status, message, details) or _later(status, pause),
    )


_WHY = {
    401: "the API server does not know the token or certificate that was sent",
    429: "the API server, or a proxy before it, takes no more requests of ours just now",
}
_SOMEBODY_ELSE = "that is no answer of an API server, but of a proxy, gateway or load balancer before it"
_OF_PROXIES = (407, 502)
_BEHIND_IT = "see that the API server behind it runs, and that its address is right"
_NEXT_STEPS = {
    401: "check that the token or certificate is still valid and belongs to this cluster",
    403: "grant the missing verb to this account in RBAC "
    "(gpuready rbac --namespace NS prints all that the operator needs in its namespace NS)",
}


def _next_step(status: int, message: str, details: Mapping[str, Any]) -> str:
    if "NamespaceTerminating" in _causes(details):  # 403 too, and no permission of anybody's would help
        return "wait until the namespace is gone, or find what holds it; then create it again"
    return _LOG_IN if _is_nobody(status, message) else _NEXT_STEPS.get(status, "")


def _later(status: int, pause_s: float | None) -> str:
    if status != 429:
        return ""
    return f"try again in {pause_s:g} s" if pause_s else "try again a little later"


_LOG_IN = "nobody has logged in: see that the kubeconfig's user has a token or a certificate"


def _is_nobody(status: int, message: str) -> bool:
    return status == 403 and 'User "system:anonymous"' in message


def is_passing(error: Exception) -> bool:
    """The same call may well succeed a little later, without anybody doing anything."""
    if isinstance(error, ApiStatusError):
        return error.status in _PASSING or error.status >= 500
    return isinstance(error, Unreachable)


_PASSING = (408, 409, 410, 425, 429)


def _kind_of(status: int, reason: str, details: Mapping[str, Any]) -> type[ApiStatusError]:
    # A server restored from a backup is behind what we have seen: waiting for it would be for ever.
    if "ResourceVersionTooLarge" in _causes(details):
        return Gone
    return _BY_REASON.get(reason) or _BY_STATUS.get(status, ApiStatusError)


def _causes(details: Mapping[str, Any]) -> set[str]:
    causes = details.get("causes")
    rows = causes if isinstance(causes, list) else []
    return {_text(row.get("reason")) for row in rows if isinstance(row, Mapping)}


def _seconds(header: str | None, detail: Any) -> float | None:
    for value in (header, detail):
        try:
            seconds = float(value) if value is not None else 0.0
        except (TypeError, ValueError):
            continue  # a date, or no number at all
        if 0 < seconds < float("inf"):
            return seconds
    return None


def _bare(status: int, body: Any) -> str:
    return (
        f"HTTP {status}"
        if isinstance(body, Mapping)
        else f"HTTP {status} without a word of the API server's own"
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _is_page(body: Any) -> bool:
    return isinstance(body, str) and body.lstrip().startswith("<")


def _first_line(body: Any) -> str:
    text = body.strip() if isinstance(body, str) else ""
    if _is_page(text):
        return ""  # its status says more
    return text.splitlines()[0][:200] if text else ""
