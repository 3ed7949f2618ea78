"""The commands of `gpuready cdi` with their options and help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from gpuready import names
from gpuready.gpu.cdi.qualified import Style


def _host_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--host-root",
        type=click.Path(exists=True, file_okay=False),
        help='The tree that is the node\'s "/".  [default: /host where it is mounted, else /]',
    )(command)


def _output_option(*formats: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option("-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cdi() -> None:
    """Write, list, check and resolve the CDI specs of this node.

    A runtime that cannot resolve a device says only its name; these commands say why.

    \b
    Examples:
      gpuready cdi list
      gpuready cdi check
      gpuready cdi resolve nvidia.com/gpu=0
      gpuready cdi generate > /etc/cdi/nvidia.yaml
    """


@cdi.command()
@_host_options
@click.option("--driver-root", default="", help="Where on the node the driver lies.  [default: found]")
@click.option("--dev-root", default="", help="Where on the node the driver's /dev lies.  [default: found]")
@click.option(
    "--library-search-path", "library_dirs", multiple=True, help="Look for the driver's libraries only here."
)
@click.option(
    "--device-name-strategy",
    "styles",
    multiple=True,
    type=click.Choice([style.value for style in Style]),
    default=[Style.INDEX.value, Style.UUID.value],
    show_default=True,
    help="How devices are named.",
)
@click.option("--kind", default=names.GPU_CDI_KIND, show_default=True, help="Which of the specs to print.")
@click.option("--no-all-device", is_flag=True, help="Leave the device `all` out.")
@click.option("--no-additional-gids", is_flag=True, help="For readers of CDI 0.6 and older.")
@click.option("--nvidia-cdi-hook-path", "hook", default="", help="The hook program.  [default: found]")
@click.option("--write", is_flag=True, help=f"Write every spec to {names.CDI_DIRS[-1]} instead.")
@click.option("--explain", is_flag=True, help="Also say where libraries were looked for, on stderr.")
@_output_option("yaml", "json")
def generate(**options: Any) -> int:
    """Print the CDI spec of this node's GPUs, or write all specs.

    What cannot be offered is said on stderr, with the reason.
    Exit status: 0 all is in it, 1 something was left out, 2 no spec could be made.

    \b
    Examples:
      gpuready cdi generate
      gpuready cdi generate --kind management.nvidia.com/gpu -o json
      gpuready cdi generate --driver-root /run/nvidia/driver --explain
      gpuready cdi generate --write
    """
    from gpuready.tools.cdi import generate as tool

    return tool.run(tool.Options(**options))


@cdi.command("list")
@_host_options
@_output_option("table", "json", "yaml")
def list_(host_root: str | None, output: str) -> int:
    """List every device that a container can ask for by a CDI name.

    \b
    Examples:
      gpuready cdi list
      gpuready cdi list -o json | jq -r '.devices[].name'
    """
    from gpuready.tools.cdi import look

    return look.list_devices(host_root, output)


@cdi.command()
@_host_options
@_output_option("table", "json", "yaml")
def check(host_root: str | None, output: str) -> int:
    """Check every spec in /etc/cdi and /var/run/cdi as a runtime would, and each host path in them.

    Exit status: 0 nothing found, 1 found something, 2 could not look.

    \b
    Examples:
      gpuready cdi check
      gpuready cdi check -o json
    """
    from gpuready.tools.cdi import look

    return look.check(host_root, output)


@cdi.command()
@_host_options
@_output_option("table", "json", "yaml")
@click.argument("devices", metavar="NAME...", nargs=-1, required=True)
def resolve(host_root: str | None, output: str, devices: tuple[str, ...]) -> int:
    """Say what a container gets for a CDI name, or why it gets nothing.

    Exit status: 0 all names resolve, 1 one does not, 2 could not look.

    \b
    Examples:
      gpuready cdi resolve nvidia.com/gpu=0
      gpuready cdi resolve nvidia.com/gpu=all management.nvidia.com/gpu=all -o json
    """
    from gpuready.tools.cdi import look

    return look.resolve(host_root, output, devices)
