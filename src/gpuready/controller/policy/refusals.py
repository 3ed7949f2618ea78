"""Objects that the API server has refused as they are: the same text is not sent again at every pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from gpuready import names
from gpuready.errors import ApiError, GPUReadyError
from gpuready.kube.apply import Occupied
from gpuready.kube.compare import digest
from gpuready.kube.errors import ApiStatusError, is_passing
from gpuready.operands import registry

# What stood in the way may go without a word to us: a webhook, a quota, a missing permission. A rule that was
# just written counts a second later, so it is soon tried again, and then less and less often.
FIRST_RETRY_S = 1.0
RETRY_S = 30.0
# The server blames itself (500) for an applied object whose fields do not fit the schema.
_MISFIT = ("failed to create typed patch object", "failed to convert new object")


@dataclass(frozen=True)
class _Refusal:
    """times: in a row, of this very text."""

    digest: str
    until: float
    error: GPUReadyError
    times: int


class Refusals:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, _Refusal] = {}

    def find(self, key: str, desired: Mapping[str, Any]) -> GPUReadyError | None:
        """Why this very text was refused, while it need not be tried again."""
        known = self._known_of(key, desired)
        return known.error if known and self._clock() < known.until else None

    def add(self, key: str, desired: Mapping[str, Any], error: ApiError) -> ApiError:
        """The error as it is told."""
        told = advised(error, desired) if isinstance(error, ApiStatusError) else error
        before = self._known_of(key, desired)
        self._known.pop(key, None)
        if _rests(error):
            times = before.times + 1 if before else 1
            until = self._clock() + _wait_s(error, times)
            self._known[key] = _Refusal(digest(desired), until, told, times)
        return told

    def _known_of(self, key: str, desired: Mapping[str, Any]) -> _Refusal | None:
        known = self._known.get(key)
        return known if known and known.digest == digest(desired) else None

    def next_retry_s(self) -> float | None:
        """Seconds until one of them is tried again; None when none waits for that."""
        left = [each.until - self._clock() for each in self._known.values()]
        return min((each for each in left if each > 0), default=None)

    def keep(self, keys: Collection[str]) -> None:
        """Forget what is not wanted any more."""
        self._known = {key: known for key, known in self._known.items() if key in keys}

    def __contains__(self, key: str) -> bool:
        """It waits to be tried again."""
        known = self._known.get(key)
        return known is not None and self._clock() < known.until

    def __len__(self) -> int:
        return len(self._known)


def _rests(error: ApiError) -> bool:
    return isinstance(error, Occupied) or (isinstance(error, ApiStatusError) and _blames_the_object(error))


def _wait_s(error: ApiError, times: int) -> float:
    """What is wrong with the text, or in its place, stays so until a person acts; the rest may not."""
    if isinstance(error, ApiStatusError) and error.status not in (413, 422, 500):
        return min(FIRST_RETRY_S * 2.0 ** min(times - 1, 16), RETRY_S)
    return RETRY_S


def advised(error: ApiStatusError, desired: Mapping[str, Any]) -> ApiStatusError:
    """The same answer, short enough for a status, and with the place in the policy that it comes from."""
    step = error.next_step
    if not step and (error.status in _WRONG_TEXT or (error.status == 500 and _blames_the_object(error))):
        step = f"correct {_source_of(desired)} in the policy; gpuready render -f POLICY.yaml shows the object"
    return type(error)(
        # Of a right that is missing every word counts: which one it is comes last.
        error.message if error.status == 403 else _bounded(error.message),
        status=error.status,
        reason=error.reason,
        details=error.details,
        retry_after=error.retry_after,
        why=error.why,
        next_step=step,
    )


_WRONG_TEXT = (400, 413, 422)
_HEAD, _TAIL = 300, 100  # the first cause and the last: a server lists thousands of them in one sentence


def _bounded(text: str) -> str:
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]} … {text[-_TAIL:]}"


def _source_of(desired: Mapping[str, Any]) -> str:
    labels = (desired.get("metadata") or {}).get("labels") or {}
    name = labels.get(names.OPERAND_LABEL)
    component = next((each.component for each in registry.OPERANDS if each.name == name), "")
    fields = [f"spec.{component}"] if component else []
    fields += ["spec.daemonsets"] if desired.get("kind") == "DaemonSet" else []
    return " or ".join(fields) or "spec"


def _blames_the_object(error: ApiStatusError) -> bool:
    if error.status == 500:
        return any(text in str(error) for text in _MISFIT)
    # 401 is about whoever asks.
    return 400 <= error.status < 500 and error.status != 401 and not is_passing(error)
