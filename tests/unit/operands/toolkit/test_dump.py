"""What containerd says of a change before it is made."""

from __future__ import annotations

from typing import Any

from gpuready.operands.toolkit.containerd.rules import CRI_RUNTIME
from gpuready.operands.toolkit.dump import lost
from gpuready.operands.toolkit.plan import Wanted

NOT_AS_DEFAULT = Wanted(("nvidia",), "/usr/bin/runc")


def dump(default: str) -> dict[str, Any]:
    return {"plugins": {CRI_RUNTIME: {"containerd": {"default_runtime_name": default}}}}


def test_a_default_runtime_that_was_ours_may_be_given_back():
    """CONTAINERD_SET_AS_DEFAULT is taken out of the policy."""
    assert list(lost(dump("nvidia"), dump("runc"), NOT_AS_DEFAULT)) == []


def test_a_default_runtime_of_others_is_not_lost():
    (told,) = lost(dump("kata"), dump("runc"), NOT_AS_DEFAULT)
    assert told.endswith("default_runtime_name would be lost")
