"""`gpuready-sim gpu ...`: how busy GPUs are, and how they are cut up."""

from __future__ import annotations

import click

from gpuready_sim.cli_arguments import FINE, ask, named, target, whole


@click.group()
def gpu() -> None:
    """Make a GPU work, or cut it up. GPU is an index or a uuid.

    \b
    Examples:
      gpuready-sim gpu load h100/3 sine 20 90 60
      gpuready-sim gpu load h100/3 steps 0:10,30:95 every 60
      gpuready-sim gpu mig h100/3 3g.40gb 3g.40gb
      gpuready-sim gpu load h100/3 constant 60 --instance 1
    """


@gpu.command("load")
@named
@target
@click.argument("load", nargs=-1, required=True)
@click.option("--instance", type=whole(0, 15), help="Of this GPU instance (MIG) only.")
@click.option("--used-mib", type=whole(0, 10**6), help="Memory in use beside that of processes.")
def gpu_load(
    name: str, target: str, load: tuple[str, ...], instance: int | None, used_mib: int | None
) -> int:
    """How busy a GPU is from now on; power, clocks, temperature, energy and links follow.

    \b
    LOAD is one of (P in percent, S in seconds)
      idle                            constant P
      ramp LOW HIGH SECONDS           sine LOW HIGH SECONDS
      steps S:P,S:P,... [every SECONDS]
    """
    ask(name, "gpu load", target=target, words=load, instance=instance, usedMib=used_mib)
    click.echo(f"{target} runs {' '.join(load)}")
    return FINE


@gpu.command("mig")
@named
@target
@click.argument("profiles", nargs=-1)
def gpu_mig(name: str, target: str, profiles: tuple[str, ...]) -> int:
    """Cut a GPU up into these profiles, such as 1g.10gb; without any, MIG goes off."""
    devices = ask(name, "gpu mig", target=target, profiles=list(profiles))["devices"]
    for profile, uuid in zip(profiles, devices, strict=True):
        click.echo(f"{profile}  {uuid}")
    if not devices:
        click.echo(f"MIG is off on {target}")
    return FINE
