"""`gpuready-sim demo`: runs the story, exits 0 when every expectation held, 1 when one broke, 2 otherwise."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import click
from rich.console import Console

from gpuready_sim.cluster.handle import NotInTime
from gpuready_sim.errors import SimulatorError
from gpuready_sim.scenarios.demo.scenes import tell
from gpuready_sim.scenarios.story import BrokenExpectation, Story

WIDTH = 110


@click.command("demo", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--name", default="demo", show_default=True, help="Name of the cluster it starts.")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Also draw the run as SVG.")
def _demo(name: str, picture: Path | None) -> int:
    """Run the main job on a simulated cluster, start to finish, and say what happened.

    \b
    Examples:
      gpuready-sim demo
      gpuready-sim demo --picture demo.svg
    """
    console = Console(record=picture is not None, width=None if sys.stdout.isatty() else WIDTH)
    story = Story(console)
    try:
        asyncio.run(_told(story, name))
    except (BrokenExpectation, NotInTime) as exc:
        console.print(f"\n[bold red]broken:[/] {exc}", highlight=False)
        return 1
    except SimulatorError as exc:
        console.print(f"\n[bold red]error:[/] {exc}", highlight=False)
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("\nstopped; nothing is left running")
        return 130
    story.times()
    if picture is not None:
        console.save_svg(str(picture), title="make demo")
    return 0


async def _told(story: Story, name: str) -> None:
    """SIGTERM and SIGINT end the story as Ctrl-C does: the cluster is taken down on the way out."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await tell(story, name)


def main(arguments: list[str]) -> int:
    try:
        return int(_demo.main(args=arguments, prog_name="gpuready-sim demo", standalone_mode=False) or 0)
    except click.ClickException as exc:
        exc.show()
        return 2
