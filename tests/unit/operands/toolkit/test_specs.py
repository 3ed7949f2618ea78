"""The toolkit and the keeper of its CDI specs: what stops the one is told by the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gpuready.node.cdi.files import Outcome
from gpuready.node.root import Root
from gpuready.operands.toolkit import specs as module
from gpuready.operands.toolkit.settings import Settings
from gpuready.operands.toolkit.specs import Specs


class Keeper:
    """Fails as often as it has reasons to, then goes on."""

    def __init__(self, specs: Specs, reasons: list[Exception]) -> None:
        self._specs, self._reasons = specs, reasons

    async def run(self) -> None:
        if self._reasons:
            raise self._reasons.pop(0)
        self._specs._tell(Outcome())
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (OSError(40, "Too many levels of symbolic links"), "Too many levels of symbolic links"),
        (KeyError("kind"), "KeyError"),
    ],
)
async def test_who_cannot_follow_the_specs_says_so_and_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: Exception, said: str
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    told: list[tuple[str, ...]] = []
    news = asyncio.Event()
    specs = Specs(Settings(), Root(tmp_path), lambda: (told.append(specs.problems), news.set()))
    specs._keeper = Keeper(specs, [reason])  # type: ignore[assignment]

    specs.keep()
    async with asyncio.timeout(30):
        while len(told) < 2:
            news.clear()
            await news.wait()
    await specs.stop()

    assert told[0][0].startswith("the CDI specs are not followed: ")
    assert said in told[0][0]
    assert told[1] == ()
