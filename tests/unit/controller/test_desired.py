"""What the control plane wants of a node, and what a wrong sharing configuration does not do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuready import names
from gpuready.api.policy import parse_policy
from gpuready.controller.nodes.desired import ConfigSource, desired_spec
from gpuready.operands.contract import Refusal

SHARED = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 5}]}}\n"


def policy(config: str = "sharing", default: str = "") -> Any:
    plugin = {"config": {"name": config, "default": default}} if config else {}
    return parse_policy({"metadata": {"name": "p"}, "spec": {"devicePlugin": plugin}})


def spec(
    *,
    label: str = "",
    data: dict[str, str] | None = None,
    last: dict[str, Any] | None = None,
    config: str = "sharing",
    default: str = "",
) -> dict[str, Any]:
    labels = {names.PLUGIN_CONFIG_LABEL: label} if label else {}
    source = ConfigSource(config, data) if config else None
    current = {"devicePlugin": last} if last else {}
    wanted = desired_spec(
        policy(config, default), labels, source, current, runs_plugin=True, writes_feature_labels=True
    )
    return wanted["devicePlugin"]


def test_without_a_configmap_every_gpu_is_exclusive():
    plugin = spec(config="")
    assert plugin["config"] == {"version": "v1"}
    assert "error" not in plugin


def test_a_node_is_told_why_its_device_plugin_is_not_run():
    refusal = Refusal("EnvInvalid", "MIG_STRATEGY=banana", "correct the value")
    wanted = desired_spec(
        policy(""),
        {},
        None,
        {},
        runs_plugin=False,
        plugin_refusal=refusal,
        writes_feature_labels=True,
    )
    assert wanted["devicePlugin"]["enabled"] is False
    assert wanted["devicePlugin"]["refused"] == {
        "reason": "EnvInvalid",
        "message": "MIG_STRATEGY=banana",
        "nextStep": "correct the value",
    }


def test_a_node_is_told_which_jobs_are_nvidias():
    wanted = desired_spec(
        policy(""),
        {},
        None,
        {},
        runs_plugin=False,
        runs_original_plugin=True,
        writes_gates=False,
        proves_cuda=False,
        writes_feature_labels=False,
    )
    assert (wanted["devicePlugin"]["enabled"], wanted["devicePlugin"]["original"]) == (False, True)
    assert wanted["gates"] == {"enabled": False}
    assert wanted["cuda"] == {"enabled": False}
    assert wanted["featureLabels"] == {"enabled": False}


def test_the_nodes_label_picks_the_key():
    plugin = spec(label="five", data={"five": SHARED, "other": "version: v1"})
    assert plugin["config"]["sharing"]["timeSlicing"]["resources"][0]["replicas"] == 5
    assert plugin["configName"] == "five"


def test_the_default_key_serves_unlabelled_nodes():
    assert spec(default="five", data={"five": SHARED})["configName"] == "five"


def test_an_unlabelled_node_without_a_default_shares_nothing():
    assert spec(data={"five": SHARED})["config"] == {"version": "v1"}


@pytest.mark.parametrize(
    ("asked", "reason", "mentions"),
    [
        pytest.param(
            {"data": None}, "ConfigMapMissing", ["gpu-operator/sharing", "fvie"], id="no such ConfigMap"
        ),
        pytest.param(
            {"data": {"five": SHARED, "ten": SHARED}},
            "ConfigKeyMissing",
            ["fvie", "five", "ten"],
            id="misspelt key",
        ),
        pytest.param(
            {"data": {"fvie": "sharing: ["}}, "ConfigInvalid", ["gpu-operator/sharing", "fvie"], id="not YAML"
        ),
        pytest.param(
            {"data": {"fvie": SHARED.replace("5", "1")}}, "ConfigInvalid", ["replicas", "1"], id="one replica"
        ),
        pytest.param({"data": {"fvie": "version: v2"}}, "ConfigInvalid", ["v2", "v1"], id="unknown version"),
        pytest.param(
            {"data": {"fvie": SHARED.replace("5", "3001")}}, "ConfigInvalid", ["3001", "3000"], id="too many"
        ),
        pytest.param(
            {"data": {"fvie": SHARED.replace("timeSlicing", "mps")}}, "ConfigInvalid", ["MPS"], id="MPS"
        ),
        pytest.param(
            {"data": {"fvie": SHARED.replace("5", "!!int x")}}, "ConfigInvalid", ["line 2"], id="no number"
        ),
    ],
)
def test_a_wrong_configuration_keeps_the_last_good_and_says_why(asked, reason, mentions):
    good = spec(label="five", data={"five": SHARED})
    plugin = spec(label="fvie", last=good, **asked)
    assert plugin["config"] == good["config"]
    assert plugin["error"]["reason"] == reason
    for word in mentions:
        assert word in plugin["error"]["message"]
    assert plugin["error"]["nextStep"]
    assert plugin["requested"] == "fvie"


def test_without_a_last_good_there_is_no_configuration_at_all():
    plugin = spec(label="typo", data={"five": SHARED})
    assert "config" not in plugin
    assert plugin["available"] == ["five"]


def test_a_label_without_a_configmap_in_the_policy_is_said():
    assert spec(label="five", config="")["error"]["reason"] == "ConfigNotNamed"


def test_a_repaired_configuration_clears_the_error():
    broken = spec(label="five", data={"five": "sharing: ["})
    assert "error" not in spec(label="five", data={"five": SHARED}, last=broken)


def test_a_configuration_that_many_nodes_ask_for_is_read_once():
    source = ConfigSource("sharing", {"shared": SHARED, "wrong": "version: v7"})
    keys = ("shared", "shared", "wrong", "wrong")

    first, second, refused, again = (
        desired_spec(
            policy(),
            {names.PLUGIN_CONFIG_LABEL: key},
            source,
            {},
            runs_plugin=True,
            writes_feature_labels=True,
        )["devicePlugin"]
        for key in keys
    )

    assert first["config"] is second["config"]
    assert refused["error"] is again["error"]


def test_of_thousands_of_long_keys_a_node_is_told_the_nearest():
    """All of them would not fit into etcd, and nobody would read them."""
    data = {f"{number:04}-{'x' * 240}": SHARED for number in range(4_500)} | {"eight-shares": SHARED}

    plugin = spec(label="eight-share", data=data)

    assert "eight-shares" in plugin["available"]
    assert len(plugin["available"]) == 10
    assert len(json.dumps(plugin)) < 8_000
    assert len(plugin["error"]["message"]) <= 1024


def test_a_short_list_of_keys_is_whole_and_of_a_longer_one_the_rest_is_counted():
    few = spec(label="typo", data=dict.fromkeys(("five", "ten"), SHARED))
    many = spec(label="k1", data={f"k{number}x": SHARED for number in range(14)})

    assert "it has 'five', 'ten'" in few["error"]["message"]
    assert few["error"]["message"].endswith("'ten'")
    assert many["error"]["message"].endswith(" and 4 more")
