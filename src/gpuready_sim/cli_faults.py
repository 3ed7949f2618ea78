"""`gpuready-sim fault ...`: what can break in a simulated cluster, and what mends it."""

from __future__ import annotations

import shutil
import sys

import click

from gpuready_sim.cli_arguments import FINE, ask, named, node, seconds, target, whole


@click.group()
def fault() -> None:
    """Break something, or mend it. GPU is an index or a uuid.

    \b
    What mends what:
      xid            reset or reboot; after XID 79 the GPU is off the bus and only a reboot helps
      lost           reboot
      inforom        inforom --mend; it is stored on the card: neither reset nor reboot helps
      hang           ends by itself; `hang NODE 0` or a reboot end it at once
      driver-update  driver-reload or reboot
      power-off      reboot
      throttle       throttle without reasons
      flag           flag --mend
      call           call without a function, or its --seconds
      cuda           cuda --mend

    \b
    Examples:
      gpuready-sim fault xid h100/3 79
      gpuready-sim reboot h100
      gpuready-sim fault inforom h100/3
      gpuready-sim fault inforom h100/3 --mend
      gpuready-sim fault driver-update h100 570.133.20
      gpuready-sim fault driver-reload h100
    """


@fault.command("list")
def fault_list() -> int:
    """List the faults there are."""
    rows = []
    for command in fault.commands.values():
        if command.name != "list":
            usage = " ".join(piece for piece in command.collect_usage_pieces(click.Context(command))[1:])
            rows.append((f"{command.name} {usage}", command.get_short_help_str(limit=100)))
    formatter = click.HelpFormatter(
        width=shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else 200
    )
    formatter.write_dl(rows, col_max=40)
    click.echo(formatter.getvalue(), nl=False)
    return FINE


@fault.command("xid")
@named
@target
@click.argument("code", type=whole(1, 999))
def fault_xid(name: str, target: str, code: int) -> int:
    """Raise an XID on a GPU; 79 takes it off the bus until a reboot."""
    click.echo(f"XID {code} raised on {target} ({ask(name, 'fault xid', target=target, code=code)['uuid']})")
    return FINE


@fault.command("lost")
@named
@target
def fault_lost(name: str, target: str) -> int:
    """Take a GPU off the bus without an XID; a reboot brings it back."""
    click.echo(f"{target} is lost ({ask(name, 'fault lost', target=target)['uuid']})")
    return FINE


@fault.command("reset")
@named
@target
def fault_reset(name: str, target: str) -> int:
    """Reset a GPU, as `nvidia-smi --gpu-reset` does: mends XIDs, does not bring back a lost GPU."""
    click.echo(f"{target} was reset ({ask(name, 'fault reset', target=target)['uuid']})")
    return FINE


@fault.command("inforom")
@named
@target
@click.option("--mend", is_flag=True, help="Make it readable again.")
def fault_inforom(name: str, target: str, mend: bool) -> int:
    """Corrupt a GPU's infoROM: NVML calls that read it fail for this GPU until --mend.

    \b
    Examples:
      gpuready-sim fault inforom h100/3
      gpuready-sim fault inforom h100/3 --mend
    """
    answer = ask(name, "fault inforom", target=target, corrupt=not mend)
    click.echo(f"infoROM of {target} is {'readable again' if mend else 'corrupt'} ({answer['uuid']})")
    return FINE


@fault.command("hang")
@named
@node
@click.argument("seconds", type=seconds(3600))
def fault_hang(name: str, node: str, seconds: float) -> int:
    """Let every NVML call on a node hang for so long; 0 ends it."""
    ask(name, "fault hang", node=node, seconds=seconds)
    click.echo(f"NVML of {node} hangs for {seconds:g} s" if seconds else f"NVML of {node} answers")
    return FINE


@fault.command("throttle")
@named
@target
@click.argument("reasons", nargs=-1)
def fault_throttle(name: str, target: str, reasons: tuple[str, ...]) -> int:
    """Hold a GPU's clocks back: power-cap, sw-thermal, hw-thermal, hw-slowdown, power-brake, sync-boost."""
    ask(name, "fault throttle", target=target, reasons=list(reasons))
    click.echo(f"{target} is held back by {', '.join(reasons)}" if reasons else f"{target} runs freely")
    return FINE


@fault.command("error")
@named
@target
@click.argument("kind")
@click.argument("number", type=whole(1, 10**6), default="1")
def fault_error(name: str, target: str, kind: str, number: int) -> int:
    """Count an error: ecc-corrected, ecc-uncorrected, pcie-replay, nvlink-replay, page-retired-double ..."""
    ask(name, "fault error", target=target, kind=kind, number=number)
    click.echo(f"{target}: {number} more {kind}")
    return FINE


@fault.command("flag")
@named
@target
@click.argument("flag")
@click.option("--mend", is_flag=True, help="No longer.")
def fault_flag(name: str, target: str, flag: str, mend: bool) -> int:
    """Say of a GPU: row-remap-pending, row-remap-failed, memory-unrepairable, page-retirement-pending."""
    ask(name, "fault flag", target=target, flag=flag, on=not mend)
    click.echo(f"{target}: {flag} {'no longer' if mend else 'set'}")
    return FINE


@fault.command("call")
@named
@target
@click.argument("function", default="")
@click.option(
    "--code",
    type=whole(1, 999),
    default="999",
    help="Number of the error: NVML's, CUDA's, or DCGM's without its minus; 999: unknown.",
)
@click.option("--seconds", type=seconds(3600), help="Hang for so long instead; 0 ends it.")
def fault_call(name: str, target: str, function: str, code: int, seconds: float | None) -> int:
    """Let a function of NVML, DCGM or CUDA fail or hang for a GPU, or all with '*'; without one, mend them.

    \b
    Examples:
      gpuready-sim fault call h100/3 nvmlDeviceGetPowerUsage --code 999
      gpuready-sim fault call h100/3 '*' --seconds 30
      gpuready-sim fault call h100/3
    """
    answer = ask(name, "fault call", target=target, function=function, code=code, seconds=seconds)
    if not function:
        click.echo(f"{target}: {answer['mended']} mended")
    elif seconds is None:
        click.echo(f"{target}: {function} answers {code}")
    else:
        click.echo(
            f"{target}: {function} hangs for {seconds:g} s" if seconds else f"{target}: {function} answers"
        )
    return FINE


@fault.command("cuda")
@named
@target
@click.argument("kind")
@click.option("--mend", is_flag=True, help="No longer.")
def fault_cuda(name: str, target: str, kind: str, mend: bool) -> int:
    """Let CUDA programs go wrong on a GPU: system-not-ready, ecc, launch-failed, hang, wrong-result ...

    \b
    KIND is one of
      system-not-ready   no-device     unavailable   out-of-memory   no-compiler
      unsupported-ptx    launch-failed ecc           hang            wrong-result

    \b
    Examples:
      gpuready-sim fault cuda h100/3 ecc
      kubectl annotate node h100 gpuready.dev/prove-cuda=now --overwrite   # or nobody looks again
      gpuready-sim fault cuda h100/3 ecc --mend
    """
    ask(name, "fault cuda", target=target, trouble=kind, on=not mend)
    click.echo(f"{target}: CUDA {kind} {'no longer' if mend else 'set'}")
    return FINE


@fault.command("driver-update")
@named
@node
@click.argument("version")
def fault_driver_update(name: str, node: str, version: str) -> int:
    """Install other driver libraries on the host under the loaded module: a mismatch until a reload."""
    answer = ask(name, "fault driver-update", node=node, version=version)
    click.echo(f"{node}: libraries {answer['installed']}, module {answer['loaded']}")
    return FINE


@fault.command("driver-reload")
@named
@node
def fault_driver_reload(name: str, node: str) -> int:
    """Load the module of the installed libraries; refused while somebody holds NVML, naming them."""
    answer = ask(name, "fault driver-reload", node=node)
    click.echo(f"{node}: libraries {answer['installed']}, module {answer['loaded']}")
    return FINE


@fault.command("power-off")
@named
@node
def fault_power_off(name: str, node: str) -> int:
    """Take a node's power: all on it ends, and nobody tells; `reboot` brings it back."""
    ask(name, "fault power-off", node=node)
    click.echo(f"{node} is off")
    return FINE


@fault.command("kubelet-restart")
@named
@node
def fault_kubelet_restart(name: str, node: str) -> int:
    """Restart a node's kubelet: plugin sockets vanish, containers stay."""
    ask(name, "fault kubelet-restart", node=node)
    click.echo(f"kubelet of {node} restarted")
    return FINE


@fault.command("api-stop")
@named
@click.argument("seconds", type=seconds(3600))
def fault_api_stop(name: str, seconds: float) -> int:
    """Stop the API server for so long; returns when it answers again."""
    ask(name, "fault api-stop", timeout_s=seconds + 60, seconds=seconds)
    click.echo(f"the API server was away for {seconds:g} s")
    return FINE
