"""Arguments that many commands of `gpuready-sim` share, and how a command asks its cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from gpuready_sim.cluster.api import Api
from gpuready_sim.cluster.places import DEFAULT_NAME

FINE, COULD_NOT_LOOK = 0, 2  # exit status; 1: looked, and found something


def named(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--name",
        default=DEFAULT_NAME,
        show_default=True,
        help="Which cluster; several can run side by side.",
        shell_complete=_complete_cluster,
    )(command)


def api(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--api",
        type=click.Choice([word.value for word in Api]),
        default=Api.EMBEDDED.value,
        show_default=True,
        help="The simulator's own API server, or a real control plane (built by `make kubernetes`).",
    )(command)


def table_or_json(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
    )(command)


def _complete_cluster(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from gpuready_sim.cluster.places import cluster_names

    return [name for name in cluster_names() if name.startswith(incomplete)]


def _complete_node(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from gpuready_sim.cluster.places import Place

    nodes = Place.of(ctx.params.get("name") or DEFAULT_NAME).directory / "nodes"
    return sorted(p.name for p in nodes.glob(f"{incomplete}*"))


node = click.argument("node", shell_complete=_complete_node)
target = click.argument("target", metavar="NODE/GPU", shell_complete=_complete_node)


def whole(least: int, most: int) -> Callable[[str], int]:
    """The type of a whole number in a range; the error says which."""

    def parse(text: str) -> int:
        number = int(text) if text.isascii() and text.isdecimal() else least - 1
        if not least <= number <= most:
            raise click.BadParameter(f"{text!r} is no whole number from {least} to {most}")
        return number

    return parse


def seconds(most: float) -> Callable[[str], float]:
    """The type of a time from 0 to `most`; the error says so."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 <= number <= most:
            raise click.BadParameter(f"{text!r} is no number of seconds from 0 to {most:g}")
        return number

    return parse


def ask(name: str, command: str, timeout_s: float = 60, **args: object) -> Any:
    """Send a command to the cluster of this name; its answer."""
    from gpuready_sim import control
    from gpuready_sim.cluster.places import Place

    return control.ask(Place.of(name), command, args, timeout_s=timeout_s)
