"""Which images there are, and which programs a container may run: an allow-list by image name and command.

Pure: image and command in, the local command line out. Nothing that a pod says reaches a shell.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpuready_sim.runtime.errors import CreateError, PullError

OWN_IMAGE = "gpuready"
DRIVER_IMAGE = "driver"
NVIDIA_SMI = "/usr/bin/nvidia-smi"

# Branches of which drivers were released; a tag of any other one is in no registry.
OLD_BRANCHES = frozenset({390, 418, 450, 460, 470})
BRANCHES = range(510, 600)

AVAILABLE = """the simulator runs only:
  image gpuready     our own program: gpuready ROLE ...
  image driver       the driver container: nvidia-driver init; the tag gives the version
  any image          nvidia-smi [-L ...], gpu-hold, sleep N|infinity, printenv [NAME], true, false
  gpu-hold           [--memory MIB] [--sm PERCENT]: a context on each GPU of the container; --sm is its share
                     of the load that `gpuready-sim gpu load` gives the GPU"""


@dataclass(frozen=True)
class Program:
    """What is really executed, and the file that must be in the container's root for it to be found."""

    argv: tuple[str, ...]
    needs: str = ""


def pull(image: str) -> None:
    """Every image can be pulled except drivers that were never released; raises PullError as containerd does.

    A driver's tag starts with its version: `570.86.10-ubuntu22.04`. Only the branch is looked at.
    """
    if image_name(image) != DRIVER_IMAGE or "@" in image:
        return
    branch = image_tag(image).split("-")[0].split(".")[0]
    if branch.isdecimal() and (int(branch) in OLD_BRANCHES or int(branch) in BRANCHES):
        return
    full = image if image_tag(image) else f"{image}:latest"
    raise PullError(
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{full}": '
        f'failed to resolve reference "{full}": {full}: not found'
    )


def program_of(image: str, command: Sequence[str], args: Sequence[str]) -> Program:
    """The local program for one container; raises CreateError naming all there is."""
    name = image_name(image)
    if name == DRIVER_IMAGE:
        return _driver(image, command, args)
    argv = [*(command or _entrypoint(name)), *args]
    if not argv:
        raise CreateError(f'image "{image}" has no entrypoint here and the pod names no command; {AVAILABLE}')
    found = find_builtin(argv)
    if found is None or (argv[0] == "gpuready" and name != OWN_IMAGE):
        raise CreateError(f'image "{image}" with command {argv} is not known here; {AVAILABLE}')
    return found


def find_builtin(argv: Sequence[str]) -> Program | None:
    """The local program behind a command line that stands alone, as in exec probes."""
    name, rest = PurePosixPath(argv[0]).name, tuple(argv[1:])
    if name == "gpuready":
        return Program((sys.executable, "-m", "gpuready.cli", *rest))
    if name == "nvidia-smi":
        return Program((sys.executable, "-m", "gpuready_sim.runtime.nvidia_smi", *rest), needs=NVIDIA_SMI)
    if name == "gpu-hold":
        return Program((sys.executable, "-m", "gpuready_sim.runtime.gpu_hold", *rest))
    if name == "sleep" and len(rest) == 1:
        return Program(("/bin/sleep", *rest))
    if name in ("true", "false") and not rest:
        return Program((f"/bin/{name}",))
    if name == "printenv" and len(rest) <= 1:
        return Program(("/usr/bin/printenv", *rest))
    return None


def image_name(image: str) -> str:
    """Last path element without tag and digest: "reg:5000/a/gpuready:1@sha256:..." -> "gpuready"."""
    return image.split("@")[0].rsplit("/", 1)[-1].split(":")[0]


def image_tag(image: str) -> str:
    return image.split("@")[0].rsplit("/", 1)[-1].partition(":")[2]


def _entrypoint(name: str) -> list[str]:
    return ["gpuready"] if name == OWN_IMAGE else []


def _driver(image: str, command: Sequence[str], args: Sequence[str]) -> Program:
    words = [*command, *args]
    if words and PurePosixPath(words[0]).name == "nvidia-driver":
        words = words[1:]
    if words != ["init"]:
        raise CreateError(
            f'image "{image}" knows "nvidia-driver init" only, not {[*command, *args]}; {AVAILABLE}'
        )
    version = image_tag(image).split("-")[0]
    return Program((sys.executable, "-m", "gpuready_sim.runtime.driver_container", version))
