"""Which way of handing out GPUs reaches a container under which runtime. Pure; one table.

A runtime that does not know CDI ignores the devices it is asked for: the container starts without its GPU,
and nobody says a word. Device plugin and toolkit both look here before they promise anything.

Source: real-parts.md §3 (run with real kubelets); containerd: CDI since 1.7, `enable_cdi` false by default
there and true from 2.0 on; CRI-O: always on since 1.23.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

CDI_CRI, CDI_ANNOTATIONS = "cdi-cri", "cdi-annotations"
_CDI = (CDI_CRI, CDI_ANNOTATIONS)
_NVIDIA_RUNTIME = "nvidia-container-runtime"
_FIRST_WITH_CDI = {"containerd": (1, 7), "cri-o": (1, 23)}


@dataclass(frozen=True)
class RunningRuntime:
    """The node's runtime as it answers for itself.

    cdi       it injects CDI devices; None = it does not say
    programs  behind its handlers
    """

    name: str
    version: str
    cdi: bool | None = None
    programs: Collection[str] = ()

    @property
    def injects(self) -> bool | None:
        """Does it inject CDI devices? None: nobody knows."""
        first = _FIRST_WITH_CDI.get(self.name)
        release = _release_of(self.version)
        if first and release and release < first:
            return False
        return True if self.name == "cri-o" else self.cdi

    @property
    def has_nvidia_runtime(self) -> bool:
        """NVIDIA's own runtime stands behind a handler: it reads annotations and injects by itself."""
        return any(_NVIDIA_RUNTIME in program for program in self.programs)

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True)
class Support:
    """usable  of the strategies asked for, in their order; () = a container would start without its GPU
    why     each of the others is not, one sentence
    next_step   what makes them usable
    """

    usable: tuple[str, ...]
    why: tuple[str, ...] = ()
    next_step: str = ""


def support(strategies: Sequence[str], runtime: RunningRuntime | None) -> Support:
    """runtime None: it has not answered; then nothing is known against anything."""
    if runtime is None or runtime.injects is not False:
        return Support(tuple(strategies))
    refused = [each for each in strategies if _is_ignored(each, runtime)]
    usable = tuple(each for each in strategies if each not in refused)
    return Support(usable, tuple(_why(each, runtime) for each in refused), _next_step(runtime))


def _is_ignored(strategy: str, runtime: RunningRuntime) -> bool:
    if strategy not in _CDI:
        return False
    return strategy == CDI_CRI or not runtime.has_nvidia_runtime


def _why(strategy: str, runtime: RunningRuntime) -> str:
    if _knows_cdi(runtime):
        return (
            f"{runtime} has enable_cdi = false: it ignores {strategy}, and containers start without their GPU"
        )
    return f"{runtime} knows no CDI: it ignores {strategy}, and containers start without their GPU"


def _next_step(runtime: RunningRuntime) -> str:
    if _knows_cdi(runtime):
        return "set enable_cdi = true in containerd's CRI section, or let the toolkit do it"
    return (
        "upgrade containerd to 1.7 or newer, or install NVIDIA's container runtime and set cdi.enabled: false"
    )


def _knows_cdi(runtime: RunningRuntime) -> bool:
    first, release = _FIRST_WITH_CDI.get(runtime.name), _release_of(runtime.version)
    return not (first and release and release < first)


def _release_of(version: str) -> tuple[int, int] | None:
    found = re.search(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None
