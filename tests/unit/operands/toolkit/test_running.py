"""What the running daemon knows, by its own answer."""

from __future__ import annotations

import pytest

from gpuready.node.cri import RuntimeAnswer
from gpuready.operands.toolkit.plan import Wanted
from gpuready.operands.toolkit.running import missing, running_of

WANTED = Wanted(("nvidia",), "/usr/bin/runc")
RUNTIMES = {"nvidia": {"options": {"BinaryName": "/usr/bin/runc"}}, "runc": {}}


def answer(**config: object) -> RuntimeAnswer:
    return RuntimeAnswer("containerd", "2.2.1", (), {"containerd": {"runtimes": RUNTIMES}, **config})


@pytest.mark.parametrize(
    ("config", "lacks"),
    [
        pytest.param({}, [], id="it says nothing of CDI"),
        pytest.param({"enableCDI": True, "cdiSpecDirs": ["/etc/cdi", "/var/run/cdi"]}, [], id="both"),
        pytest.param({"enableCDI": True, "cdiSpecDirs": ["/run/cdi/"]}, [], id="by its other name"),
        pytest.param({"enableCDI": False}, ["CDI switched off (enable_cdi = false)"], id="switched off"),
        pytest.param(
            {"enableCDI": True, "cdiSpecDirs": ["/etc/cdi"]},
            ["no CDI spec of /var/run/cdi (cdi_spec_dirs = ['/etc/cdi'])"],
            id="it does not read where our specs are",
        ),
    ],
)
def test_what_a_daemon_lacks_names_the_key(config, lacks):
    assert missing(running_of(answer(**config)), WANTED) == lacks


def test_without_cdi_nobody_asks_for_it():
    without = Wanted(("nvidia",), "/usr/bin/runc", cdi=False)

    assert missing(running_of(answer(enableCDI=False, cdiSpecDirs=[])), without) == []
