"""Facts about the node's CDI specs: the files as a runtime takes them, and the toolkit's record of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpuready import names
from gpuready.chain.cdi_specs import Crossed, KeptSpec, SpecFacts, SpecFile
from gpuready.gpu.cdi.installed import File, Installed, SpecReader
from gpuready.gpu.cdi.qualified import find_name
from gpuready.gpu.cdi.scan import missing_paths
from gpuready.gpu.tree import Tree
from gpuready.node.cdi.files import RECORD_NAME, read_record

# Of the specs that toolkit and device plugin keep. Those of claims come and go with their pods.
_KINDS = (names.GPU_CDI_KIND, names.MANAGEMENT_CDI_KIND, names.PLUGIN_CDI_KIND)
_VENDORS = tuple(f"{kind.partition('/')[0]}/" for kind in _KINDS)
_NVIDIA = "nvidia.com"
_MOST_PATHS = 2_000  # of one file: a real one has some hundred


class SpecLook:
    """Look as often as one likes: what has not changed is not read again."""

    def __init__(self, host: Tree, records: Path) -> None:
        self._host, self._record = host, records / RECORD_NAME
        self._reader = SpecReader(host)

    def paths(self) -> list[Path]:
        """What tells of a change."""
        return [*(self._host.resolve_if_possible(folder) for folder in names.CDI_DIRS), self._record]

    def look(self) -> SpecFacts:
        installed = self._reader.read()
        return SpecFacts(
            files=tuple(self._file(each) for each in installed.files if _is_nvidias(each)),
            kept=tuple(
                KeptSpec(kind, kept.file, bool(kept.digest), kept.stale, kept.reason, kept.cause, kept.others)
                for kind, kept in read_record(self._record).items()
            ),
            crossed=tuple(_crossed(installed)),
            unread=installed.unread,
            there=frozenset(file.path for file in installed.files),
        )

    def _file(self, file: File) -> SpecFile:
        missing: Iterable[str] = ()
        if file.kind.startswith(_VENDORS):
            missing = missing_paths(self._host, file.host_paths[:_MOST_PATHS])
        return SpecFile(file.path, file.kind, file.problems, tuple(missing))


def _is_nvidias(file: File) -> bool:
    """By its kind; what cannot be read, by its name."""
    vendor = file.kind.partition("/")[0]
    return vendor.endswith(_NVIDIA) if vendor else "nvidia" in file.path


def _crossed(installed: Installed) -> list[Crossed]:
    """Two files that share many names are told of once."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, files in installed.conflicts.items():
        parsed = find_name(name)
        if parsed and parsed.kind.partition("/")[0].endswith(_NVIDIA):
            found.setdefault(files, []).append(name)
    return [Crossed(files, min(shared), len(shared)) for files, shared in found.items()]
