"""The commands that run in pods, one for each role; their settings come from the environment."""

from __future__ import annotations

import os

import click

from gpuready.commands.options import Seconds


@click.command(short_help="Run the operator.")
@click.option(
    "--kubeconfig", type=click.Path(dir_okay=False), help="Outside a cluster; inside, leave it out."
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    envvar="GPUREADY_LEADER_ELECT",
    help="Work only while the Lease is ours. Default: yes in a pod, no beside a cluster.",
)
@click.option(
    "--leader-elect-lease-duration",
    "lease_s",
    type=Seconds(),
    envvar="GPUREADY_LEADER_ELECT_LEASE_DURATION",
    help="After this long without a renewal another may lead.  [default: 15s]",
)
@click.option(
    "--leader-elect-renew-deadline",
    "--leader-lease-renew-deadline",
    "renew_s",
    type=Seconds(),
    envvar="GPUREADY_LEADER_ELECT_RENEW_DEADLINE",
    help="After this long without a renewal the leader stops.  [default: 10s; 2/3 of the duration]",
)
@click.option(
    "--leader-elect-retry-period",
    "retry_s",
    type=Seconds(),
    envvar="GPUREADY_LEADER_ELECT_RETRY_PERIOD",
    help="Between two renewals.  [default: 2s; at most 1/5 of the deadline]",
)
def operator(
    kubeconfig: str | None,
    leader_elect: bool | None,
    lease_s: float | None,
    renew_s: float | None,
    retry_s: float | None,
) -> int:
    """Run the operator (in a pod, or beside a cluster with --kubeconfig).

    Of several operators one works: who holds the Lease 53822513.nvidia.com in its namespace, which is the
    original operator's too. The others are ready to take over.
    """
    from gpuready.controller import main as controller
    from gpuready.controller.election import elects_by_default
    from gpuready.kube.lease import Timing

    if leader_elect is None:
        leader_elect = elects_by_default(os.environ, kubeconfig)
    timing = Timing.of(lease_s, renew_s, retry_s)
    return controller.main(os.environ, kubeconfig, timing if leader_elect else None)


@click.command("node-agent", short_help="Run the node agent.")
def node_agent() -> int:
    """Run the node agent; settings come from the environment."""
    from gpuready.operands.node_agent import daemon

    return daemon.main(os.environ)


@click.command("device-plugin", short_help="Run the device plugin.")
def device_plugin() -> int:
    """Run the device plugin; settings come from the environment."""
    from gpuready.operands.device_plugin import daemon

    return daemon.main(os.environ)


class _Exporter(click.Group):
    """Its two commands, imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["lint", "run"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "lint":
            from gpuready.operands.exporter.lint import lint

            return lint
        if cmd_name == "run":
            from gpuready.operands.exporter.command import run_command

            return run_command()
        return None


@click.group("exporter", cls=_Exporter, short_help="Run the metrics exporter, or check its counters' file.")
def exporter() -> None:
    """Run the metrics exporter (`gpuready exporter` alone does), or check a counters' file.

    \b
    Examples:
      gpuready exporter lint counters.csv
      gpuready exporter run --help
      gpuready exporter -f counters.csv -a :9400 --kubernetes
    """


@click.command(short_help="Run the container toolkit, or show what it would change.")
@click.option("--dry-run", is_flag=True, help="Print files and settings that would change; write nothing.")
@click.option("--uninstall", "undo", is_flag=True, help="Restore what was there before us, and end.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Of --dry-run.",
)
def toolkit(dry_run: bool, undo: bool, output: str) -> int:
    """Teach this node's container runtime the handlers of GPU pods; settings come from the environment.

    Exit status of --dry-run: 0 nothing would change, 1 something would, 2 could not look.

    \b
    Examples:
      gpuready toolkit --dry-run
      gpuready toolkit --uninstall --dry-run
      CONTAINERD_CONFIG=/etc/containerd/config.toml gpuready toolkit --dry-run -o json
    """
    from gpuready.operands.toolkit import command

    if dry_run:
        return command.show(os.environ, output, uninstall=undo)
    if undo:
        return command.undo(os.environ)
    from gpuready.operands.toolkit import daemon

    return daemon.main(os.environ)


ALL = (operator, node_agent, device_plugin, exporter, toolkit)
