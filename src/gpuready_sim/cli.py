"""`gpuready-sim`: simulated GPU clusters from the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuready_sim.errors import SimulatorError

if TYPE_CHECKING:
    from gpuready_sim.cluster.supervisor import Supervisor

FINE, FOUND_SOMETHING, COULD_NOT_LOOK = 0, 1, 2
DEFAULT_NAME = "gpuready"


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


def _named(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--name",
        default=DEFAULT_NAME,
        show_default=True,
        help="Which cluster; several can run side by side.",
        shell_complete=_complete_cluster,
    )(command)


def _complete_cluster(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from gpuready_sim.cluster.places import cluster_names

    return [name for name in cluster_names() if name.startswith(incomplete)]


def _complete_node(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from gpuready_sim.cluster.places import Place

    nodes = Place.of(ctx.params.get("name") or DEFAULT_NAME).directory / "nodes"
    return sorted(p.name for p in nodes.glob(f"{incomplete}*"))


_node = click.argument("node", shell_complete=_complete_node)
_target = click.argument("target", metavar="NODE/GPU", shell_complete=_complete_node)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def sim(debug: bool) -> None:
    """Simulated GPU clusters: a Kubernetes API, kubelets and NVIDIA GPUs on this machine, without root.

    \b
    Start:   gpuready-sim up --detach            prints `kubeconfig: PATH`
    Use:     export KUBECONFIG=PATH; kubectl get nodes
    Break:   gpuready-sim fault xid l4-0/1 79    gpuready-sim fault list
    Look:    gpuready-sim status                 gpuready-sim requests --writes
    End:     gpuready-sim down
    """


@sim.command()
@_named
@click.option(
    "-f",
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="cluster.yaml with the nodes; without it one CPU node and one with two L4.",
)
@click.option("--no-operator", is_flag=True, help="Without CRDs and operator: bare nodes.")
@click.option("--detach", is_flag=True, help="Run in the background; return when the nodes are Ready.")
@click.option("--ready-fd", type=int, hidden=True)
def up(name: str, file: Path | None, no_operator: bool, detach: bool, ready_fd: int | None) -> int:
    """Start a cluster.

    Prints one line, `kubeconfig: PATH`, when the API answers and all nodes are Ready. Stays in the
    foreground until Ctrl-C unless --detach is given.

    \b
    Examples:
      gpuready-sim up
      gpuready-sim up --file examples/cluster-demo.yaml --detach
      gpuready-sim up --name other --no-operator --detach
    """
    from gpuready_sim.cluster import lifecycle
    from gpuready_sim.cluster.places import Place

    place = Place.of(name)
    spec = lifecycle.load_spec(file)
    if detach:
        lifecycle.run_in_background(place, file, with_operator=not no_operator)
        _say_ready(place.kubeconfig, name, f"end it with `gpuready-sim down --name {name}`")
        return FINE

    def on_ready(cluster: Supervisor) -> None:
        if ready_fd is None:
            _say_ready(place.kubeconfig, name, "end it with Ctrl-C")
        else:
            lifecycle.tell_parent(ready_fd)

    try:
        lifecycle.run_here(place, spec, with_operator=not no_operator, on_ready=on_ready)
    except SimulatorError as exc:
        if ready_fd is None:
            raise
        lifecycle.tell_parent(ready_fd, exc)
        return COULD_NOT_LOOK
    return FINE


def _say_ready(kubeconfig: Path, name: str, how_to_end: str) -> None:
    click.echo(f"kubeconfig: {kubeconfig}")
    click.echo(f"cluster {name} is up; {how_to_end}", err=True)
    click.echo(f"  next  export KUBECONFIG={kubeconfig}; kubectl get nodes", err=True)


@sim.command()
@_named
def down(name: str) -> int:
    """End a cluster and remove its files."""
    from gpuready_sim.cluster.lifecycle import take_down
    from gpuready_sim.cluster.places import Place

    was_running = take_down(Place.of(name))
    click.echo(f"cluster {name} {'is down' if was_running else 'was not running'}", err=True)
    return FINE


@sim.command()
@_named
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def status(name: str, output: str) -> int:
    """Show nodes, GPUs, drivers, pods and the processes behind them.

    Exit status: 0 all nodes Ready and all GPUs well, 1 something is not, 2 not running.
    """
    from gpuready_sim.cluster.report import print_status

    return print_status(name, as_json=output == "json")


@sim.command()
@_named
@_node
def reboot(name: str, node: str) -> int:
    """Power-cycle a node: new boot id, /run emptied, kernel modules unloaded, /var/lib kept."""
    answer = _ask(name, "reboot", node=node)
    click.echo(f"{node} rebooted, boot id {answer['bootId']}")
    return FINE


@sim.command("exec", context_settings={"ignore_unknown_options": True})
@_named
@_node
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(name: str, node: str, command: tuple[str, ...]) -> int:
    """Run a program on a node's host: it sees the host's files and GPUs.

    \b
    Examples:
      gpuready-sim exec l4-0 -- nvidia-smi
      gpuready-sim exec l4-0 -- nvidia-smi -L
      gpuready-sim exec l4-0 -- python script.py
    """
    from gpuready_sim.cluster.lifecycle import host_command

    environment = _ask(name, "environment", node=node)
    program, argv, env = host_command(command, environment)
    try:
        os.execvpe(program, argv, env)
    except OSError as exc:
        raise SimulatorError(
            f"cannot run {command[0]!r} on {node}",
            why=exc.strerror or str(exc),
            next_step="nvidia-smi is there once a driver is installed; other programs are this machine's own",
        ) from exc


@sim.command()
@_named
@click.option("--writes", is_flag=True, help="Only create, update, patch and delete.")
@click.option("--since", metavar="RFC3339", help="Only from this time on, such as 2026-11-05T10:00:00Z.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def requests(name: str, writes: bool, since: str | None, output: str) -> int:
    """List the API server's requests: time, client, verb, resource, name, code.

    \b
    Examples:
      gpuready-sim requests --writes
      gpuready-sim requests --since 2026-11-05T10:00:00Z -o json
    """
    from gpuready_sim.cluster.report import print_requests
    from gpuready_sim.request_log import parse_rfc3339

    start: datetime | None = None
    if since:
        try:
            start = parse_rfc3339(since)
        except ValueError as exc:
            raise click.BadParameter(
                f"{since!r} is no RFC 3339 time such as 2026-11-05T10:00:00Z", param_hint="--since"
            ) from exc
    return print_requests(name, writes_only=writes, since=start, as_json=output == "json")


@sim.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def demo(arguments: tuple[str, ...]) -> int:
    """Run the demonstration: four nodes, from bare machines to GPUs in pods, with faults."""
    from gpuready_sim.scenarios.demo import main as tell

    return tell(list(arguments))


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


def _ask(name: str, command: str, timeout_s: float = 60, **args: object) -> Any:
    from gpuready_sim.cluster.places import Place
    from gpuready_sim.control import ask

    return ask(Place.of(name).control, command, args, timeout_s=timeout_s)


# --- faults ---------------------------------------------------------------------------------------------
@sim.group()
def fault() -> None:
    """Break something, or mend it. GPU is an index or a uuid.

    \b
    Examples:
      gpuready-sim fault xid h100/3 79
      gpuready-sim fault reset h100/3
      gpuready-sim fault driver-update h100 570.133.20
    """


@fault.command("list")
def fault_list() -> int:
    """List the faults there are."""
    for command in fault.commands.values():
        if command.name != "list":
            usage = " ".join(piece for piece in command.collect_usage_pieces(click.Context(command))[1:])
            click.echo(f"{command.name} {usage}".ljust(36) + command.get_short_help_str(limit=100))
    return FINE


@fault.command("xid")
@_named
@_target
@click.argument("code", type=click.IntRange(1, 999))
def fault_xid(name: str, target: str, code: int) -> int:
    """Raise an XID on a GPU; 79 takes it off the bus until a reboot."""
    click.echo(f"XID {code} raised on {target} ({_ask(name, 'fault xid', target=target, code=code)['uuid']})")
    return FINE


@fault.command("lost")
@_named
@_target
def fault_lost(name: str, target: str) -> int:
    """Take a GPU off the bus without an XID; a reboot brings it back."""
    click.echo(f"{target} is lost ({_ask(name, 'fault lost', target=target)['uuid']})")
    return FINE


@fault.command("reset")
@_named
@_target
def fault_reset(name: str, target: str) -> int:
    """Reset a GPU, as `nvidia-smi --gpu-reset` does."""
    click.echo(f"{target} was reset ({_ask(name, 'fault reset', target=target)['uuid']})")
    return FINE


@fault.command("inforom")
@_named
@_target
@click.option("--mend", is_flag=True, help="Make it readable again.")
def fault_inforom(name: str, target: str, mend: bool) -> int:
    """Corrupt a GPU's infoROM: NVML calls that read it fail for this GPU."""
    answer = _ask(name, "fault inforom", target=target, corrupt=not mend)
    click.echo(f"infoROM of {target} is {'well' if mend else 'corrupt'} ({answer['uuid']})")
    return FINE


@fault.command("hang")
@_named
@_node
@click.argument("seconds", type=click.FloatRange(min=0))
def fault_hang(name: str, node: str, seconds: float) -> int:
    """Let every NVML call on a node hang for so long; 0 ends it."""
    _ask(name, "fault hang", node=node, seconds=seconds)
    click.echo(f"NVML of {node} hangs for {seconds:g} s")
    return FINE


@fault.command("driver-update")
@_named
@_node
@click.argument("version")
def fault_driver_update(name: str, node: str, version: str) -> int:
    """Install other driver libraries on the host under the loaded module: a mismatch until a reload."""
    answer = _ask(name, "fault driver-update", node=node, version=version)
    click.echo(f"{node}: libraries {answer['installed']}, module {answer['loaded']}")
    return FINE


@fault.command("driver-reload")
@_named
@_node
def fault_driver_reload(name: str, node: str) -> int:
    """Load the module of the installed libraries; refused while somebody holds NVML, naming them."""
    answer = _ask(name, "fault driver-reload", node=node)
    click.echo(f"{node}: libraries {answer['installed']}, module {answer['loaded']}")
    return FINE


@fault.command("kubelet-restart")
@_named
@_node
def fault_kubelet_restart(name: str, node: str) -> int:
    """Restart a node's kubelet: plugin sockets vanish, containers stay."""
    _ask(name, "fault kubelet-restart", node=node)
    click.echo(f"kubelet of {node} restarted")
    return FINE


@fault.command("api-stop")
@_named
@click.argument("seconds", type=click.FloatRange(min=0, max=3600))
def fault_api_stop(name: str, seconds: float) -> int:
    """Stop the API server for so long; returns when it answers again."""
    _ask(name, "fault api-stop", timeout_s=seconds + 60, seconds=seconds)
    click.echo(f"the API server was away for {seconds:g} s")
    return FINE


if __name__ == "__main__":
    sys.exit(main())
