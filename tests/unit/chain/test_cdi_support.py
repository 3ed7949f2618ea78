"""Which runtime would start a container without the GPU that it was given."""

from __future__ import annotations

import pytest

from gpuready.chain.cdi_support import RunningRuntime, support

BOTH = ("cdi-annotations", "cdi-cri")
NVIDIA = ("", "/usr/local/nvidia/toolkit/nvidia-container-runtime")


@pytest.mark.parametrize(
    ("runtime", "usable"),
    [
        pytest.param(None, BOTH, id="it has not answered: nothing is known against it"),
        pytest.param(RunningRuntime("containerd", "1.6.20~ds1"), (), id="1.6 knows no CDI"),
        pytest.param(RunningRuntime("containerd", "1.7.24", cdi=False), (), id="1.7 with CDI off"),
        pytest.param(RunningRuntime("containerd", "1.7.24", cdi=True), BOTH, id="1.7 with CDI on"),
        pytest.param(RunningRuntime("containerd", "v2.2.1", cdi=True), BOTH, id="2.x"),
        pytest.param(RunningRuntime("containerd", "v2.2.1", cdi=False), (), id="2.x with CDI switched off"),
        pytest.param(RunningRuntime("cri-o", "1.34.2"), BOTH, id="CRI-O always injects"),
        pytest.param(
            RunningRuntime("containerd", "1.6.20", programs=NVIDIA),
            ("cdi-annotations",),
            id="NVIDIA's runtime reads annotations where containerd does not",
        ),
    ],
)
def test_a_strategy_that_the_runtime_ignores_is_not_used(runtime, usable):
    assert support(BOTH, runtime).usable == usable


def test_the_others_are_not_a_matter_of_cdi():
    runtime = RunningRuntime("containerd", "1.6.20")

    assert support(("envvar", "volume-mounts", "cdi-cri"), runtime).usable == ("envvar", "volume-mounts")


def test_what_is_refused_names_the_version_the_setting_and_the_way_out():
    off = support(("cdi-cri",), RunningRuntime("containerd", "1.7.24", cdi=False))
    old = support(("cdi-cri",), RunningRuntime("containerd", "1.6.20"))

    assert off.why[0].startswith("containerd 1.7.24 has enable_cdi = false: it ignores cdi-cri")
    assert "enable_cdi = true" in off.next_step
    assert old.why[0].startswith("containerd 1.6.20 knows no CDI: it ignores cdi-cri")
    assert "upgrade containerd to 1.7" in old.next_step
