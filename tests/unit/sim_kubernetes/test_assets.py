"""Where programs are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuready_sim.kubernetes import assets


def program(folder: Path, name: str, says: str = "Kubernetes v1.2.3") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path / "path")}


def test_the_named_folder_comes_before_the_cache_and_the_cache_before_the_path(
    env: dict[str, str], tmp_path: Path
) -> None:
    program(tmp_path / "path", "etcd")
    assert assets.find("etcd", env) == assets.Asset("etcd", tmp_path / "path/etcd", "PATH")
    program(assets.cache_dir(env), "etcd")
    assert assets.find("etcd", env) == assets.Asset("etcd", assets.cache_dir(env) / "etcd", "cache")
    env["KUBEBUILDER_ASSETS"] = str(tmp_path / "theirs")
    assert assets.find("etcd", env) == assets.Asset("etcd", assets.cache_dir(env) / "etcd", "cache")
    program(tmp_path / "theirs", "etcd")
    assert assets.find("etcd", env) == assets.Asset("etcd", tmp_path / "theirs/etcd", "KUBEBUILDER_ASSETS")


def test_what_is_missing_is_named_with_the_places_and_the_way_to_get_it(env: dict[str, str]) -> None:
    program(assets.cache_dir(env), "etcd")
    with pytest.raises(assets.MissingAssets) as caught:
        assets.require(env=env)
    assert "kube-apiserver, kube-controller-manager, kube-scheduler not found" in caught.value.what
    assert str(assets.cache_dir(env)) in caught.value.why
    assert "make kubernetes" in caught.value.next_step


@pytest.mark.parametrize(
    ("name", "says", "version"),
    [
        ("kube-apiserver", "Kubernetes v1.36.3", "v1.36.3"),
        ("etcd", "etcd Version: 3.6.8", "3.6.8"),
        ("containerd", "containerd github.com/containerd/containerd/v2 v2.2.1 ", "v2.2.1"),
        ("containerd-shim-runc-v2", "'  Version:  v2.2.1'", "v2.2.1"),
        ("kubelet", "hello", ""),
    ],
)
def test_programs_tell_their_version(tmp_path: Path, name: str, says: str, version: str) -> None:
    assert assets.Asset(name, program(tmp_path, name, says), "PATH").version() == version
