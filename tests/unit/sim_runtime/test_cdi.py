"""CDI specs: what loads, who wins, and what a container gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuready_sim.runtime import cdi
from gpuready_sim.runtime.cdi import CdiError


def spec(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "cdiVersion": "0.5.0",
        "kind": "vendor.com/gpu",
        "containerEdits": {"env": ["COMMON=1"]},
        "devices": [{"name": "gpu0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}],
    }
    return {**base, **changes}


def device(name: str = "gpu0", **edits: Any) -> dict[str, Any]:
    return {"name": name, "containerEdits": edits or {"env": ["A=b"]}}


def put(root: Path, name: str, content: object, directory: str = "var/run/cdi") -> Path:
    path = root / directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(spec(surprise=1), 'unknown field "surprise"', id="an unknown field"),
        pytest.param(spec(devices=[{**device(), "x": 1}]), 'unknown field "x"', id="unknown in a device"),
        pytest.param(
            spec(devices=[device(mounts=[{"hostPath": "/a", "containerPath": "/a", "ro": True}])]),
            'unknown field "ro"',
            id="unknown in a mount",
        ),
        pytest.param(spec(devices=[]), "no devices", id="no device"),
        pytest.param(spec(devices=[device(), device()]), "multiple device 'gpu0'", id="a name twice"),
        pytest.param(spec(devices=[device(env=[])]), "empty device edits", id="a device without edits"),
        pytest.param(spec(devices=[device("-gpu")]), "invalid device name", id="a bad device name"),
        pytest.param(spec(kind="gpu"), "invalid kind", id="a kind without a vendor"),
        pytest.param(spec(cdiVersion="2.0.0"), "invalid version", id="a version from the future"),
        pytest.param(spec(cdiVersion="0.4.0", devices=[device("0")]), "at least v0.5.0", id="a digit first"),
        pytest.param(spec(kind="vendor.com/a.b"), "at least v0.6.0", id="a dot in the class"),
        pytest.param(
            spec(devices=[device(additionalGids=[44])]),
            "at least v0.7.0",
            id="a field newer than the version",
        ),
        pytest.param(spec(devices=[device(env=["NOVALUE"])]), "invalid environment", id="env without ="),
        pytest.param(
            spec(devices=[device(deviceNodes=[{"path": "/dev/x", "permissions": "rwx"}])]),
            "invalid permissions",
            id="bad permissions",
        ),
        pytest.param(
            spec(devices=[device(hooks=[{"hookName": "later", "path": "/x"}])]),
            "invalid hook",
            id="a bad hook",
        ),
        pytest.param("{", "failed to unmarshal", id="no YAML"),
        pytest.param("just text", "not an object", id="no object"),
    ],
)
def test_a_spec_that_breaks_the_rules_is_skipped_and_says_why(
    tmp_path: Path, content: object, text: str
) -> None:
    bad = put(tmp_path, "bad.json", content)
    put(tmp_path, "good.yaml", spec(kind="other.com/gpu"))
    cache = cdi.load(tmp_path)
    assert list(cache.devices) == ["other.com/gpu=gpu0"]
    assert text in cache.errors[bad][0]


def test_files_with_other_suffixes_and_in_subdirectories_do_not_count(tmp_path: Path) -> None:
    put(tmp_path, "spec.yml", spec())
    put(tmp_path, "below/spec.json", spec())
    assert not cdi.load(tmp_path).devices


def test_the_dynamic_directory_wins_over_the_static_one(tmp_path: Path) -> None:
    put(tmp_path, "a.json", spec(), "etc/cdi")
    dynamic = put(tmp_path, "a.json", spec())
    assert cdi.load(tmp_path).devices["vendor.com/gpu=gpu0"][0].path == dynamic


def test_a_name_twice_in_one_directory_is_nobodys(tmp_path: Path) -> None:
    put(tmp_path, "static.json", spec(), "etc/cdi")
    one, two = put(tmp_path, "one.json", spec()), put(tmp_path, "two.json", spec())
    cache = cdi.load(tmp_path)
    assert not cache.devices
    assert "conflicting device vendor.com/gpu=gpu0" in cache.errors[one][0]
    assert cache.errors[one] == cache.errors[two]


def test_edits_of_a_spec_apply_once_before_its_devices(tmp_path: Path) -> None:
    put(tmp_path, "a.json", spec(devices=[device("one", env=["ONE=1"]), device("two", env=["TWO=2"])]))
    edits = cdi.load(tmp_path).edits_of(["vendor.com/gpu=two", "vendor.com/gpu=one"])
    assert [edit["env"] for edit in edits] == [["COMMON=1"], ["TWO=2"], ["ONE=1"]]


def test_names_that_nobody_defines_are_all_listed(tmp_path: Path) -> None:
    put(tmp_path, "a.json", spec())
    names = ["vendor.com/gpu=gpu0", "vendor.com/gpu=gpu8", "vendor.com/gpu=gpu9"]
    with pytest.raises(CdiError, match=r"^unresolvable CDI devices \S+gpu8, \S+gpu9$"):
        cdi.load(tmp_path).edits_of(names)


def test_annotations_name_devices_and_one_bad_name_spoils_all() -> None:
    good = {"cdi.k8s.io/plugin_uid": "v.com/gpu=a,v.com/gpu=b", "other": "x"}
    assert cdi.names_in_annotations(good) == ["v.com/gpu=a", "v.com/gpu=b"]
    with pytest.raises(CdiError):
        cdi.names_in_annotations({"cdi.k8s.io/plugin_uid": "v.com/gpu=a,/dev/nvidia0"})
