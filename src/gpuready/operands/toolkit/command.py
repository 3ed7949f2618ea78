"""`gpuready toolkit` as it is typed: look without touching, or undo. Thin."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import click

from gpuready.errors import GPUReadyError
from gpuready.node.root import Root
from gpuready.operands.toolkit import dry_run
from gpuready.operands.toolkit.engine import Engine, Look
from gpuready.operands.toolkit.host_exec import Host
from gpuready.operands.toolkit.one_toolkit import OneToolkit
from gpuready.operands.toolkit.plan import Plan
from gpuready.operands.toolkit.settings import Settings

NOTHING_TO_DO, SOMETHING_TO_DO = 0, 1


def show(env: Mapping[str, str], output: str, *, uninstall: bool) -> int:
    """Print what would be done. raises GPUReadyError: it cannot be said, or must not be done"""
    engine = _engine(env)
    plan, look = asyncio.run(_look(engine, uninstall=uninstall))
    if output == "json":
        click.echo(json.dumps(dry_run.json_of(engine.layout, look, plan), indent=2))
    else:
        click.echo(dry_run.text_of(engine.layout, look, plan), nl=False)
    return SOMETHING_TO_DO if plan.changes_anything or look.lacks else NOTHING_TO_DO


def undo(env: Mapping[str, str]) -> int:
    """Take everything of ours out of the runtime's configuration.

    raises  GPUReadyError, also while the toolkit's daemon runs here: it would put all of it back at once
    """
    lock = OneToolkit(Root.from_env(env).host().resolve(Settings.from_env(env).pid_file))
    if holder := lock.take():
        raise GPUReadyError(
            f"a toolkit runs on this node (process {holder})",
            why="it would put back at once what is taken out",
            next_step="set spec.toolkit.enabled: false in the ClusterPolicy: it then undoes its work itself",
        )
    try:
        outcome = asyncio.run(_engine(env).uninstall())
    finally:
        lock.release()
    for change in outcome.changed:
        click.echo(f"restored {change.path}" if change.after is not None else f"removed {change.path}")
    if not outcome.changed:
        click.echo("nothing of ours is in the runtime's configuration")
    if outcome.restarted:
        click.echo("the runtime was restarted")
    return NOTHING_TO_DO


async def _look(engine: Engine, *, uninstall: bool) -> tuple[Plan, Look]:
    if uninstall:
        return await engine.look_back()
    look = await engine.look()
    return look.plan, look


def _engine(env: Mapping[str, str]) -> Engine:
    root = Root.from_env(env)
    settings = Settings.from_env(env)
    return Engine(settings, Host.of(root.host(), env), root.join(settings.journal))
