"""`gpuready-sim`: simulated GPU clusters from the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuready_sim.cli_arguments import COULD_NOT_LOOK, FINE, api, ask, named, node, table_or_json
from gpuready_sim.cli_faults import fault
from gpuready_sim.cli_gpu import gpu
from gpuready_sim.errors import SimulatorError

if TYPE_CHECKING:
    from gpuready_sim.cluster.places import Place
    from gpuready_sim.cluster.supervisor import Supervisor


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; errors are printed as what, why, next step (a traceback needs --debug)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        result = sim.main(args=arguments, prog_name="gpuready-sim", standalone_mode=False)
    except click.ClickException as exc:
        exc.show()
        return COULD_NOT_LOOK
    except (click.Abort, KeyboardInterrupt):
        return 130
    except SimulatorError as exc:
        if "--debug" in arguments:
            raise
        _print_error(exc)
        return COULD_NOT_LOOK
    return int(result or 0)


def _print_error(exc: SimulatorError) -> None:
    click.echo(f"error: {exc.what}", err=True)
    if exc.why:
        click.echo(f"  why   {exc.why}", err=True)
    if exc.next_step:
        click.echo(f"  next  {exc.next_step}", err=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gpuready", prog_name="gpuready-sim")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def sim(debug: bool) -> None:
    """Simulated GPU clusters: a Kubernetes API, kubelets and NVIDIA GPUs on this machine, without root.

    \b
    See it:  gpuready-sim demo                   from bare machines to GPUs in pods, with faults
    Start:   gpuready-sim up --detach            prints `kubeconfig: PATH`
    Use:     export KUBECONFIG=PATH; kubectl get nodes
    Work:    gpuready-sim gpu load l4-0/1 sine 20 90 60
    Break:   gpuready-sim fault xid l4-0/1 79    gpuready-sim fault list
    Look:    gpuready-sim status                 gpuready-sim requests --writes
    Log in:  gpuready-sim exec l4-0 -- nvidia-smi
    End:     gpuready-sim down                   gpuready-sim list shows all that there are
    """


@sim.command()
@named
@click.option(
    "-f",
    "--file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="cluster.yaml with the nodes, - for stdin; without it one CPU node and one with two L4.",
)
@api
@click.option("--no-operator", is_flag=True, help="Without CRDs and operator: bare nodes.")
@click.option("--detach", is_flag=True, help="Run in the background; return when the nodes are Ready.")
@click.option("--ready-fd", type=int, hidden=True)
def up(name: str, file: Path | None, api: str, no_operator: bool, detach: bool, ready_fd: int | None) -> int:
    """Start a cluster.

    Prints one line, `kubeconfig: PATH`, when the API answers and all nodes are Ready. Stays in the
    foreground until Ctrl-C unless --detach is given. After Ctrl-C its logs and the list of requests
    stay; `gpuready-sim down` removes them.

    \b
    Examples:
      gpuready-sim up
      gpuready-sim up --file examples/cluster-demo.yaml --detach
      gpuready-sim up --name other --no-operator --detach
      gpuready-sim up --api kubernetes
    """
    from gpuready_sim.cluster import lifecycle
    from gpuready_sim.cluster.api import Api
    from gpuready_sim.cluster.places import Place

    place = Place.of(name)
    asked = lifecycle.load_spec(file)
    if detach:
        lifecycle.run_in_background(place, asked.text, with_operator=not no_operator, api=Api(api))
        _say_ready(place, f"end it with `{place.command('down')}`")
        return FINE

    def on_ready(cluster: Supervisor) -> None:
        if ready_fd is None:
            _say_ready(place, "end it with Ctrl-C")
        else:
            lifecycle.tell_parent(ready_fd)

    try:
        lifecycle.run_here(place, asked.spec, with_operator=not no_operator, api=Api(api), on_ready=on_ready)
    except SimulatorError as exc:
        if ready_fd is None:
            raise
        lifecycle.tell_parent(ready_fd, exc)
        return COULD_NOT_LOOK
    click.echo(f"cluster {name} has ended; its logs and requests stay in {place.directory}", err=True)
    click.echo(f"  next  remove them with `{place.command('down')}`", err=True)
    return FINE


def _say_ready(place: Place, how_to_end: str) -> None:
    click.echo(f"kubeconfig: {place.kubeconfig}")
    click.echo(f"cluster {place.name} is up; {how_to_end}", err=True)
    click.echo(f"  next  export KUBECONFIG={place.kubeconfig}; kubectl get nodes", err=True)


@sim.command()
@named
def down(name: str) -> int:
    """End a cluster and remove its files."""
    from gpuready_sim.cluster.lifecycle import take_down
    from gpuready_sim.cluster.places import Place, State

    place = Place.of(name)
    said = {
        State.ABSENT: f"there is no cluster {name}; nothing was removed",
        State.ENDED: f"cluster {name} was not running; what it had left in {place.directory} is removed",
    }
    found = take_down(place)
    click.echo(said.get(found, f"cluster {name} is down; {place.directory} is removed"), err=True)
    return FINE


@sim.command("list", short_help="List the clusters of this user.")
@table_or_json
def list_(output: str) -> int:
    """List the clusters of this user: running ones, and ended ones whose files are there."""
    from gpuready_sim.cluster.report import print_clusters

    return print_clusters(as_json=output == "json")


@sim.command()
@named
@table_or_json
def status(name: str, output: str) -> int:
    """Show nodes, GPUs, drivers, pods and the processes behind them.

    Exit status: 0 all nodes Ready and all GPUs well, 1 something is not, 2 not running.
    """
    from gpuready_sim.cluster.report import print_status

    return print_status(name, as_json=output == "json")


@sim.command(short_help="Power-cycle a node.")
@named
@node
def reboot(name: str, node: str) -> int:
    """Power-cycle a node: new boot id, /run emptied, kernel modules unloaded, /var/lib kept."""
    answer = ask(name, "reboot", node=node)
    click.echo(f"{node} rebooted, boot id {answer['bootId']}")
    return FINE


@sim.command("exec", context_settings={"ignore_unknown_options": True})
@named
@node
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(name: str, node: str, command: tuple[str, ...]) -> int:
    """Run a program on a node's host.

    \b
    nvidia-smi     the node's, once a driver is installed there; it sees the node's GPUs
    file tools     cat chmod cp du file find grep head ls mkdir mv readlink rm rmdir sha256sum stat
                   tail test touch wc: absolute paths are the node's, relative ones this machine's
    anything else  this machine's own program: it sees this machine's files and kernel. The node's
                   files are below $GPUREADY_ROOT, NVML shows the node's GPUs.

    \b
    Examples:
      gpuready-sim exec l4-0 -- nvidia-smi -L
      gpuready-sim exec l4-0 -- cat /etc/os-release
      gpuready-sim exec l4-0 -- ls /run/nvidia/validations
      gpuready-sim exec l4-0 -- python script.py
      gpuready-sim exec l4-0 -- sh -c 'ls $GPUREADY_ROOT/dev'
    """
    from gpuready_sim.cluster import host_programs

    program = host_programs.host_program(command, ask(name, "environment", node=node))
    if program.note:
        click.echo(f"note: {program.note}", err=True)
    try:
        return host_programs.run(program)
    except OSError as exc:
        raise SimulatorError(
            f"cannot run {command[0]!r} on {node}",
            why=exc.strerror or str(exc),
            next_step="`gpuready-sim exec --help` says which programs there are",
        ) from exc


@sim.command(short_help="List the API server's requests.")
@named
@click.option("--writes", is_flag=True, help="Only create, update, patch and delete, without leases.")
@click.option("--leases", is_flag=True, help="With --writes: leases too.")
@click.option("--client", metavar="NAME", help="Only from this client, such as gpuready-operator or kubectl.")
@click.option("--since", metavar="RFC3339", help="Only from this time on, such as 2026-11-05T10:00:00Z.")
@table_or_json
def requests(
    name: str, writes: bool, leases: bool, client: str | None, since: str | None, output: str
) -> int:
    """List the API server's requests: time, client, verb, resource, name, code.

    Kubelets and the operator renew leases all the time; --writes leaves these out.

    \b
    Examples:
      gpuready-sim requests --writes
      gpuready-sim requests --writes --client gpuready-operator
      gpuready-sim requests --since 2026-11-05T10:00:00Z -o json
    """
    from gpuready_sim.cluster.report import print_requests
    from gpuready_sim.request_log import Filter, parse_rfc3339

    start: datetime | None = None
    if since:
        try:
            start = parse_rfc3339(since)
        except ValueError as exc:
            raise click.BadParameter(
                f"{since!r} is no RFC 3339 time such as 2026-11-05T10:00:00Z", param_hint="--since"
            ) from exc
    wanted = Filter(writes_only=writes, leases=leases or not writes, client=client, since=start)
    return print_requests(name, wanted, as_json=output == "json")


@sim.command(short_help="Run the demonstration, from bare machines to pods.")
@click.option("--name", default="demo", show_default=True, help="Name of the cluster that it starts.")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Also draw the run as SVG.")
@api
def demo(name: str, picture: Path | None, api: str) -> int:
    """Run the demonstration: four nodes, from bare machines to GPUs in pods, with faults.

    Exit status: 0 when all was as it should be, 1 when something was not, 2 when it could not run.

    \b
    Examples:
      gpuready-sim demo
      gpuready-sim demo --picture demo.svg
      gpuready-sim demo --api kubernetes
    """
    from gpuready_sim.cluster.api import Api
    from gpuready_sim.scenarios.demo import run

    return run(name, picture, api=Api(api))


@sim.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print a completion script.

    \b
    Examples:
      source <(gpuready-sim completion bash)
      gpuready-sim completion fish > ~/.config/fish/completions/gpuready-sim.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(sim, {}, "gpuready-sim", "_GPUREADY_SIM_COMPLETE").source())
    return FINE


sim.add_command(fault)
sim.add_command(gpu)


if __name__ == "__main__":
    sys.exit(main())
