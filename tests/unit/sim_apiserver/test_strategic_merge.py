"""Strategic merge patches: lists that are maps, directives, element order."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready_sim.apiserver.json_patch import PatchError, merge_patch
from gpuready_sim.apiserver.schemas import schema_of
from gpuready_sim.apiserver.strategic_merge import strategic_merge

Object = dict[str, Any]


def patched(live: Object, patch: Object, kind: str = "Pod", group: str = "") -> Object:
    before = copy.deepcopy(live)
    result = strategic_merge(live, patch, schema_of(group, "v1", kind))
    assert live == before
    return result


def containers(*items: Object, **more: Any) -> Object:
    return {"spec": {"containers": list(items), **more}}


def test_a_container_is_found_by_its_name_and_new_ones_follow_the_patch() -> None:
    live = containers({"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"})

    after = patched(live, containers({"name": "a", "image": "2"}, {"name": "c", "image": "1"}))

    assert after == containers(
        {"name": "a", "image": "2", "args": ["x"]}, {"name": "c", "image": "1"}, {"name": "b", "image": "1"}
    )


def test_an_atomic_list_is_replaced() -> None:
    live = containers({"name": "a", "args": ["x"]}, tolerations=[{"key": "a"}])

    after = patched(live, containers({"name": "a", "args": ["y"]}, tolerations=[{"key": "b"}]))

    assert after == containers({"name": "a", "args": ["y"]}, tolerations=[{"key": "b"}])


def test_a_null_deletes_and_is_not_stored() -> None:
    live = {"metadata": {"labels": {"a": "1", "b": "2"}}}

    assert patched(live, {"metadata": {"labels": {"a": None}, "annotations": {"x": None, "y": "z"}}}) == {
        "metadata": {"labels": {"b": "2"}, "annotations": {"y": "z"}}
    }


def test_elements_are_deleted_by_key() -> None:
    live = containers({"name": "a"}, {"name": "b"})

    assert patched(live, containers({"name": "a", "$patch": "delete"})) == containers({"name": "b"})


def test_a_list_can_be_replaced_as_a_whole() -> None:
    live = containers({"name": "a"}, {"name": "b"})

    assert patched(live, containers({"name": "c"}, {"$patch": "replace"})) == containers({"name": "c"})


def test_a_map_can_be_replaced_as_a_whole() -> None:
    live = {"metadata": {"labels": {"a": "1", "b": "2"}}}

    assert patched(live, {"metadata": {"labels": {"$patch": "replace", "c": "3"}}}) == {
        "metadata": {"labels": {"c": "3"}}
    }
    assert patched(live, {"metadata": {"labels": {"$patch": "delete"}}}) == {"metadata": {"labels": {}}}


def test_finalizers_are_joined_and_deleted_by_value() -> None:
    live = {"metadata": {"finalizers": ["a", "b"]}}

    assert patched(live, {"metadata": {"finalizers": ["b", "c"]}}) == {
        "metadata": {"finalizers": ["a", "b", "c"]}
    }
    assert patched(live, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}) == {
        "metadata": {"finalizers": ["b"]}
    }


def test_volumes_keep_only_the_keys_that_are_retained() -> None:
    live = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    patch = {
        "spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}, "$retainKeys": ["name", "hostPath"]}]}
    }

    assert patched(live, patch) == {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}}


def test_the_given_element_order_is_kept_and_strangers_stay_where_they_were() -> None:
    live = containers({"name": "x"}, {"name": "a"}, {"name": "b"})
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
            "containers": [{"name": "b", "image": "2"}],
        }
    }

    after = patched(live, patch)

    assert [one["name"] for one in after["spec"]["containers"]] == ["x", "b", "a"]


def test_node_conditions_merge_by_type() -> None:
    live = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}]}}
    patch = {
        "status": {
            "$setElementOrder/conditions": [{"type": "GPUReady"}, {"type": "Ready"}],
            "conditions": [{"type": "GPUReady", "status": "False"}],
        }
    }

    after = patched(live, patch, "Node")

    assert [one["type"] for one in after["status"]["conditions"]] == ["GPUReady", "Ready"]
    assert after["status"]["conditions"][1]["reason"] == "r"


def test_service_ports_merge_by_port() -> None:
    live = {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}}

    assert patched(live, {"spec": {"ports": [{"port": 81, "name": "c"}]}}, "Service") == {
        "spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "c"}]}
    }


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        pytest.param(containers({"image": "x"}), 500, id="an element without its key"),
        pytest.param({"spec": {"$patch": "spam"}}, 500, id="an unknown directive"),
        pytest.param({"spec": {"$setElementOrder/containers": "a"}}, 500, id="an order that is no list"),
        pytest.param({"spec": {"$retainKeys": ["a"], "b": 1}}, 400, id="a key that is not retained"),
    ],
)
def test_a_patch_that_makes_no_sense_is_refused(patch: Object, code: int) -> None:
    with pytest.raises(PatchError) as caught:
        patched(containers({"name": "a"}), patch)

    assert caught.value.code == code


CASES = [json.loads(line) for line in (Path(__file__).parent / "data" / "strategic_merges.jsonl").open()]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_what_kubectl_sends_ends_as_in_the_api_server(case: Object) -> None:
    """Two-way patches of random pods that drifted meanwhile, recorded from apimachinery v0.37.2."""
    assert patched(case["live"], case["patch"]) == case["result"]


labels = st.dictionaries(st.text("ab", min_size=1, max_size=2), st.text("xy", max_size=1), max_size=3)
changes = st.dictionaries(
    st.text("ab", min_size=1, max_size=2), st.none() | st.text("xy", max_size=1), max_size=3
)


@given(labels, changes)
def test_without_lists_it_is_a_merge_patch(live: Object, patch: Object) -> None:
    old, new = {"metadata": {"labels": live}}, {"metadata": {"labels": patch}}

    assert patched(old, new) == merge_patch(old, new)
