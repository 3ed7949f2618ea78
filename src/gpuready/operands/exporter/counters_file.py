"""The counters' CSV as a file that is followed: read anew when it changes, the last good one kept.

Never another file in its place: while the one that was asked for cannot be read, no DCGM field is shown and
it is said why.
"""

from __future__ import annotations

from collections.abc import Sequence
from errno import ENOENT
from os import strerror
from pathlib import Path

from gpuready.errors import UsageError
from gpuready.gpu.telemetry.model import Collection
from gpuready.log import get_logger
from gpuready.node.files import read_regular
from gpuready.node.root import Root
from gpuready.operands.exporter import counters as csv
from gpuready.operands.exporter.counters import Counters
from gpuready.operands.exporter.settings import BUILT_IN, NVML, Settings

MOST_LOGGED = 20
log = get_logger("exporter.counters")


class CountersFile:
    """counters   what is in force
    trouble    why nothing is; "" when something is
    kept       why the file as it is now is not, and an older one is; "" otherwise
    untold     its lines that are in force and that no GPU of this node tells anything of
    """

    def __init__(self, settings: Settings, root: Root) -> None:
        self._named = settings.collectors
        self._path = root.typed(settings.collectors)
        self._strict = settings.csv_strict
        self._dcgm = settings.source_in_use != NVML
        self._data: bytes | None = None
        self.counters = Counters()
        self.trouble = "not read yet"
        self.kept = ""
        self.untold: Sequence[csv.Problem] = ()
        self.reloads = -1

    @property
    def paths(self) -> list[Path]:
        return [self._path]

    @property
    def rejected_lines(self) -> tuple[str, ...]:
        return tuple(str(problem) for problem in self.counters.problems if problem.rejected)

    def compare(self, collection: Collection) -> None:
        """With what the GPUs told: a line that is right and has no value is said with its number, once.

        A file of ours is for all kinds of GPUs, and a GPU that is silent may be the one that tells it.
        """
        if self._named in BUILT_IN or collection.problem or collection.silent:
            return
        told = {each.field.id: each.field for each in collection.samples}
        untold = csv.unsupported(self.counters, collection.absent, told.values())
        fresh = [each for each in untold if each not in self.untold]
        self.untold = untold
        for each in fresh[:MOST_LOGGED]:
            log.info(
                "counter line without a value",
                line=each.line,
                metric=each.subject,
                cause=each.cause,
                next_step=each.suggestion,
            )

    def read(self, *, again: bool = False) -> bool:
        """True when other counters are in force now."""
        try:
            data = self._find()
            if data == self._data and not again:
                return False
            self._data = data
            found = csv.parse(data, dcgm=self._dcgm)
            if self._strict:
                csv.refuse(found, self._named)
            if self.counters.rows and not found.rows:
                raise UsageError(f"{self._named} names no field that can be exported")
        except (OSError, UsageError) as exc:
            self._refuse(exc)
            return False
        self.kept = ""
        self.trouble = "" if found.rows else f"{self._named} names no field that can be exported"
        if found == self.counters and self.reloads >= 0:
            return False
        self.counters = found
        self.reloads += 1
        for problem in found.problems[:MOST_LOGGED]:
            log.warning(
                "counter line not used" if problem.rejected else "counter line remarked on",
                line=problem.line,
                metric=problem.subject,
                cause=problem.cause,
                next_step=problem.suggestion,
            )
        if len(found.problems) > MOST_LOGGED:
            log.warning("and more lines like these", more=len(found.problems) - MOST_LOGGED)
        log.info("counters read", file=self._named, used=len(found.rows), rejected=found.rejected)
        return True

    def _find(self) -> bytes:
        """raises  OSError, UsageError"""
        path = self._path
        if path.is_dir():
            keys = [entry.name for entry in path.iterdir() if entry.is_file() and entry.name[0] != "."]
            path = path / csv.choose_key(keys)
        elif not path.exists() and self._named in BUILT_IN:
            return csv.shipped(Path(self._named).name)
        elif not path.exists() and (there := _keys_beside(path)):
            raise FileNotFoundError(ENOENT, f"{strerror(ENOENT)}; beside it: {', '.join(there)}")
        return read_regular(path)

    def _refuse(self, exc: OSError | UsageError) -> None:
        why = str(exc) if isinstance(exc, UsageError) else f"{self._named}: {exc.strerror}"
        if isinstance(exc, OSError):
            self._data = None  # when it is back as it was, it is taken up all the same
        said = self.kept or self.trouble
        if self.counters.rows:
            self.kept = why
        else:
            self.trouble = why
        if why != said:
            log.error("counters not taken up", file=self._named, reason=why, kept=len(self.counters.rows))


def _keys_beside(path: Path) -> list[str]:
    """The names in a file's directory; a mounted ConfigMap's own links are none of its keys."""
    try:
        return sorted(entry.name for entry in path.parent.iterdir() if entry.name[0] != ".")[:MOST_LOGGED]
    except OSError:
        return []
