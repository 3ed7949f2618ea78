"""A container's root: real directories down to each mount path, and there a symbolic link to the source.

Mounts cannot be stacked with links. What lies inside another mount is accepted when it is the same place
anyway, or when the outer mount belongs to the pod alone; otherwise it is refused.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gpuready_sim.runtime.errors import CreateError

DIRECTORIES = ("dev", "etc", "run", "tmp", "usr/bin", "usr/lib/x86_64-linux-gnu", "usr/lib64", "var")


@dataclass(frozen=True)
class Mount:
    """`private`: the source is the pod's own (an emptyDir), so links may be made inside it."""

    container_path: str
    source: Path
    private: bool = False


class ContainerRoot:
    """One container's root directory on the simulated node at `node_root`."""

    def __init__(self, path: Path, node_root: Path) -> None:
        self.path = path
        self._node_root = node_root
        self._mounts: dict[PurePosixPath, Mount] = {}

    def build(self, mounts: Iterable[Mount], *, privileged: bool) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        for name in DIRECTORIES:
            (self.path / name).mkdir(parents=True, exist_ok=True)
        (self.path / "var/run").symlink_to("../run")
        # A kernel is one for all containers of a node: they see its /proc and /sys.
        for name in ("proc", "sys"):
            self.mount(Mount(f"/{name}", self._node_root / name))
        if privileged:
            self.mount(Mount("/dev", self._node_root / "dev"))
        for mount in sorted(mounts, key=lambda m: len(PurePosixPath(m.container_path).parts)):
            self.mount(mount)

    def mount(self, mount: Mount) -> None:
        """Make the source visible at the container path; raises CreateError where links cannot do it."""
        place = self._place(mount.container_path)
        if not place.parts:
            raise CreateError(f'invalid mount path "{mount.container_path}": it is the whole root')
        outer = self._outer_of(place)
        if outer is not None and outer != place:
            self._mount_inside(mount, place, outer)
        else:
            _link(self.path / place, mount.source)
        self._mounts[place] = mount

    def mount_file(self, container_path: str, source: Path) -> None:
        """A file or device node that the runtime injects."""
        place = self._place(container_path)
        target = self.path / place
        if target.exists() and source.exists() and target.samefile(source):
            return  # a privileged container sees the node's device nodes already
        self.mount(Mount(container_path, source))

    def host_path(self, path: str) -> Path:
        """A path of the node as a path here."""
        return self._node_root / os.path.normpath(f"/{path}").lstrip("/")

    def inside(self, container_path: str) -> Path:
        return self.path / os.path.normpath(f"/{container_path}").lstrip("/")

    def _place(self, container_path: str) -> PurePosixPath:
        """Relative to the root; /var/run is /run, as in every image."""
        path = PurePosixPath(os.path.normpath(f"/{container_path}").lstrip("/"))
        if path.parts[:2] == ("var", "run"):
            path = PurePosixPath("run", *path.parts[2:])
        return path

    def _outer_of(self, place: PurePosixPath) -> PurePosixPath | None:
        return next((path for path in (place, *place.parents) if path in self._mounts), None)

    def _mount_inside(self, mount: Mount, place: PurePosixPath, outer: PurePosixPath) -> None:
        inner = self._mounts[outer].source / place.relative_to(outer)
        if inner.exists() and mount.source.exists() and inner.samefile(mount.source):
            return
        if not self._mounts[outer].private:
            raise CreateError(
                f"mount /{place} lies inside mount /{outer} and shows another place: "
                "the simulator cannot stack mounts; mount them beside each other"
            )
        _link(inner, mount.source)


def _link(target: Path, source: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink() or target.is_file():
        target.unlink()
    elif target.is_dir():
        shutil.rmtree(target)
    target.symlink_to(source)
