"""`gpuready-sim demo`: runs the story, exits 0 when every expectation held, 1 when one broke, 2 otherwise."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from rich.console import Console

from gpuready_sim.cluster.api import Api
from gpuready_sim.cluster.handle import NotInTime
from gpuready_sim.cluster.places import Place, refuse_running
from gpuready_sim.scenarios.demo.scenes import tell
from gpuready_sim.scenarios.story import BrokenExpectation, Story

WIDTH = 110
PICTURED = (2, 3, 5)  # the chains fill in, a pod gets its GPU, one breaks: enough for one look


def run(name: str, picture: Path | None = None, *, api: Api = Api.EMBEDDED) -> int:
    """Tell the story on a cluster of this name; raises SimulatorError when it cannot be told."""
    refuse_running(Place.of(name))
    console = Console(record=picture is not None, width=None if sys.stdout.isatty() else WIDTH)
    story = Story(console, pictured=PICTURED if picture else ())
    try:
        asyncio.run(_told(story, name, api))
    except (BrokenExpectation, NotInTime) as exc:
        console.print(f"\n[bold red]broken:[/] {exc}", highlight=False)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("\nstopped; nothing is left running")
        return 130
    story.times()
    if picture is not None:
        console.save_svg(str(picture), title="make demo")
    return 0


async def _told(story: Story, name: str, api: Api) -> None:
    """SIGTERM and SIGINT end the story as Ctrl-C does: the cluster is taken down on the way out."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await tell(story, name, api)
