"""How one version of containerd reads and merges its configuration files. Pure.

Source: containerd v1.6.20, v1.7.24 services/server/config/config.go; v2.0.2, v2.2.1, v2.3.0
cmd/containerd/server/config/config.go and plugins/cri/{runtime,images}/plugin.go; held to the real programs'
`config dump` by tests/node/test_containerd_merge.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

CRI_V1, CRI_V2 = "cri", "io.containerd.grpc.v1.cri"
CRI_RUNTIME, CRI_IMAGES = "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"
RUNC_TYPE = "io.containerd.runc.v2"
_RELEASE = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True)
class Rules:
    """What differs between versions.

    runc                the built-in table of that runtime, as far as it says anything
    newest              highest config version that it reads
    deep                plugin sections are merged key by key; else the later file's whole section counts
    each_file_migrated  every file is brought to the newest version by itself; else the merged result once
    refuses_higher      a file of a higher version than the root's keeps the daemon from starting
    knows_cdi           has `enable_cdi`; `cdi_by_default` its value when nobody sets it
    """

    release: tuple[int, int, int]
    newest: int
    deep: bool
    each_file_migrated: bool = False
    refuses_higher: bool = False
    knows_cdi: bool = True
    cdi_by_default: bool = True
    runc: Mapping[str, str] = field(default_factory=lambda: {"runtime_type": RUNC_TYPE})

    @property
    def name(self) -> str:
        return ".".join(str(part) for part in self.release)

    @property
    def dump(self) -> str:
        """Subcommand of `containerd config` that prints what the daemon would run with.

        Until 2.1 `dump` leaves files of version 2 as they are, so that their CRI section seems to be missing,
        and `migrate` prints all.
        """
        return "migrate" if (2,) <= self.release < (2, 2) else "dump"

    def key_of(self, version: int) -> str:
        """The section of the CRI plugin's runtime settings in a file of this config version."""
        if version >= 3:
            return CRI_RUNTIME
        return CRI_V2 if version == 2 else CRI_V1


def rules_of(version: str) -> Rules | None:
    """`version` as the program or the kubelet tells it ("containerd://1.7.24", "v2.2.1"); None: unknown."""
    release = release_of(version)
    if release is None:
        return None
    if release < (1, 7):
        return Rules(release, newest=2, deep=False, knows_cdi=False, cdi_by_default=False)
    if release < (2,):
        runc = {"runtime_type": RUNC_TYPE, "sandbox_mode": "podsandbox"}
        return Rules(release, newest=2, deep=False, cdi_by_default=False, runc=runc)
    if release < (2, 3):
        return Rules(release, newest=3, deep=True)
    return Rules(release, newest=4, deep=True, each_file_migrated=True, refuses_higher=True)


def release_of(version: str) -> tuple[int, int, int] | None:
    found = _RELEASE.search(version)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None
