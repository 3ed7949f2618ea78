from __future__ import annotations

from typing import Any

import pytest
from tests.unit.api.policies import policy, tutorial

from gpuready.api import images
from gpuready.api.policy import parse_policy
from gpuready.errors import PolicyError

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("block", "reference"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"version": "v0.17.0"}, None, id="version alone means ours"),
        pytest.param(
            {"repository": "r.example/x", "image": "plugin", "version": "v1"},
            "r.example/x/plugin:v1",
            id="all three",
        ),
        pytest.param(
            {"repository": "r.example/x", "image": "plugin", "version": DIGEST},
            f"r.example/x/plugin@{DIGEST}",
            id="a digest",
        ),
        pytest.param({"image": "r.example/plugin:v1"}, "r.example/plugin:v1", id="the whole reference"),
        pytest.param({"image": "r.example/x/plugin"}, "r.example/x/plugin", id="the whole, without a tag"),
        pytest.param({"image": "plugin"}, "plugin", id="an image that lies on the nodes"),
        pytest.param(
            {"image": "k8s-device-plugin"},
            "nvcr.io/nvidia/k8s-device-plugin:v0.19.3",
            id="the release's image",
        ),
        pytest.param(
            {"repository": "r.example/x"},
            "r.example/x/k8s-device-plugin:v0.19.3",
            id="missing parts of the release",
        ),
        pytest.param(
            {"image": "k8s-device-plugin", "version": "v1"},
            "nvcr.io/nvidia/k8s-device-plugin:v1",
            id="missing repository of the release",
        ),
        pytest.param(
            {"image": "r.example:5000/plugin", "version": "v1"}, "r.example:5000/plugin:v1", id="a port"
        ),
    ],
)
def test_the_image_of_an_operand_is_the_named_one_or_none(
    block: dict[str, Any], reference: str | None
) -> None:
    assert images.named_image(parse_policy(policy(devicePlugin=block)), "devicePlugin") == reference


def test_the_driver_of_a_policy_with_only_a_version_comes_from_the_release() -> None:
    image = images.driver_image(parse_policy(tutorial()), os_tag="ubuntu22.04")

    assert image == "nvcr.io/nvidia/driver:570.86.10-ubuntu22.04"


@pytest.mark.parametrize(
    ("block", "image"),
    [
        pytest.param(
            {"version": "570.86.10-ubuntu22.04"}, "nvcr.io/nvidia/driver:570.86.10-ubuntu22.04", id="has it"
        ),
        pytest.param({"version": DIGEST}, f"nvcr.io/nvidia/driver@{DIGEST}", id="a digest"),
        pytest.param(
            {"image": "r.example/driver:1"}, "r.example/driver:1-ubuntu22.04", id="the whole reference"
        ),
    ],
)
def test_the_os_is_appended_to_the_drivers_tag_once(block: dict[str, Any], image: str) -> None:
    assert images.driver_image(parse_policy(policy(driver=block)), os_tag="ubuntu22.04") == image


def test_a_precompiled_driver_is_named_by_kernel_and_os() -> None:
    found = parse_policy(policy(driver={"version": "570", "usePrecompiled": True}))

    image = images.driver_image(found, os_tag="ubuntu22.04", kernel="5.15.0-91-generic")
    assert image == "nvcr.io/nvidia/driver:570-5.15.0-91-generic-ubuntu22.04"


def test_the_operators_environment_stands_in_for_a_policy_that_says_nothing() -> None:
    env = {"DRIVER_IMAGE": "mirror/driver:1"}

    assert images.external_image(parse_policy(policy()), "driver", env) == "mirror/driver:1"
    assert images.external_image(parse_policy(policy(driver={"version": "2"})), "driver", env).endswith(":2")


def test_an_image_that_nobody_names_is_an_error() -> None:
    with pytest.raises(PolicyError, match="no image is known for vgpuManager"):
        images.external_image(parse_policy(policy()), "vgpuManager")


def test_every_component_of_the_table_is_a_block_of_the_policy() -> None:
    empty = parse_policy(policy())

    assert [images.named_image(empty, component) for component in images.RELEASES] == [None] * len(
        images.RELEASES
    )


@pytest.mark.parametrize(
    ("os_id", "version_id", "tag"),
    [
        ("ubuntu", "22.04", "ubuntu22.04"),
        ("rhel", "9.4", "rhel9.4"),
        ("rhel", "10.1", "rhel10"),
        ("rocky", "9.4", "rocky9"),
        ("sles", "15.5", "sles15.5"),
    ],
)
def test_the_os_tag_follows_the_distribution(os_id: str, version_id: str, tag: str) -> None:
    assert images.os_tag_of(os_id, version_id) == tag
