"""Which configuration holds, and what happens to a bad one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready.api.plugin_config import parse_plugin_config
from gpuready.errors import PolicyError
from gpuready.node.root import Root
from gpuready.operands.device_plugin.config import Chosen, Effective, effective_of
from gpuready.operands.device_plugin.desired import choose
from gpuready.operands.device_plugin.settings import (
    ID_STRATEGIES,
    LIST_STRATEGIES,
    MIG_STRATEGIES,
    Settings,
)

SLICED = {
    "version": "v1",
    "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}},
}
BAD = {"version": "v2"}
ERROR = {"reason": "ConfigMissing", "message": "no key x", "nextStep": "use a or b"}


def test_the_environment_beats_the_configuration_beats_the_default() -> None:
    config = {
        "flags": {
            "migStrategy": "single",
            "plugin": {"deviceListStrategy": ["cdi-cri"], "passDeviceSpecs": True},
        }
    }
    settings = Settings(device_list_strategy=("envvar",), pass_device_specs=False)
    effective = effective_of(settings, config)

    assert effective.strategies == ("envvar",)
    assert effective.pass_device_specs is False
    assert effective.mig_strategy == "single"
    assert effective.id_strategy == "uuid"


@pytest.mark.parametrize(
    ("sharing", "replicas", "rename", "one_each"),
    [
        pytest.param({}, 1, False, False, id="none"),
        pytest.param(
            {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 10}]}},
            10,
            False,
            False,
            id="x10",
        ),
        pytest.param(
            {
                "timeSlicing": {
                    "renameByDefault": True,
                    "failRequestsGreaterThanOne": True,
                    "resources": [{"name": "nvidia.com/gpu", "replicas": 2}],
                }
            },
            2,
            True,
            True,
            id="renamed, one each",
        ),
        pytest.param(
            {"timeSlicing": {"resources": [{"name": "nvidia.com/mig-1g.5gb", "replicas": 2}]}},
            1,
            False,
            False,
            id="another resource",
        ),
    ],
)
def test_sharing(sharing: dict[str, Any], replicas: int, rename: bool, one_each: bool) -> None:
    effective = effective_of(Settings(), {"sharing": sharing})
    assert (effective.replicas, effective.rename_by_default, effective.one_each) == (
        replicas,
        rename,
        one_each,
    )


@pytest.mark.parametrize(
    ("config", "words"),
    [
        pytest.param({"version": "v2"}, "version: 'v2'", id="version"),
        pytest.param(
            {"flags": {"plugin": {"deviceListStrategy": "cdi"}}}, "allowed are envvar", id="strategy"
        ),
        pytest.param({"flags": "none"}, "flags: 'none'", id="no mapping"),
        pytest.param({"sharing": {"mps": {"resources": []}}}, "MPS", id="mps"),
        pytest.param(
            {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 1}]}}},
            "replicas: 1",
            id="1",
        ),
        pytest.param(
            {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 3001}]}}},
            "from 2 to 3000",
            id="3001",
        ),
    ],
)
def test_bad_configurations_are_named(config: dict[str, Any], words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        effective_of(Settings(), config)
    assert words in str(caught.value)


@given(
    name=st.sampled_from(["gpu", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/gpus", "a/b", ""]),
    replicas=st.integers(-1, 4) | st.integers(2999, 3002) | st.sampled_from([10**9, 2**63, True, "4", None]),
    mode=st.sampled_from(["timeSlicing", "TIMESLICING", "mps"]),
    flags=st.fixed_dictionaries(
        {},
        optional={
            "migStrategy": st.sampled_from([*MIG_STRATEGIES, "other", ""]),
            "plugin": st.fixed_dictionaries(
                {},
                optional={
                    "deviceListStrategy": st.sampled_from([*LIST_STRATEGIES, "cdi-cri,envvar", "", "x"]),
                    "deviceIDStrategy": st.sampled_from([*ID_STRATEGIES, "x"]),
                },
            ),
        },
    ),
)
def test_the_plugin_refuses_nothing_that_the_controller_accepts(name, replicas, mode, flags):
    asked = {"flags": flags, "sharing": {mode: {"resources": [{"name": name, "replicas": replicas}]}}}
    try:
        accepted = parse_plugin_config(json.dumps(asked)).to_json()
    except PolicyError:
        return

    effective = effective_of(Settings(), json.loads(json.dumps(accepted)))
    assert effective.replicas == (replicas if name.endswith("gpu") else 1)


class Node:
    """A node with an agent that writes wishes."""

    def __init__(self, folder: Path) -> None:
        self.root = Root(folder)
        self.settings = Settings(desired_dir="/run/gpuready/desired")
        self.path = self.root.join("/run/gpuready/desired/device-plugin.json")
        self.path.parent.mkdir(parents=True)
        self.chosen = Chosen()

    def wish(self, config: dict[str, Any] | None, boot: str = "boot-1", **more: Any) -> Chosen:
        self.path.write_text(
            json.dumps({"bootId": boot, "config": config, "configName": "any", "digest": "d", **more})
        )
        return self.look()

    def look(self) -> Chosen:
        self.chosen = choose(self.settings, self.root, "boot-1", self.chosen)
        return self.chosen


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_nothing_is_done_before_the_agent_has_spoken(node: Node) -> None:
    chosen = node.look()
    assert chosen.effective is None
    assert "not there yet" in chosen.waiting


def test_a_wish_of_an_earlier_boot_is_not_followed(node: Node) -> None:
    chosen = node.wish(SLICED, boot="boot-0")
    assert chosen.effective is None
    assert "boot" in chosen.waiting


def test_a_good_wish_is_followed(node: Node) -> None:
    chosen = node.wish(SLICED)
    assert chosen.effective == Effective(replicas=4)
    assert (chosen.name, chosen.digest, chosen.error) == ("any", "d", None)


@pytest.mark.parametrize("raw", [json.dumps({"bootId": "boot-1", "config": BAD}), "{", "[]", "", "null"])
def test_a_bad_wish_without_a_last_good_registers_nothing_and_says_why(node: Node, raw: str) -> None:
    node.path.write_text(raw)
    chosen = node.look()
    assert chosen.effective is None
    assert chosen.error is not None


@pytest.mark.parametrize("raw", [json.dumps({"bootId": "boot-1", "config": BAD}), "{"])
def test_a_bad_wish_keeps_the_last_good_and_shows_the_error(node: Node, raw: str) -> None:
    node.wish(SLICED)
    node.path.write_text(raw)
    chosen = node.look()
    assert chosen.effective == Effective(replicas=4)
    assert chosen.error is not None

    assert node.wish(SLICED).error is None


def test_the_controllers_error_is_shown_beside_its_last_good(node: Node) -> None:
    chosen = node.wish(SLICED, error=ERROR)
    assert chosen.effective == Effective(replicas=4)
    assert chosen.error is not None
    assert (chosen.error.reason, chosen.error.next_step) == ("ConfigMissing", "use a or b")


def test_an_error_without_a_configuration_waits_with_the_reason(node: Node) -> None:
    chosen = node.wish(None, error=ERROR)
    assert chosen.effective is None
    assert chosen.error is not None
    assert chosen.error.reason == "ConfigMissing"


def test_a_wish_that_vanishes_changes_nothing(node: Node) -> None:
    before = node.wish(SLICED)
    node.path.unlink()
    assert node.look() == before


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_without_an_agent_the_file_counts(tmp_path: Path, form: str) -> None:
    yaml = "version: v1\nsharing:\n  timeSlicing:\n    resources: [{name: nvidia.com/gpu, replicas: 4}]\n"
    text = json.dumps(SLICED) if form == "json" else yaml
    (tmp_path / "config.yaml").write_text(text)
    settings = Settings(config_file="/config.yaml")

    assert choose(settings, Root(tmp_path), "", Chosen()).effective == Effective(replicas=4)
    assert choose(Settings(), Root(tmp_path), "", Chosen()).effective == Effective()


def test_a_file_of_json_is_held_to_the_same_rules_as_one_of_yaml(tmp_path: Path) -> None:
    misplaced = {"version": "v1", "sharing": {"timeSlicing": {"replicas": 4}}}
    settings = Settings(config_file="/config.json")
    texts = (json.dumps(misplaced), "version: v1\nsharing:\n  timeSlicing:\n    replicas: 4\n")

    said = []
    for text in texts:
        (tmp_path / "config.json").write_text(text)
        said.append(choose(settings, Root(tmp_path), "", Chosen()).error)

    assert said[0] == said[1]
    assert said[0] is not None
    assert "sharing.timeSlicing.replicas" in said[0].message
