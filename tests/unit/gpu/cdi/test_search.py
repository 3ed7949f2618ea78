"""One search for the driver's libraries, wherever a distribution puts them, that can tell what it tried."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuready.gpu import ld_cache
from gpuready.gpu.driver_files import find_nvml_library, look_for_nvml
from gpuready.gpu.tree import Tree

from . import trees
from .trees import VERSION, link, touch

SONAME = "libnvidia-ml.so.1"
HEADER = struct.Struct("<20sII20x")


def library_in(root: Path, folder: str, version: str = VERSION) -> None:
    touch(root, f"{folder}/libnvidia-ml.so.{version}")
    link(root, f"{folder}/{SONAME}", f"libnvidia-ml.so.{version}")


def cache(root: Path, content: bytes) -> None:
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/ld.so.cache").write_bytes(content)


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param("/usr/lib64", id="Red Hat"),
        pytest.param("/usr/lib/x86_64-linux-gnu", id="Ubuntu"),
        pytest.param("/usr/lib/x86_64-linux-gnu/nvidia/current", id="Debian"),
        pytest.param("/usr/local/glibc/usr/lib", id="Talos"),
        pytest.param("/run/opengl-driver/lib", id="NixOS"),
        pytest.param("/usr/lib/nvidia", id="Bottlerocket"),
        pytest.param("/home/kubernetes/bin/nvidia/lib64", id="Container-Optimized OS"),
        pytest.param("/lib64", id="a driver unpacked into a folder"),
    ],
)
def test_it_is_found_where_distributions_put_it(tmp_path: Path, folder: str) -> None:
    library_in(tmp_path, folder)

    library = find_nvml_library(Tree(tmp_path))
    assert library is not None
    assert (library.folder, library.version) == (folder, VERSION)


@pytest.mark.parametrize("old_part", [False, True])
def test_it_is_found_where_the_loaders_cache_says(tmp_path: Path, old_part: bool) -> None:
    library_in(tmp_path, "/opt/nvidia/lib")
    entries = {"libc.so.6": "/lib/libc.so.6", SONAME: f"/opt/nvidia/lib/{SONAME}"}
    cache(tmp_path, trees.ld_cache(entries, old_part=old_part))

    library = find_nvml_library(Tree(tmp_path))
    assert library is not None
    assert library.folder == "/opt/nvidia/lib"


def test_folders_that_are_named_are_the_only_ones(tmp_path: Path) -> None:
    library_in(tmp_path, "/usr/lib64", "550.1")
    library_in(tmp_path, "/data/driver", "570.2")

    named = find_nvml_library(Tree(tmp_path), ["/data/driver"])
    assert named is not None
    assert named.version == "570.2"
    assert find_nvml_library(Tree(tmp_path), ["/nowhere"]) is None


def test_what_was_tried_can_be_told(tmp_path: Path) -> None:
    touch(tmp_path, "/usr/lib64/libc.so.6")
    link(tmp_path, f"/lib/x86_64-linux-gnu/{SONAME}", "libnvidia-ml.so.535.1")
    library_in(tmp_path, "/run/opengl-driver/lib")
    cache(tmp_path, b"not a cache, though it names libnvidia-ml.so.1")

    told = {attempt.place: attempt.outcome for attempt in look_for_nvml(Tree(tmp_path))}
    assert told["/usr/lib64"] == "no libnvidia-ml.so.1"
    assert told["/usr/lib/aarch64-linux-gnu"] == "no such folder"
    assert told["/lib/x86_64-linux-gnu"] == (
        "libnvidia-ml.so.1 leads to /lib/x86_64-linux-gnu/libnvidia-ml.so.535.1, which is not there"
    )
    assert told["/etc/ld.so.cache"] == "unreadable: it is no ld.so.cache of glibc 2.2 or newer"
    assert told["/run/opengl-driver/lib"] == f"found libnvidia-ml.so.{VERSION}"


def test_the_cache_of_this_machine_is_read_as_ldconfig_prints_it() -> None:
    path = Path("/etc/ld.so.cache")
    if not path.exists():
        pytest.skip("this machine has no /etc/ld.so.cache (musl)")
    entries = ld_cache.parse(path.read_bytes())

    libc = next(entry for entry in entries if entry.soname == "libc.so.6")
    assert Path(libc.path).exists()
    assert all(entry.path.startswith("/") for entry in entries)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"", "no ld.so.cache", id="empty"),
        pytest.param(
            b"ld.so-1.7.0\0\xff\xff\xff\xff", "no ld.so.cache", id="the old part claims to be endless"
        ),
        pytest.param(HEADER.pack(b"glibc-ld.so.cache1.1", 2**31, 8), "too short", id="too many entries"),
        pytest.param(
            struct.pack("<20sII20x", b"glibc-ld.so.cache1.1", 1, 8)
            + struct.pack("<iIIIQ", 1, 2**31, 0, 0, 0),
            "behind its end",
            id="a name that lies outside",
        ),
    ],
)
def test_a_cache_that_lies_is_refused_in_words(content: bytes, says: str) -> None:
    with pytest.raises(ld_cache.LdCacheError, match=says):
        ld_cache.parse(content)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 400))
def test_no_cache_whatever_is_in_it_is_more_than_refused(noise: bytes, place: int) -> None:
    good = bytearray(trees.ld_cache({"libc.so.6": "/lib/libc.so.6", SONAME: f"/usr/lib/{SONAME}"}))
    good[place : place + len(noise)] = noise
    try:
        ld_cache.parse(bytes(good))
    except ld_cache.LdCacheError:
        pass
