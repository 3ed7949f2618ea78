"""What of a policy makes the driver install itself anew."""

from __future__ import annotations

from typing import Any

import pytest

from gpuready import names
from gpuready.api.policy import parse_policy
from gpuready.operands.contract import ClusterView, NodeFacts
from gpuready.operands.driver.digest import config_digest
from gpuready.operands.driver.operand import OPERAND


def container(**changes: Any) -> dict[str, Any]:
    return {
        "name": "nvidia-driver-ctr",
        "image": "nvcr.io/nvidia/driver:570.86.10-ubuntu22.04",
        "command": ["nvidia-driver"],
        "args": ["init"],
        "env": [{"name": "KERNEL_MODULE_TYPE", "value": "auto"}, {"name": "NODE_NAME", "valueFrom": {}}],
        **changes,
    }


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"image": "nvcr.io/nvidia/driver:570.124.06-ubuntu22.04"}, id="another version"),
        pytest.param({"args": ["init", "--accept-license"]}, id="another argument"),
        pytest.param({"env": [{"name": "KERNEL_MODULE_TYPE", "value": "open"}]}, id="other modules"),
    ],
)
def test_another_driver_has_another_digest(changes):
    assert config_digest([container(**changes)]) != config_digest([container()])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"startupProbe": {"periodSeconds": 7}}, id="another probe"),
        pytest.param({"imagePullPolicy": "Always"}, id="another pull policy"),
        pytest.param({"resources": {"limits": {"cpu": "1"}}}, id="other resources"),
        pytest.param({"env": list(reversed(container()["env"]))}, id="another order"),
        pytest.param({"env": [*container()["env"], {"name": "UNSET", "value": ""}]}, id="an empty variable"),
    ],
)
def test_the_same_driver_has_the_same_digest(changes):
    assert config_digest([container(**changes)]) == config_digest([container()])


def test_the_same_driver_is_not_installed_anew_for_being_deployed_as_the_original_does_it():
    """`spec.gpuready.images` decides who deploys it, not which driver it is."""

    def digest(**site: str) -> str:
        named = {"repository": "example.org/nvidia", "image": "driver", "version": "570.86.10"}
        spec = {"driver": {**named, "env": [{"name": "A", "value": "1"}]}, "gpuready": site}
        asked = parse_policy({"spec": spec})
        labels = {
            names.DEPLOY_DRIVER: "true",
            names.OS_ID_LABEL: "ubuntu",
            names.OS_VERSION_LABEL: "22.04",
        }
        view = ClusterView("gpu-operator", "own:1", (NodeFacts("g1", labels),))
        (daemonset,) = [obj for obj in OPERAND.objects(asked, view) if obj["kind"] == "DaemonSet"]
        return str(daemonset["spec"]["template"]["metadata"]["labels"][names.DRIVER_CONFIG_LABEL])

    assert digest(images="own") == digest(images="asNamed")
