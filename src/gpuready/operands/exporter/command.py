"""`gpuready exporter run`: the daemon, with its flags explained."""

from __future__ import annotations

import os

import click

from gpuready.operands.exporter.flags import FLAGS, Flag


def run_command() -> click.Command:
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    rows = "\n".join(f"  {_names(flag):44} {flag.help}" for flag in FLAGS if not flag.no_effect)
    ignored = ", ".join(f"--{flag.name}" for flag in FLAGS if flag.no_effect)
    return click.Command(
        "run",
        callback=click.pass_context(_run),
        context_settings=settings,
        short_help="Run the metrics exporter.",
        help="Run the metrics exporter; flags and environment variables are those of NVIDIA's.",
        epilog=f"\b\nFlags:\n{rows}\n\nTaken and without effect: {ignored}",
        options_metavar="[FLAGS]",
    )


def _run(ctx: click.Context) -> int:
    from gpuready.operands.exporter import start

    return start.main(os.environ, ctx.args)


def _names(flag: Flag) -> str:
    value = "" if flag.is_switch else " VALUE"
    short = f"-{flag.short}, " if flag.short else ""
    return f"{short}--{flag.name}{value}"
