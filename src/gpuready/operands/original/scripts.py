"""Shell texts of the originals' pods: ours, and those of the original's releases that do the same job. Pure.

A pod of the original that runs is not replaced for the wording of a loop that waits. Its releases' texts are
known by their SHA-256.

Source: gpu-operator v1.11.0 to v26.7.0, assets/state-*/*_daemonset.yaml: each text is the same in all of
them, save the validator's, which changed with v25.10.0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

VALIDATIONS = "/run/nvidia/validations"
TOOLKIT_READY = f"{VALIDATIONS}/toolkit-ready"


def wait_for(gate: str, what: str) -> str:
    """Shell text that ends when the gate is open; it looks every second and says so every half minute."""
    return (
        f"n=0; until [ -e {gate} ]; do "
        f'[ $((n % 30)) -ne 0 ] || echo "waiting for {what}: {gate} is not there"; '
        "n=$((n + 1)); sleep 1; done"
    )


WAIT_FOR_TOOLKIT = wait_for(TOOLKIT_READY, "the container toolkit")


def install_module(component: str) -> str:
    """Shell text of a container beside the driver's, which builds one more module: "gds", "gdrcopy"."""
    return (
        "until [ -d /run/nvidia/driver/usr/src ] && lsmod | grep -q '^nvidia '; "
        f"do echo waiting for the driver; sleep 2; done; exec nvidia-{component}-driver install"
    )


ALL_PASSED = "echo all validations have passed; while :; do sleep 86400; done"

_OF_THE_ORIGINAL: Mapping[str, frozenset[str]] = {
    WAIT_FOR_TOOLKIT: frozenset(
        {
            "13e20c79dfaf97d22e14f726e7959ef3b660cb9fcc84649114df7103e566c92d",
            "f90f2a019c1f69d3541778996ca3d3375512dd12c1bea5ff8fc30e2c4e69db25",  # mig-manager's
        }
    ),
    ALL_PASSED: frozenset(
        {
            "a302665d1d9d01e8d48b02b355ea8ba4376585980156788037970237d24dc1fd",
            "8dbc9f97176b8687b048f8761b59047416763ede3ddb23faa944333a585dd3ab",  # before v25.10.0
        }
    ),
    install_module("gds"): frozenset({"a1d9a97c5253c4423be4f05a4ac0e07a1e521b70812e130587f7fc60fd37134a"}),
    install_module("gdrcopy"): frozenset(
        {"a2462b61c2d3d87c87518423eaa664358eafa061664608b99804175e9296629b"}
    ),
}


def does_the_same(ours: str, text: str) -> bool:
    """Whether `text` is a release's of the original in the place of this text of ours."""
    return hashlib.sha256(text.encode()).hexdigest() in _OF_THE_ORIGINAL.get(ours, ())


def in_our_words(text: str) -> str:
    """Our text in the place of a release's of the original; any other text as it is."""
    return next((ours for ours in _OF_THE_ORIGINAL if does_the_same(ours, text)), text)
