"""The commands of `gpuready` with their options and help; each imports what it runs when it runs.

tools.py   for people     roles.py   for pods     options.py   what both have in common
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

import click

from gpuready import log, names
from gpuready.commands import roles, tools
from gpuready.errors import GPUReadyError

FOUND_NOTHING, FOUND_SOMETHING, COULD_NOT_LOOK = 0, 1, 2


def run(arguments: Sequence[str]) -> int:
    """Run one command line; errors are printed as what, why, next step (a traceback needs --debug)."""
    from gpuready.tools.output import arriving

    try:
        with arriving():
            result = gpuready.main(args=list(arguments), prog_name="gpuready", standalone_mode=False)
    except click.ClickException as exc:
        with suppress(OSError):
            exc.show()
        return COULD_NOT_LOOK
    except click.Abort:
        return 130
    except KeyboardInterrupt:
        return 130
    except GPUReadyError as exc:
        if "--debug" in arguments:
            raise
        with suppress(OSError):  # there is nowhere left to say it: the status stays
            _print_error(exc)
        return COULD_NOT_LOOK
    return int(result or 0)


def _print_error(exc: GPUReadyError) -> None:
    from gpuready.tools.terminal import printable

    click.echo(f"error: {printable(exc.what)}", err=True)
    if exc.why:
        click.echo(f"  why   {printable(exc.why)}", err=True)
    if exc.next_step:
        click.echo(f"  next  {printable(exc.next_step)}", err=True)


class Commands(click.Group):
    """With groups of commands that are imported when one of them is asked for."""

    LATER: ClassVar = {"cdi": "gpuready.tools.cdi.options"}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.LATER])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.LATER:
            return super().get_command(ctx, cmd_name)
        found = getattr(importlib.import_module(self.LATER[cmd_name]), cmd_name)
        assert isinstance(found, click.Command)
        return found


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(names.VERSION, prog_name="gpuready")
@click.option("--debug", is_flag=True, help="Show tracebacks and debug logs.")
def gpuready(debug: bool) -> None:
    """From a bare GPU machine to a working nvidia.com/gpu, and why when it is not so.

    \b
    Look:    gpuready status          nodes x links of the chain
             gpuready doctor          the first broken link of each node, with the next step
             gpuready plan -f P       what would change if this policy were applied
             gpuready cdi             the node's CDI specs: list, check, resolve, generate
    Write:   gpuready crds            the CustomResourceDefinitions, for kubectl apply --server-side -f -
             gpuready rbac            the operator's account and rules, likewise
             gpuready render -f P     the objects that a policy leads to
             gpuready images -f P     the images that a mirror must hold
    Change:  gpuready uninstall       the policy goes, and everything of ours on the nodes
    Run:     gpuready operator | node-agent | device-plugin | toolkit | exporter   (in pods)
    """
    log.set_up(level="debug" if debug else None)


for _command in (*tools.ALL, *roles.ALL):
    gpuready.add_command(_command)
