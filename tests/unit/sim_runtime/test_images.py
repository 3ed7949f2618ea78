"""Which images can be pulled: all, but for drivers that were never released."""

from __future__ import annotations

import pytest

from gpuready_sim.runtime import images
from gpuready_sim.runtime.errors import PullError


@pytest.mark.parametrize(
    "image",
    [
        pytest.param("nvcr.io/nvidia/driver:570.86.10-ubuntu22.04", id="a released branch"),
        pytest.param("nvcr.io/nvidia/driver:570-5.15.0-91-generic-ubuntu22.04", id="precompiled"),
        pytest.param("reg:5000/driver:470.256.02", id="an old branch, a registry with a port"),
        pytest.param("nvcr.io/nvidia/driver@sha256:0123", id="a digest says nothing of the version"),
        pytest.param("nginx:999", id="no driver"),
    ],
)
def test_it_can_be_pulled(image: str) -> None:
    images.pull(image)


@pytest.mark.parametrize(
    ("image", "asked"),
    [
        pytest.param("nvcr.io/nvidia/driver:999.1-ubuntu22.04", "", id="no such branch"),
        pytest.param("nvcr.io/nvidia/driver:5.x", "", id="no version"),
        pytest.param("nvcr.io/nvidia/driver", ":latest", id="no tag is latest"),
    ],
)
def test_a_driver_that_was_never_released_is_not_found(image: str, asked: str) -> None:
    with pytest.raises(PullError) as caught:
        images.pull(image)

    assert str(caught.value).startswith("rpc error: code = NotFound desc = failed to pull and unpack image")
    assert str(caught.value).endswith(f"{image}{asked}: not found")
