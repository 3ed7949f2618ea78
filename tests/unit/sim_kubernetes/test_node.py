"""What a real node is made of, as far as it can be seen without one. The node itself: tests/e2e."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

from gpuready_sim.kubernetes.node import images, leftovers, own_image, requirements, settings
from gpuready_sim.kubernetes.node.settings import NodeSettings

NODE = NodeSettings(
    name="gpu-1",
    directory=Path("/somewhere/node"),
    address="198.18.7.1",
    port=40123,
    pod_network="198.19.7.0/24",
    cgroup="gpuready-sim-4711",
    runtime="/usr/sbin/runc",
    cni_plugins=Path("/usr/lib/cni"),
    authority=Path("/somewhere/ca.crt"),
    certificate=Path("/somewhere/kubelet.crt"),
    key=Path("/somewhere/kubelet.key"),
    kubeconfig=Path("/somewhere/kubelet.kubeconfig"),
    labels={"pool": "a", "zone": "b"},
)


# --- settings ---------------------------------------------------------------------------------------------
def test_containerd_keeps_what_it_has_in_the_nodes_directory_and_injects_by_cdi() -> None:
    config = tomllib.loads(settings.containerd(NODE))
    runtime = config["plugins"]["io.containerd.cri.v1.runtime"]
    assert config["root"] == "/somewhere/node/containerd/root"
    assert runtime["enable_cdi"] is True
    assert runtime["containerd"]["runtimes"]["runc"]["options"]["BinaryName"] == "/usr/sbin/runc"


def test_the_kubelet_touches_nothing_that_is_the_machines() -> None:
    config = yaml.safe_load(settings.kubelet(NODE))
    assert config["cgroupRoot"] == "/gpuready-sim-4711"
    assert set(config["evictionHard"].values()) == {"0%"}
    assert config["imageGCHighThresholdPercent"] == 100
    assert config["makeIPTablesUtilChains"] is False


def test_the_kubelets_port_is_for_who_has_a_certificate_of_the_cluster() -> None:
    config = yaml.safe_load(settings.kubelet(NODE))
    assert config["authentication"]["anonymous"] == {"enabled": False}
    assert config["authentication"]["x509"] == {"clientCAFile": "/somewhere/ca.crt"}
    assert (config["address"], config["port"]) == ("198.18.7.1", 40123)


def test_the_kubelet_is_told_its_name_and_labels() -> None:
    options = settings.kubelet_options(NODE, Path("/somewhere/kubelet.yaml"))
    assert "--hostname-override=gpu-1" in options
    assert "--node-labels=pool=a,zone=b" in options


def test_pods_get_addresses_of_the_nodes_network() -> None:
    (plugin,) = json.loads(settings.network(NODE))["plugins"]
    assert (plugin["type"], plugin["ipam"]["subnet"]) == ("ptp", "198.19.7.0/24")


# --- images -----------------------------------------------------------------------------------------------
def test_an_image_is_an_oci_layout_whose_digests_hold(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("binary")
    (tmp_path / "tool").chmod(0o755)
    image = images.Image(
        "example.sim/tool:1",
        files={"bin/tool": tmp_path / "tool"},
        texts={"bin/script": "#!/bin/sh\n", "etc/note": "text\n"},
        links={"bin/other": "tool"},
        entrypoint=["/bin/tool"],
    )
    images.write_archive(tmp_path / "image.tar", image)
    with tarfile.open(tmp_path / "image.tar") as archive:
        blobs = {m.name: archive.extractfile(m).read() for m in archive.getmembers()}  # type: ignore[union-attr]
    (entry,) = json.loads(blobs["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "example.sim/tool:1"
    manifest = json.loads(blob(blobs, entry))
    assert json.loads(blob(blobs, manifest["config"]))["config"]["Entrypoint"] == ["/bin/tool"]
    (layer,) = manifest["layers"]
    assert layer["digest"] in json.loads(blob(blobs, manifest["config"]))["rootfs"]["diff_ids"]
    assert entries_of(blob(blobs, layer), tmp_path) == {
        "bin/tool": 0o755,
        "bin/script": 0o755,
        "etc/note": 0o644,
        "bin/other": "tool",
    }
    assert not list(tmp_path.glob("*.layer"))


def blob(blobs: dict[str, bytes], described: dict[str, str]) -> bytes:
    data = blobs[described["digest"].replace("sha256:", "blobs/sha256/")]
    assert f"sha256:{hashlib.sha256(data).hexdigest()}" == described["digest"]
    assert len(data) == described["size"]
    return data


def entries_of(layer: bytes, folder: Path) -> dict[str, int | str]:
    """Mode of each file, target of each link."""
    (folder / "layer.tar").write_bytes(layer)
    with tarfile.open(folder / "layer.tar") as found:
        members = [member for member in found.getmembers() if not member.isdir()]
    assert {(member.uid, member.gid) for member in members} == {(0, 0)}
    return {member.name: member.linkname or member.mode for member in members}


def test_the_products_image_runs_it_by_its_name_on_this_machines_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_image, "_libraries", lambda programs: {Path("/lib/some/libc.so.6")})  # seconds
    made = own_image.own_image("gpuready.sim/gpuready:1", {"A": "1"})
    program = made.texts["usr/bin/gpuready"]
    assert program.startswith(f"#!{Path(sys.executable).resolve()}\n")
    assert {"app/gpuready/cli.py", "app/aiohttp/client.py", "app/msgspec/__init__.py"} <= set(made.files)
    assert not any(name.startswith(("app/pytest", "app/gpuready_sim")) for name in made.files)
    assert not any("__pycache__" in name for name in made.files)
    assert "usr/lib/some/libc.so.6" in made.files  # /lib is a link
    assert made.env["A"] == "1"


# --- what this machine must have, and what it gets back ----------------------------------------------------
def test_without_root_there_is_no_node_and_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(requirements.MissingRequirement, match="needs root"):
        requirements.require()


def test_all_that_is_missing_is_named_with_the_packages_that_have_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(requirements, "_capabilities", lambda: -1)
    monkeypatch.setattr(leftovers, "controllers", lambda: {"cpu", "devices", "memory", "pids"})
    monkeypatch.setattr(requirements.assets, "find", lambda name: None if name == "kubelet" else object())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(requirements.MissingRequirement) as caught:
        requirements.require()
    assert "no cgroup controller cpuset" in caught.value.why
    assert "kubelet was not built" in caught.value.why
    assert "busybox-static" in caught.value.why
    assert caught.value.next_step.startswith("run `make kubernetes`")
    assert "runc busybox-static" in caught.value.next_step


def test_of_version_2_alone_no_controller_of_devices_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids\n")
    monkeypatch.setattr(leftovers, "_hierarchies", lambda: iter([(tmp_path, ["rw"])]))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert [text for text in requirements._missing() if "cgroup" in text] == []

    old = tmp_path / "version-1"
    old.mkdir()
    monkeypatch.setattr(leftovers, "_hierarchies", lambda: iter([(tmp_path, ["rw"]), (old, ["freezer"])]))
    assert [text for text in requirements._missing() if "cgroup" in text] == ["no cgroup controller devices"]


def test_the_view_refuses_to_live_in_everybodys_namespace(tmp_path: Path) -> None:
    """Its end kills all that lives there."""
    argv = [sys.executable, "-m", "gpuready_sim.kubernetes.node.view", str(tmp_path), "198.18.0.1"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "view: start it with `unshare --mount`\n")
    with pytest.raises(AssertionError):
        leftovers.kill_all_in_my_view()
