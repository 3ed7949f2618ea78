from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready.api.plugin_config import (
    PluginConfig,
    SharedResource,
    Sharing,
    SharingModes,
    parse_plugin_config,
    parse_with_warnings,
)
from gpuready.errors import PolicyError

TIME_SLICING = """
version: v1
sharing:
  timeSlicing:
    renameByDefault: true
    failRequestsGreaterThanOne: true
    resources:
    - name: nvidia.com/gpu
      replicas: 4
"""


def test_time_slicing_is_read() -> None:
    shared = parse_plugin_config(TIME_SLICING).shared

    assert shared is not None
    assert (shared.replicas_of("nvidia.com/gpu"), shared.replicas_of("nvidia.com/mig-1g.5gb")) == (4, 1)
    assert (shared.advertised("nvidia.com/gpu"), shared.fail_requests_greater_than_one) == (
        "nvidia.com/gpu.shared",
        True,
    )


@pytest.mark.parametrize("text", ["", "version: v1", 'version: ""', "sharing: {}"])
def test_a_text_without_sharing_shares_nothing(text: str) -> None:
    assert parse_plugin_config(text).shared is None
    assert parse_plugin_config(text).to_json() == {"version": "v1"}


def test_keys_match_whatever_their_case_as_in_the_original() -> None:
    assert parse_plugin_config(TIME_SLICING.replace("timeSlicing", "timeslicing")) == parse_plugin_config(
        TIME_SLICING
    )


def test_a_short_resource_name_gets_the_vendors_prefix() -> None:
    shared = parse_plugin_config(TIME_SLICING.replace("nvidia.com/gpu", "gpu")).shared

    assert shared is not None
    assert shared.resources[0].name == "nvidia.com/gpu"


def test_strategies_may_be_a_text_or_a_list() -> None:
    one = parse_plugin_config("flags: {plugin: {deviceListStrategy: 'cdi-cri,envvar'}}")
    other = parse_plugin_config("flags: {plugin: {deviceListStrategy: [cdi-cri, envvar]}}")

    assert one == other
    assert one.flags.plugin.device_list_strategy == ["cdi-cri", "envvar"]


def test_what_the_original_drops_is_dropped_with_a_warning() -> None:
    text = """
resources: {gpus: [{pattern: "*", name: mine}]}
sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2, rename: mine, devices: [0]}]}}
unheardOf: 1
"""
    parsed = parse_with_warnings(text)

    assert parsed.warnings == (
        "unheardOf: unknown, ignored",
        "resources: ignored, resources cannot be renamed",
        "sharing.timeSlicing.resources[0].rename: ignored, resources cannot be renamed",
        "sharing.timeSlicing.resources[0].devices: ignored, all devices are shared",
    )
    assert parsed.config.to_json()["sharing"] == {
        "timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}
    }


def test_mps_wins_over_time_slicing_and_gives_one_replica_per_container() -> None:
    section = "{resources: [{name: nvidia.com/gpu, replicas: %d}]}"
    shared = parse_plugin_config(f"sharing: {{timeSlicing: {section % 2}, mps: {section % 3}}}").shared

    assert shared is not None
    assert (shared.replicas_of("nvidia.com/gpu"), shared.fail_requests_greater_than_one) == (3, True)


def resources(*entries: str) -> str:
    return f"sharing: {{timeSlicing: {{resources: [{', '.join(entries)}]}}}}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("version: v2", 'version: "v2" is not v1', id="another version"),
        pytest.param("a: [", "cannot be read: the text line 2", id="no YAML"),
        pytest.param("[]", "is no map", id="no map"),
        pytest.param(
            "version: v1\nversion: v1", 'the key "version" stands here for the second', id="a key twice"
        ),
        pytest.param(
            "sharing: {timeSlicng: {resources: []}}",
            'sharing.timeSlicng: is no key; "timeSlicing" is meant?',
            id="a misspelt key",
        ),
        pytest.param(
            "sharing: {timeSlicing: {}}", "sharing.timeSlicing.resources: is required", id="nothing to share"
        ),
        pytest.param(
            resources("{name: nvidia.com/gpu, replicas: 1}"),
            "sharing.timeSlicing.resources[0].replicas: 1 is not 2 or more",
            id="one replica",
        ),
        pytest.param(
            resources("{name: nvidia.com/gpu, replicas: four}"),
            'sharing.timeSlicing.resources[0].replicas: "four" is not a whole number',
            id="a word for a number",
        ),
        pytest.param(
            resources("{name: nvidia.com/gpu, replicas: 2}", "{name: gpu, replicas: 4}"),
            "sharing.timeSlicing.resources[1].name: nvidia.com/gpu is listed twice",
            id="a resource twice",
        ),
        pytest.param(
            resources("{name: nvidia.com/GPU!, replicas: 2}"),
            'sharing.timeSlicing.resources[0].name: "nvidia.com/GPU!" is not a resource name',
            id="no resource name",
        ),
        pytest.param(
            "flags: {migStrategy: both}",
            'flags.migStrategy: "both" is not one of none, single, mixed',
            id="an unknown MIG strategy",
        ),
        pytest.param(
            "flags: {plugin: {deviceListStrategy: magic}}",
            'flags.plugin.deviceListStrategy[0]: "magic" is not one of envvar, volume-mounts',
            id="an unknown list strategy",
        ),
        pytest.param(
            "imex: {channelIDs: [3]}", "imex.channelIDs: [3] is not [] or [0]", id="another IMEX channel"
        ),
        pytest.param(
            "flags: {migStrategy: mixed}\nsharing: {mps: {resources: []}}",
            'flags.migStrategy: "mixed" is not none or single together with sharing.mps',
            id="MPS with MIG mixed",
        ),
        pytest.param("sharing: 3", "sharing: 3 is not a map", id="a number for a section"),
    ],
)
def test_a_mistake_names_path_value_and_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_plugin_config(text)

    assert message in caught.value.what


def sharings() -> st.SearchStrategy[Sharing]:
    entry = st.builds(
        SharedResource,
        name=st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"]),
        replicas=st.integers(2, 99),
    )
    unique = st.lists(entry, max_size=2, unique_by=lambda each: each.name)
    return st.builds(
        Sharing,
        rename_by_default=st.booleans(),
        fail_requests_greater_than_one=st.booleans(),
        resources=unique,
    )


@given(sharings())
def test_the_plugin_reads_what_the_controller_wrote(sharing: Sharing) -> None:
    config = PluginConfig(sharing=SharingModes(time_slicing=sharing))
    written: dict[str, Any] = config.to_json()

    assert parse_plugin_config(json.dumps(written)) == config
