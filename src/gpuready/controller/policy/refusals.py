"""Objects that the API server has refused as they are: the same text is not sent again at every pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from gpuready.errors import GPUReadyError
from gpuready.kube.apply import Occupied
from gpuready.kube.compare import digest
from gpuready.kube.errors import ApiStatusError

# What stood in the way may go without a word to us: a webhook, a quota, a missing permission.
RETRY_S = 30.0
# The server may answer otherwise the next time: sign-in, time-out, conflict, too many requests.
_PASSING = (401, 408, 409, 429)
# The server blames itself (500) for an applied object whose fields do not fit the schema.
_MISFIT = ("failed to create typed patch object", "failed to convert new object")


@dataclass(frozen=True)
class _Refusal:
    digest: str
    until: float
    error: GPUReadyError


class Refusals:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, _Refusal] = {}

    def find(self, key: str, desired: Mapping[str, Any]) -> GPUReadyError | None:
        """Why this very text was refused, while it need not be tried again."""
        known = self._known.get(key)
        if known is None:
            return None
        if self._clock() < known.until and known.digest == digest(desired):
            return known.error
        del self._known[key]
        return None

    def add(self, key: str, desired: Mapping[str, Any], error: GPUReadyError) -> None:
        if isinstance(error, Occupied) or (isinstance(error, ApiStatusError) and _blames_the_object(error)):
            self._known[key] = _Refusal(digest(desired), self._clock() + RETRY_S, error)

    def keep(self, keys: Collection[str]) -> None:
        """Forget what is not wanted any more."""
        self._known = {key: known for key, known in self._known.items() if key in keys}

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __len__(self) -> int:
        return len(self._known)


def _blames_the_object(error: ApiStatusError) -> bool:
    if error.status == 500:
        return any(text in str(error) for text in _MISFIT)
    return 400 <= error.status < 500 and error.status not in _PASSING
