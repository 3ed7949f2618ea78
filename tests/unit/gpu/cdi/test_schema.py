"""What a runtime refuses in a spec, each in a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuready.gpu.cdi.installed import parse_spec
from gpuready.gpu.cdi.schema import problems_in


def spec(**changes: Any) -> dict[str, Any]:
    device = {"name": "gpu0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}
    whole = {"cdiVersion": "0.3.0", "kind": "nvidia.com/gpu", "devices": [device], **changes}
    return {key: value for key, value in whole.items() if value is not None}


def with_edits(edits: Any, version: str = "1.1.0") -> dict[str, Any]:
    return spec(cdiVersion=version, devices=[{"name": "gpu0", "containerEdits": edits}])


def test_the_smallest_spec_is_fine() -> None:
    assert problems_in(spec()) == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (spec(cdiVersion=None), "cdiVersion None is none of"),
        (spec(cdiVersion="9.9.9"), "cdiVersion '9.9.9' is none of"),
        (spec(kind="gpu"), "kind 'gpu' is not vendor/class"),
        (spec(kind="nvidia.com/-gpu"), "is not vendor/class"),
        (spec(devices=[]), "there must be at least one"),
        (spec(devices=None), "there must be at least one"),
        (spec(extra=1), "extra: CDI knows no such field"),
        (spec(devices=["0"]), "devices[0] is not an object"),
        (spec(devices=[{"name": "a b", "containerEdits": {"env": ["A=b"]}}]), "'a b' is no device name"),
        (spec(devices=[{"name": "a", "containerEdits": {}}]), "a device without containerEdits does nothing"),
        (spec(devices=spec()["devices"] * 2), "the name gpu0 stands here for the second time"),
        (with_edits({"env": ["=x"]}), "'=x' is not NAME=value"),
        (with_edits({"env": "A=b"}), "env must be a list of texts"),
        (with_edits({"mounts": [{"hostPath": "/x"}]}), "mounts[0].containerPath is missing"),
        (with_edits({"mounts": {}, "env": ["A=b"], "devices": []}), "devices: CDI knows no such field"),
        (with_edits({"deviceNodes": [{"path": "/dev/x", "type": "z"}]}), "type must be b, c, u or p"),
        (with_edits({"deviceNodes": [{"path": "/dev/x", "permissions": "rx"}]}), "may hold r, w and m"),
        (with_edits({"deviceNodes": [{"path": "/dev/x", "major": "195"}]}), "major must be a whole number"),
        (with_edits({"deviceNodes": [{"path": "/dev/x", "major": True}]}), "major must be a whole number"),
        (with_edits({"hooks": [{"hookName": "later", "path": "/x"}]}), "hookName must be one of prestart"),
        (with_edits({"hooks": [{"hookName": "poststop"}]}), "hooks[0].path is missing"),
        (with_edits({"additionalGids": [-1]}), "must be a list of group numbers"),
        (spec(annotations={"a": 1}), "annotations must be texts by name"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(wrong: dict[str, Any], says: str) -> None:
    assert any(says in problem for problem in problems_in(wrong)), problems_in(wrong)


@pytest.mark.parametrize(
    ("edits", "version"),
    [
        ({"mounts": [{"hostPath": "/a", "containerPath": "/a", "type": "bind"}]}, "0.4.0"),
        ({"deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/b"}]}, "0.5.0"),
        ({"additionalGids": [44]}, "0.7.0"),
        ({"intelRdt": {"closID": "a"}}, "0.7.0"),
        ({"netDevices": [{"hostInterfaceName": "eth0", "name": "eth1"}]}, "1.1.0"),
    ],
)
def test_a_version_that_is_too_old_for_a_field_is_refused(edits: dict[str, Any], version: str) -> None:
    assert problems_in(with_edits(edits, version)) == []
    assert problems_in(with_edits(edits, "0.3.0")) == [
        f"cdiVersion 0.3.0 cannot express it: it needs {version}"
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["kind", "devices", "name", "containerEdits", "mounts", "hooks", "env", "path", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_whatever_stands_in_a_file_is_judged_and_never_trips_us(value: Any) -> None:
    problems_in(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "line 2, column 1"),
        ("kind: [", "line 2"),
        ("a: 1\na: 2\n", "line 2"),
        ("[" * 5000, "nesting depth"),
        ('{"a":' * 5000, "deep"),
    ],
)
def test_text_that_is_neither_json_nor_yaml_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_spec(text)


def test_json_and_yaml_are_read_alike() -> None:
    assert parse_spec(json.dumps(spec())) == spec()
    assert parse_spec("# a comment\ncdiVersion: 0.3.0\nkind: nvidia.com/gpu\n") == {
        "cdiVersion": "0.3.0",
        "kind": "nvidia.com/gpu",
    }
