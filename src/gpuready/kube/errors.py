"""The API server's refusals as types, so that callers catch what they can handle and nothing else.

ApiError (errors.py)
├── Unreachable          no answer: refused, timed out, cut, TLS failed
└── ApiStatusError       an answer with an HTTP status >= 400, or an ERROR event in a watch
    ├── BadRequest 400   Unauthorized 401   Forbidden 403   NotFound 404   MethodNotAllowed 405
    ├── AlreadyExists 409   Conflict 409    (they differ only in `reason`)
    ├── Gone 410   Invalid 422   TooManyRequests 429
    └── ServerTimeout 500/503/504 with such a reason, ServiceUnavailable 502/503
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuready.errors import ApiError


class Unreachable(ApiError):
    """No answer came: connection refused, timed out, cut in the middle, or TLS failed."""


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
    """The resourceVersion or the continue token is too old: list again."""


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
    reason = str(said.get("reason") or "")
    details = said.get("details") or {}
    message = str(said.get("message") or "") or _first_line(body) or f"HTTP {status}"
    kind = _BY_REASON.get(reason) or _BY_STATUS.get(status, ApiStatusError)
    return kind(
        f"{call}: {message}" if call else message,
        status=status,
        reason=reason,
        details=details,
        retry_after=_seconds(retry_after, details.get("retryAfterSeconds")),
        why=_WHY.get(status, ""),
        next_step=_NEXT_STEPS.get(status, ""),
    )


_WHY = {401: "the API server does not know the token or certificate that was sent"}
_NEXT_STEPS = {
    401: "check that the token or certificate is still valid and belongs to this cluster",
    403: "grant the missing verb to this account in RBAC",
}


def _seconds(header: str | None, detail: Any) -> float | None:
    for value in (header, detail):
        try:
            if value is not None and float(value) > 0:
                return float(value)
        except (TypeError, ValueError):
            continue
    return None


def _first_line(body: Any) -> str:
    text = body.strip() if isinstance(body, str) else ""
    return text.splitlines()[0][:200] if text else ""
