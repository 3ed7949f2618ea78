from __future__ import annotations

import json
import time
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
from gpuready.api.sharing_limits import MAX_REPLICAS
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
flags: {unheardOf: 1}
x-mine: {timeSlicing: 1}
"""
    parsed = parse_with_warnings(text)

    assert parsed.warnings == (
        "flags.unheardOf: unknown, ignored",
        "x-mine: unknown, ignored",
        "resources: ignored, resources cannot be renamed",
        "sharing.timeSlicing.resources[0].rename: ignored, resources cannot be renamed",
        "sharing.timeSlicing.resources[0].devices: ignored, all devices are shared",
    )
    assert parsed.config.to_json()["sharing"] == {
        "timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}
    }


@pytest.mark.parametrize("section", ["{}", "{resources: []}", "{resources: [{name: gpu, replicas: 2}]}"])
def test_mps_is_refused_as_by_the_plugin(section: str) -> None:
    with pytest.raises(PolicyError, match="sharing by MPS is not supported yet; use sharing"):
        parse_plugin_config(f"sharing: {{mps: {section}}}")


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
        *(
            pytest.param(
                resources("{name: nvidia.com/gpu, replicas: " + word + "}"),
                f"sharing.timeSlicing.resources[0].replicas: {word} is not a whole number",
                id=word,
            )
            for word in (".nan", ".inf", "-.inf")
        ),
        pytest.param(
            resources("{name: nvidia.com/gpu, replicas: 2}", "{name: gpu, replicas: 4}"),
            "sharing.timeSlicing.resources[1].name: nvidia.com/gpu is listed twice",
            id="a resource twice",
        ),
        pytest.param(
            resources("{name: nvidia.com/GPU!, replicas: 2}"),
            'sharing.timeSlicing.resources[0].name: "nvidia.com/GPU!" is not a resource of a GPU',
            id="no resource name",
        ),
        *(
            pytest.param(
                resources(f"{{name: {name}, replicas: 2}}"),
                "is not a resource of a GPU: nvidia.com/gpu or nvidia.com/mig-*",
                id=f"never offered: {name}",
            )
            for name in (
                "nvidia.com/gpus",
                "nvidia.com/gpu.shared",
                "example.com/foo",
                "nvidia.com/mig-",
                "nvidia.com/mig-*",
                "nvidia.com/mig-" + "1" * 60,
                '"nvidia.com/gpu\\n"',
            )
        ),
        *(
            pytest.param(
                resources(f"{{name: nvidia.com/gpu, replicas: {replicas}}}"),
                f"sharing.timeSlicing.resources[0].replicas: {replicas} is not {MAX_REPLICAS} or less",
                id=f"{replicas} replicas",
            )
            for replicas in (MAX_REPLICAS + 1, 10**9)
        ),
        pytest.param(
            resources("{name: nvidia.com/gpu, replicas: 99999999999999999999}"),
            "does not fit into 64 bits",
            id="a number of 20 digits",
        ),
        pytest.param(
            "timeSlicing: {resources: []}",
            "timeSlicing: is no key here; it belongs under sharing",
            id="sharing left out",
        ),
        pytest.param(
            "share: {}",
            "share: is no key; allowed: flags, imex, sharing, version",
            id="an unknown key",
        ),
        pytest.param(
            "sharing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}",
            "sharing.resources: is no key; allowed: mps, timeSlicing",
            id="a level left out",
        ),
        pytest.param(
            "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, renameByDefault: true}]}}",
            "sharing.timeSlicing.resources[0].renameByDefault: is no key; allowed: name, replicas",
            id="a key one level too deep",
        ),
        pytest.param(
            "sharing: {timeSlicing: {resources: []}}\nSHARING: {}",
            'SHARING: is the same key as "sharing"; keep one of them',
            id="a key in two cases",
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
        pytest.param("sharing: 3", "sharing: 3 is not a map", id="a number for a section"),
    ],
)
def test_a_mistake_names_path_value_and_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_plugin_config(text)

    assert message in caught.value.what


@pytest.mark.parametrize(
    "name", ["gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.10gb.me", "nvidia.com/mig-7g.80gb"]
)
def test_what_a_gpu_can_be_offered_as_may_be_shared(name: str) -> None:
    assert parse_plugin_config(resources(f"{{name: {name}, replicas: {MAX_REPLICAS}}}")).shared


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{BOMB}sharing: {{timeSlicing: {{resources: *a8}}}}", id="a bomb"),
        pytest.param(resources(*["x"] * 9000), id="9,000 wrong entries"),
        pytest.param("".join(f"k{n}: 1\n" for n in range(4000)), id="4,000 unknown keys"),
        pytest.param("version: " + "v" * 300_000, id="a long text"),
        pytest.param("k" * 100_000 + ": 1", id="a long key"),
        pytest.param("? " + "k" * 100_000 + "\n: 1\n? " + "k" * 100_000 + "\n: 2", id="a long key twice"),
        pytest.param("sharing: [" + "x, " * 20_000 + "]", id="20,000 values"),
        pytest.param("version: " + "[" * 90 + "]" * 90, id="nested"),
        pytest.param("version: !!int x", id="no number"),
        pytest.param("version: \ud800", id="half a character"),
        pytest.param("version: !!set {a}", id="a set"),
    ],
)
def test_a_hostile_text_costs_little_and_says_little(text: str) -> None:
    before = time.process_time()
    with pytest.raises(PolicyError) as caught:
        parse_plugin_config(text)

    assert time.process_time() - before < 2
    assert len(str(caught.value)) < 1500
    assert caught.value.next_step


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
