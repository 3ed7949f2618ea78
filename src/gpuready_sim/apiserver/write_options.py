"""What a request says about its write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpuready_sim.apiserver.requests import User


@dataclass
class WriteOptions:
    """
    validation  what becomes of unknown fields: Strict, Warn or Ignore
    patching    the object is what a patch has made, not what somebody sent
    user        who writes; None for the server itself
    untimed     the entry in managedFields says not when
    owning      the writer owns what it changes
    objections  what only a strict reader says of the body: fields that it says twice
    shown       the patch, as refusals print it; "" where they print the object
    warnings    collects texts for Warning headers
    """

    manager: str = "unknown"
    dry_run: bool = False
    validation: str = "Ignore"
    patching: bool = False
    user: User | None = None
    untimed: bool = False
    owning: bool = True
    objections: Sequence[str] = ()
    shown: str = ""
    warnings: list[str] = field(default_factory=list)
