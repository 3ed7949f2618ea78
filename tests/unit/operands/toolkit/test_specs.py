"""The toolkit and the keeper of its CDI specs: what stops the one is told by the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.gpu.cdi.trees import driver_tree

from gpuready.chain.driver import NvmlAnswer, Probe
from gpuready.node.cdi import watch
from gpuready.node.cdi.files import Outcome
from gpuready.node.links.driver import Answer, NvmlChild
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


class NoGpu(NvmlChild):
    async def ask(self, driver_root: Path, kernel_root: Path) -> Answer:
        return Answer(NvmlAnswer(Probe.FAILED, text="no answer"))


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        pytest.param(Settings(), "/run/nvidia/driver", id="where the driver's container puts it"),
        pytest.param(Settings(driver_install_dir="/opt/drv"), "/opt/drv", id="where the policy says"),
        pytest.param(Settings(driver_root="/opt/own"), "/opt/own", id="where the administrator says"),
    ],
)
async def test_the_specs_name_the_driver_where_the_settings_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings, place: str
) -> None:
    monkeypatch.setattr(watch, "NvmlChild", NoGpu)
    driver_tree(tmp_path / place.lstrip("/"), gpus=1)
    (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / "var").mkdir()
    (tmp_path / "var/run").symlink_to("/run")
    specs = Specs(settings, Root(tmp_path))

    specs.keep()
    written = tmp_path / "run/cdi/management.nvidia.com-gpu.yaml"
    async with asyncio.timeout(30):
        while not written.exists():
            await asyncio.sleep(0.01)
    text = written.read_text()
    await specs.remove()

    assert f'"hostPath": "{place}/' in text
    assert not written.exists()


def test_hook_and_libraries_of_the_settings_reach_the_keeper(tmp_path: Path) -> None:
    given = Settings(install_dir="/opt/nvidia", library_dirs=("/opt/lib",), driver_install_dir="/opt/drv")

    wanted = Specs(given, Root(tmp_path))._keeper._settings

    assert wanted.hooks[0] == "/opt/nvidia/toolkit/nvidia-cdi-hook"
    assert (wanted.library_dirs, wanted.install_dir) == (("/opt/lib",), "/opt/drv")
