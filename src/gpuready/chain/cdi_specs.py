"""Do the CDI names of this node resolve: what is wrong with the spec files, each cause by its own name.

Pure. Facts: the files as they lie there (`node/links/cdi_specs.py` reads them), and the toolkit's own record
of them. The file that counts is the one on the disk, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpuready import names
from gpuready.chain.device_plugin import Problem
from gpuready.chain.wording import counted

# Why a spec is not as it should be, as the toolkit's record has it; "" = the node is not as it was.
UNWRITABLE, NAMES_TAKEN = "Unwritable", "NamesTaken"
_MOST_NAMED = 3


@dataclass(frozen=True)
class SpecFile:
    """One file of NVIDIA's kinds.

    refused  why no runtime takes it; then its devices do not exist
    missing  host paths that it names and that are not there
    """

    path: str
    kind: str = ""
    refused: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeptSpec:
    """What the toolkit says of the spec of one kind: written once, and perhaps of an earlier state.

    cause   UNWRITABLE, NAMES_TAKEN or ""
    others  the files that define its names too
    """

    kind: str
    file: str
    is_written: bool = True
    stale: bool = False
    reason: str = ""
    cause: str = ""
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Crossed:
    """files of one directory that define the same `count` names; `example` is one of them."""

    files: tuple[str, ...]
    example: str
    count: int = 1


@dataclass(frozen=True)
class SpecFacts:
    """unread  (directory, why) that could not be read
    there   path of every spec file, also of those of others
    """

    files: tuple[SpecFile, ...] = ()
    kept: tuple[KeptSpec, ...] = ()
    crossed: tuple[Crossed, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()
    there: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SpecProblem:
    """stops_pods  a pod that gets its GPU from the device plugin would not start
    file        the one spec file that it is about, "" = none, or several
    """

    problem: Problem
    stops_pods: bool = False
    file: str = ""


def problems_of(facts: SpecFacts) -> list[SpecProblem]:
    """What stops pods first, then the most telling first; [] = every name resolves."""
    found = [
        *_unread(facts.unread),
        *_crossed(facts.crossed),
        *_kept(facts.kept),
        *_gone(facts),
        *_refused(facts.files),
        *_without_host_paths(facts),
    ]
    return sorted(found, key=lambda each: not each.stops_pods)


def _unread(unread: Iterable[tuple[str, str]]) -> Iterator[SpecProblem]:
    for directory, why in unread:
        step = f"make {directory} a directory that root can read"
        yield SpecProblem(Problem("CdiDirectoryUnreadable", f"{directory} cannot be read: {why}", step))


def _crossed(crossed: Iterable[Crossed]) -> Iterator[SpecProblem]:
    for each in crossed:
        more = f" and {each.count - 1} more" if each.count > 1 else ""
        said = f"{' and '.join(each.files)} both define {each.example}{more}: no runtime takes either"
        step = f"remove {_foreign(each.files)}; a name may stand in one file of a directory"
        problem = Problem("CdiNameConflict", said, step)
        yield SpecProblem(problem, each.example.startswith(f"{names.PLUGIN_CDI_KIND}="))


def _foreign(files: Sequence[str]) -> str:
    ours = (names.PLUGIN_CDI_FILE, names.GPU_CDI_FILE, names.MANAGEMENT_CDI_FILE)
    return next((file for file in reversed(files) if file not in ours), files[-1])


def _kept(kept: Iterable[KeptSpec]) -> Iterator[SpecProblem]:
    for each in kept:
        if each.reason:
            yield SpecProblem(_kept_problem(each))


def _kept_problem(kept: KeptSpec) -> Problem:
    if kept.cause == UNWRITABLE:
        folder = kept.file.rpartition("/")[0]
        left = "; the one of before stays" if kept.is_written else ""
        said = f"the CDI spec of {kept.kind} is not written anew: {kept.reason}{left}"
        step = f"make room in, or make writable, the file system of {folder}; it is then written by itself"
        return Problem("CdiSpecNotWritten", said, step)
    if kept.cause == NAMES_TAKEN:
        said = f"the CDI spec of {kept.kind} gives way: {kept.reason}"
        step = f"remove {' and '.join(kept.others)}: {kept.file} then defines them all"
        return Problem("CdiNamesTaken", said, step)
    if kept.stale:
        said = f"the CDI spec of {kept.kind} ({kept.file}) is of an earlier state: {kept.reason}"
        return Problem("CdiSpecStale", said, _WRITTEN_ANEW)
    said = f"there is no CDI spec of {kept.kind} ({kept.file}): {kept.reason}"
    return Problem("CdiSpecMissing", said, _WRITTEN_ANEW)


_WRITTEN_ANEW = "mend what it names and the spec is written anew; on the node: gpuready cdi check"


def _gone(facts: SpecFacts) -> Iterator[SpecProblem]:
    """Written, never marked, and not there: its keeper does not run, or is kept from it."""
    for each in facts.kept:
        if each.is_written and not each.reason and each.file not in facts.there:
            said = f"{each.file}, the CDI spec of {each.kind}, is gone and nobody writes it anew"
            step = (
                "look at the toolkit's pod on this node, or write it by hand: gpuready cdi generate --write"
            )
            yield SpecProblem(Problem("CdiSpecMissing", said, step))


def _refused(files: Iterable[SpecFile]) -> Iterator[SpecProblem]:
    for each in files:
        if each.refused:
            said = f"{each.path} is refused by every runtime: {each.refused[0]}"
            problem = Problem("CdiSpecRefused", said, f"correct or remove {each.path}", each.refused[1:])
            yield SpecProblem(problem, each.path == names.PLUGIN_CDI_FILE, each.path)


def _without_host_paths(facts: SpecFacts) -> Iterator[SpecProblem]:
    told = {each.file for each in facts.kept if each.reason}
    for each in facts.files:
        if each.missing and each.path not in told:
            shown = ", ".join(each.missing[:_MOST_NAMED])
            more = len(each.missing) - _MOST_NAMED
            listed = f"{shown} and {more} more" if more > 0 else shown
            said = f"{each.path} names {counted(len(each.missing), 'path')} not on the host: {listed}"
            step = f"write {each.path} anew with the program that made it, or put the files back"
            problem = Problem("CdiHostPathMissing", said, step)
            yield SpecProblem(problem, each.kind == names.PLUGIN_CDI_KIND, each.path)
