"""Volumes, projected files and environments without a kubelet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gpuready_sim.runtime.environment import compose, expand
from gpuready_sim.runtime.errors import ConfigError, CreateError
from gpuready_sim.runtime.images import image_name, image_tag, program_of
from gpuready_sim.runtime.projection import File, project
from gpuready_sim.runtime.volumes import MountFailure, PodVolumes

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a/b": "c"}},
    "spec": {"nodeName": "n"},
}


class Objects:
    """A source of objects and tokens that the test fills."""

    def __init__(self, **config_maps: dict[str, str]) -> None:
        self.config_maps = config_maps
        self.tokens = 0

    async def find(self, kind: str, namespace: str, name: str) -> Any:
        data = self.config_maps.get(name)
        return None if data is None else {"kind": kind, "data": data}

    async def request_token(self, pod: Any, audience: str | None, seconds: int) -> str:
        self.tokens += 1
        return f"token-{self.tokens}-{audience}-{seconds}"


def test_files_of_a_projection_change_as_one(tmp_path: Path) -> None:
    volume = tmp_path / "v"
    assert project(volume, {"a": File(b"1"), "deep/b": File(b"2", 0o600)})
    data = volume / "..data"
    before = os.readlink(data)
    assert (volume / "a").read_text() == "1"
    assert os.readlink(volume / "deep") == "..data/deep"
    assert (volume / "deep/b").stat().st_mode & 0o777 == 0o600
    assert not project(volume, {"a": File(b"1"), "deep/b": File(b"2", 0o600)})
    assert os.readlink(data) == before
    assert project(volume, {"c": File(b"3")})
    assert sorted(os.listdir(volume)) == sorted([os.readlink(data), "..data", "c"])
    with pytest.raises(OSError, match="leaves the volume"):
        project(volume, {"../x": File(b"")})


def volumes(tmp_path: Path, objects: Objects | None = None) -> PodVolumes:
    (tmp_path / "root/etc").mkdir(parents=True, exist_ok=True)
    return PodVolumes(tmp_path / "volumes", tmp_path / "root", objects or Objects())


def with_volume(**volume: Any) -> dict[str, Any]:
    return {**POD, "spec": {**POD["spec"], "volumes": [{"name": "v", **volume}]}}


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        pytest.param(
            {"hostPath": {"path": "/none", "type": "Directory"}}, "is not a directory", id="Directory"
        ),
        pytest.param({"hostPath": {"path": "/etc", "type": "File"}}, "is not a file", id="File"),
        pytest.param({"hostPath": {"path": "/etc", "type": "Socket"}}, "is not a socket", id="Socket"),
        pytest.param({"configMap": {"name": "no"}}, 'configmap "no" not found', id="no ConfigMap"),
        pytest.param({"secret": {"secretName": "no"}}, 'secret "no" not found', id="no Secret"),
        pytest.param(
            {"configMap": {"name": "cm", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent configmap key: z",
            id="no key",
        ),
        pytest.param({"nfs": {"server": "x"}}, "no volumes of kind nfs", id="another kind"),
    ],
)
async def test_a_volume_that_cannot_be_made_says_why(
    tmp_path: Path, volume: dict[str, Any], text: str
) -> None:
    made = volumes(tmp_path, Objects(cm={"a": "1"}))
    with pytest.raises(MountFailure, match=f'^MountVolume.SetUp failed for volume "v" : .*{text}'):
        await made.set_up(with_volume(**volume))


async def test_optional_sources_may_be_absent(tmp_path: Path) -> None:
    made = volumes(tmp_path)
    await made.set_up(with_volume(configMap={"name": "no", "optional": True}))
    (mount,) = made.mounts_of({"volumeMounts": [{"name": "v", "mountPath": "/x"}]})
    assert [p for p in os.listdir(mount.source) if not p.startswith("..")] == []


async def test_modes_items_and_sub_paths(tmp_path: Path) -> None:
    made = volumes(tmp_path, Objects(cm={"run.sh": "x", "b": "2"}))
    source = {"name": "cm", "defaultMode": 0o755, "items": [{"key": "run.sh", "path": "bin/run.sh"}]}
    await made.set_up(with_volume(configMap=source))
    wanted = {"name": "v", "mountPath": "/bin/run.sh", "subPath": "bin/run.sh"}
    (mount,) = made.mounts_of({"volumeMounts": [wanted]})
    assert mount.source.read_text() == "x"
    assert mount.source.stat().st_mode & 0o777 == 0o755
    with pytest.raises(CreateError, match="leaves volume"):
        made.mounts_of({"volumeMounts": [{**wanted, "subPath": "../../.."}]})


async def test_a_host_path_cannot_leave_the_node(tmp_path: Path) -> None:
    made = volumes(tmp_path)
    await made.set_up(with_volume(hostPath={"path": "/../../etc", "type": "Directory"}))
    (mount,) = made.mounts_of({"volumeMounts": [{"name": "v", "mountPath": "/x"}]})
    assert mount.source == tmp_path / "root/etc"


async def test_a_token_is_asked_for_once_in_its_life(tmp_path: Path) -> None:
    objects = Objects()
    made = volumes(tmp_path, objects)
    token = {"serviceAccountToken": {"path": "token", "audience": "me", "expirationSeconds": 600}}
    for _ in range(3):
        await made.set_up(with_volume(projected={"sources": [token]}))
    assert (tmp_path / "volumes/v/token").read_text() == "token-1-me-600"
    refresh_s = made.next_refresh_s()
    assert refresh_s is not None
    assert 470 < refresh_s <= 480


# --- environment ----------------------------------------------------------------------------------------


def nothing(kind: str, name: str) -> None:
    return None


@pytest.mark.parametrize(
    ("text", "value"),
    [("$(A)-$(B)", "1-$(B)"), ("$$(A)", "$(A)"), ("$A", "$A"), ("100$", "100$"), ("$(A", "$(A")],
)
def test_references_in_values(text: str, value: str) -> None:
    assert expand(text, {"A": "1"}) == value


def test_env_wins_over_env_from_and_services() -> None:
    spec = {
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "cm"}}, {"configMapRef": {"name": "cm"}}],
        "env": [{"name": "B", "value": "mine"}, {"name": "C", "value": "$(B)$(P_A)"}],
    }
    env = compose(spec, POD, {"A": "service", "S": "s"}, lambda kind, name: {"A": "1", "B": "2"})
    assert env == {"A": "1", "B": "mine", "S": "s", "P_A": "1", "P_B": "2", "C": "mine1"}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ({"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}, "c"),
        ({"fieldRef": {"fieldPath": "metadata.namespace"}}, "ns"),
        ({"resourceFieldRef": {"resource": "limits.nvidia.com/gpu"}}, "2"),
    ],
)
def test_fields_and_resources_as_variables(source: dict[str, Any], value: str) -> None:
    spec = {"env": [{"name": "X", "valueFrom": source}], "resources": {"limits": {"nvidia.com/gpu": 2}}}
    assert compose(spec, POD, {}, nothing) == {"X": value}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"fieldRef": {"fieldPath": "spec.other"}}, "unsupported fieldPath: spec.other"),
        ({"configMapKeyRef": {"name": "cm", "key": "z"}}, "couldn't find key z in ConfigMap ns/cm"),
        ({"secretKeyRef": {"name": "no", "key": "z"}}, 'secret "no" not found'),
    ],
)
def test_what_cannot_be_resolved_is_named(source: dict[str, Any], text: str) -> None:
    spec = {"env": [{"name": "X", "valueFrom": source}]}
    data = {("ConfigMap", "cm"): {"a": "1"}}
    with pytest.raises(ConfigError, match=text):
        compose(spec, POD, {}, lambda kind, name: data.get((kind, name)))


# --- images ---------------------------------------------------------------------------------------------


def test_images_are_known_by_their_last_word() -> None:
    assert image_name("reg:5000/a/gpuready:1@sha256:0") == "gpuready"
    assert image_tag("reg:5000/nvidia/driver:570.86.10-ubuntu22.04") == "570.86.10-ubuntu22.04"


def test_the_driver_image_takes_its_version_from_the_tag() -> None:
    for command, args in ((["nvidia-driver"], ["init"]), ([], ["init"])):
        program = program_of("NGC/nvidia/driver:570.86.10-ubuntu22.04", command, args)
        assert program.argv[1:] == ("-m", "gpuready_sim.runtime.driver_container", "570.86.10")


def test_our_image_needs_no_command() -> None:
    assert program_of("gpuready:1", [], ["device-plugin"]).argv[1:] == ("-m", "gpuready.cli", "device-plugin")
