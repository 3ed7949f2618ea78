"""The hook program in a container's root that may hold anything."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.gpu.cdi.trees import ld_cache

import gpuready
from gpuready.gpu import ld_cache as loader_cache
from gpuready.native.build import build

LIBS = "/usr/lib/x86_64-linux-gnu"
LOADER = "lib64/ld-linux-x86-64.so.2"
ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 3, 62) + bytes(44)  # a library for x86-64
ON_X86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the test's libraries are for x86-64")


@cache
def program() -> Path:
    return build(Path(gpuready.__file__).parent)


def may_mount() -> bool:
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return os.geteuid() == 0 and done.returncode == 0


class Container:
    """A bundle as a runtime hands it to a createContainer hook."""

    def __init__(self, folder: Path) -> None:
        self.bundle = folder / "bundle"
        self.root = self.bundle / "rootfs"
        self.root.mkdir(parents=True)
        self.outside = folder / "outside"
        self.outside.mkdir()
        config = {"process": {"env": ['A="}{'], "args": ["x"]}, "root": {"path": "rootfs", "readonly": False}}
        (self.bundle / "config.json").write_text(json.dumps({"ociVersion": "1.0.2", **config}))

    def hook(self, *words: str, state: bytes | None = None, mounts: Mapping[str, Path] | None = None) -> str:
        """What it says on stderr; it must succeed. `mounts`: path in the container -> file laid over it."""
        code, said = self.tried(*words, state=state, mounts=mounts)
        assert code == 0, said
        return said

    def tried(
        self, *words: str, state: bytes | None = None, mounts: Mapping[str, Path] | None = None
    ) -> tuple[int, str]:
        given = json.dumps({"ociVersion": "1.0.2", "id": "c", "bundle": str(self.bundle)})
        command = [str(program()), *words]
        if mounts:
            script = "".join(f"mount --bind {file} {self.root}{path} && " for path, file in mounts.items())
            command = ["unshare", "--mount", "sh", "-c", f'{script} exec "$0" "$@"', *command]
        done = subprocess.run(
            command, input=given.encode() if state is None else state, capture_output=True, timeout=30
        )
        return done.returncode, done.stderr.decode()

    def put(self, path: str, content: bytes | str = b"") -> Path:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def link(self, path: str, target: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def cache(self) -> dict[str, list[str]]:
        """soname -> paths in the loader's order."""
        found: dict[str, list[str]] = {}
        for entry in loader_cache.parse((self.root / "etc/ld.so.cache").read_bytes()):
            found.setdefault(entry.soname, []).append(entry.path)
        return found


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


@pytest.fixture
def mounted(container: Container, tmp_path: Path) -> dict[str, Path]:
    """Two libraries of the driver, mounted into a folder where the image has one of its own."""
    if not may_mount():
        pytest.skip("it takes root and mount namespaces")
    library = tmp_path / "driver.so"
    library.write_bytes(ELF)
    paths = [f"{LIBS}/libcuda.so.1", f"{LIBS}/libcuda.so.550.163.01"]
    container.put(LOADER)
    container.put(f"{LIBS}/libz.so.1", ELF)
    for path in paths:
        container.put(path)
    return dict.fromkeys(paths, library)


# --- links ------------------------------------------------------------------------------------------------
def test_links_are_made_with_their_folders(container: Container) -> None:
    by_path = "/dev/dri/by-path/pci-0000:07:00.0"
    container.hook("create-symlinks", "--link", f"../card1::{by_path}-card", f"--link=../r::{by_path}-render")

    assert os.readlink(f"{container.root}{by_path}-card") == "../card1"
    assert os.readlink(f"{container.root}{by_path}-render") == "../r"


def test_a_link_that_is_there_stays_and_one_that_leads_elsewhere_is_replaced(container: Container) -> None:
    container.link("/a", "x")
    container.link("/b", "elsewhere")
    container.put("/c", "a file")
    for _ in range(2):
        container.hook("create-symlinks", "--link", "x::/a", "--link", "x::/b", "--link", "x::/c")

    assert os.readlink(container.root / "a") == os.readlink(container.root / "b") == "x"
    assert (container.root / "c").read_text() == "a file"


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("{outside}", id="an absolute link"),
        pytest.param("../../../../../../../../../../..{outside}", id="many dots"),
        pytest.param("/proc/self/root{outside}", id="through /proc"),
    ],
)
def test_links_of_the_image_never_lead_out_of_it(container: Container, target: str) -> None:
    container.link("/dev", target.format(outside=container.outside))
    container.hook("create-symlinks", "--link", "x::/dev/dri/card")

    assert list(container.outside.iterdir()) == []
    assert (container.root / str(container.outside).lstrip("/") / "dri/card").is_symlink() or "proc" in target


def test_a_link_of_proc_is_not_followed(container: Container) -> None:
    if not may_mount():
        pytest.skip("it takes root and mount namespaces")
    (container.root / "proc").mkdir()
    container.link("/dev", f"/proc/1/root{container.outside}")
    code, said = container.tried("create-symlinks", "--link", "x::/dev/card", mounts={"/proc": Path("/proc")})

    assert code == 1
    assert "/dev/card: Too many levels of symbolic links" in said
    assert list(container.outside.iterdir()) == []


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("no separator", "is not TARGET::/LINK"),
        ("x::relative", "is not TARGET::/LINK"),
        ("::/a", "is not TARGET::/LINK"),
        ("x::/a/..", "Invalid argument"),
        ("x::/", "Invalid argument"),
        (f"x::/{'a' * 300}", "File name too long"),
        (f"x::/{'a/' * 80}b", "File name too long"),
        (f"x::/{'a/' * 3000}b", "File name too long"),
    ],
)
def test_a_link_that_makes_no_sense_is_refused(container: Container, link: str, says: str) -> None:
    code, said = container.tried("create-symlinks", "--link", link)

    assert code != 0
    assert says in said


def test_links_in_a_circle_end(container: Container) -> None:
    container.link("/a", "/b")
    container.link("/b", "/a")
    code, said = container.tried("create-symlinks", "--link", "x::/a/c")

    assert code == 1
    assert "Too many levels of symbolic links" in said


# --- the loader's cache -----------------------------------------------------------------------------------
@ON_X86
def test_mounted_libraries_are_in_the_cache_before_those_of_the_image(
    container: Container, mounted: dict[str, Path]
) -> None:
    own = {
        "libz.so.1": f"{LIBS}/libz.so.1",
        "libcuda.so.1": "/opt/libcuda.so.1",
        "libc.so.6": "/l/libc.so.6",
    }
    container.put("/etc/ld.so.cache", ld_cache(own, old_part=True))
    container.hook("update-ldcache", "--folder", LIBS, "--folder", "/not/there", mounts=mounted)

    assert container.cache() == {
        "libz.so.1": [f"{LIBS}/libz.so.1"],
        "libcuda.so.550.163.01": [f"{LIBS}/libcuda.so.550.163.01"],
        "libcuda.so.1": [f"{LIBS}/libcuda.so.1", "/opt/libcuda.so.1"],
        "libc.so.6": ["/l/libc.so.6"],
    }
    assert (container.root / "etc/ld.so.conf.d/00-gpuready.conf").read_text() == f"{LIBS}\n/not/there\n"
    assert (container.root / "etc/ld.so.conf").read_text() == "include /etc/ld.so.conf.d/*.conf\n"


@ON_X86
def test_a_container_that_is_started_again_gets_no_second_row(
    container: Container, mounted: dict[str, Path]
) -> None:
    container.put("/etc/ld.so.conf", "/opt/mine\n")
    for _ in range(3):
        container.hook("update-ldcache", "--folder", LIBS, mounts=mounted)

    assert container.cache()["libcuda.so.1"] == [f"{LIBS}/libcuda.so.1"]
    assert (container.root / "etc/ld.so.conf").read_text() == "/opt/mine\n"


@ON_X86
def test_the_real_loader_finds_ours_and_everything_it_found_before(tmp_path: Path) -> None:
    """This machine's own cache is the image's: a real library under a name that only ours has."""
    if not may_mount() or not Path("/etc/ld.so.cache").exists():
        pytest.skip("it takes root, mount namespaces and glibc")
    container = Container(tmp_path)
    container.put(LOADER)
    shutil.copy("/etc/ld.so.cache", container.put("/etc/ld.so.cache"))
    known = loader_cache.parse(Path("/etc/ld.so.cache").read_bytes())
    real = next(each.path for each in known if each.soname == "libz.so.1" and each.flags == 0x0303)
    folder = tmp_path / "driver"
    folder.mkdir()
    place = container.put(f"{folder}/libgpuready-test.so.9")
    inside = str(place).removeprefix(str(container.root))
    container.hook("update-ldcache", "--folder", str(folder), mounts={inside: Path(real)})
    shutil.copy(real, folder / "libgpuready-test.so.9")

    sonames = ("libgpuready-test.so.9", "libz.so.1", "libc.so.6", "libm.so.6")
    loads = "; ".join(f"ctypes.CDLL('{soname}')" for soname in sonames)
    cache = "/etc/ld.so.cache"
    script = f'mount --bind {container.root}{cache} {cache} && {sys.executable} -c "import ctypes; {loads}"'
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    after = loader_cache.parse((container.root / "etc/ld.so.cache").read_bytes())
    assert [(e.soname, e.path) for e in after if "gpuready" not in e.soname] == [
        (e.soname, e.path) for e in known
    ]


@ON_X86
def test_newer_libcuda_of_the_image_goes_before_the_hosts(
    container: Container, mounted: dict[str, Path]
) -> None:
    compat = "/usr/local/cuda-12.8/compat"
    container.put(f"{compat}/libcuda.so.570.86.10", ELF)
    container.link(f"{compat}/libcuda.so.1", "libcuda.so.570.86.10")
    container.link("/usr/local/cuda", "cuda-12.8")
    container.hook("enable-cuda-compat", "--host-driver-version=550.163.01")
    container.hook("update-ldcache", "--folder", LIBS, mounts=mounted)

    assert container.cache()["libcuda.so.1"] == [
        "/usr/local/cuda/compat/libcuda.so.1",
        f"{LIBS}/libcuda.so.1",
    ]


@pytest.mark.parametrize("host", ["570.86.10", "580.1", "not a version"])
def test_libcuda_of_the_image_that_is_not_newer_is_left_alone(container: Container, host: str) -> None:
    container.put("/usr/local/cuda/compat/libcuda.so.570.86.10", ELF)
    container.put("/usr/local/cuda/compat/libcuda.so.1", ELF)
    container.hook("enable-cuda-compat", f"--host-driver-version={host}")

    assert not (container.root / "etc").exists()


def test_an_image_without_glibc_is_left_alone(container: Container) -> None:
    container.hook("update-ldcache", "--folder", LIBS)

    assert list(container.root.iterdir()) == []


def test_a_cache_that_is_a_link_is_replaced_and_not_written_through(container: Container) -> None:
    container.put(LOADER)
    victim = container.outside / "shadow"
    victim.write_text("secret")
    container.link("/etc/ld.so.cache", str(victim))
    container.link("/etc/ld.so.conf", str(victim))
    container.hook("update-ldcache", "--folder", LIBS)

    assert victim.read_text() == "secret"
    assert not (container.root / "etc/ld.so.cache").is_symlink()


def test_libraries_that_are_pipes_devices_or_links_outside_do_no_harm(
    container: Container, tmp_path: Path
) -> None:
    """Without mounts of their own the files count where the folder says so: in CUDA's compat folder."""
    folder = "/usr/local/cuda/compat"
    container.put(LOADER)
    container.put(f"{folder}/libcuda.so.999.1", b"no ELF")
    os.mkfifo(f"{container.root}{folder}/libpipe.so.1")
    container.link(f"{folder}/libout.so.1", str(container.outside / "x"))
    (container.outside / "x").write_bytes(ELF)
    container.hook("enable-cuda-compat", "--host-driver-version", "550.1")
    container.hook("update-ldcache", "--folder", LIBS)

    assert container.cache() == {}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=300), place=st.integers(0, 200), extension=st.integers(0, 2**32 - 1))
def test_no_cache_of_an_image_whatever_is_in_it_crashes_the_hook(
    container: Container, noise: bytes, place: int, extension: int
) -> None:
    content = bytearray(ld_cache({"libc.so.6": "/lib/libc.so.6", "libz.so.1": "/lib/libz.so.1"}))
    struct.pack_into("<I", content, 32, extension)
    content[place : place + len(noise)] = noise
    container.put(LOADER)
    container.put("/etc/ld.so.cache", bytes(content))
    container.hook("update-ldcache", "--folder", LIBS)

    loader_cache.parse((container.root / "etc/ld.so.cache").read_bytes())


# --- modes, parameters ------------------------------------------------------------------------------------
def test_chmod_changes_what_is_there_and_not_what_a_link_leads_to(container: Container) -> None:
    (container.root / "dev/dri").mkdir(parents=True, mode=0o700)
    victim = container.outside / "x"
    victim.touch(0o600)
    container.link("/l", str(victim))
    container.hook("chmod", "--mode", "755", "--path", "/dev/dri", "--path", "/not/there")
    code, _ = container.tried("chmod", "--mode", "777", "--path", "/l")

    assert (container.root / "dev/dri").stat().st_mode & 0o777 == 0o755
    assert code == 1
    assert victim.stat().st_mode & 0o777 == 0o600


def test_the_driver_is_told_to_make_no_device_nodes(container: Container) -> None:
    if not may_mount():
        pytest.skip("it takes root and mount namespaces")
    params = container.put("/proc/driver/nvidia/params", "ResmanDebugLevel: 4\nModifyDeviceFiles: 1\nA: 1\n")
    state = json.dumps({"bundle": str(container.bundle)})
    script = f"echo '{state}' | {program()} disable-device-node-modification && cat {params}"
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True)

    assert done.stdout == "ResmanDebugLevel: 4\nModifyDeviceFiles: 0\nA: 1\n", done.stderr
    assert "ModifyDeviceFiles: 1" in params.read_text()  # in the container's own view only


def test_without_the_drivers_parameters_there_is_nothing_to_do(container: Container) -> None:
    assert container.hook("disable-device-node-modification") == ""


# --- how it is started ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("state", "says"),
    [
        (b"", "stdin holds no OCI state with a bundle"),
        (b"{}", "stdin holds no OCI state with a bundle"),
        (b'{"bundle": 3}', "stdin holds no OCI state with a bundle"),
        (b'{"bundle": "/x\\u0000y"}', "stdin holds no OCI state with a bundle"),
        (b'{"a":' * 5000, "stdin holds no OCI state with a bundle"),
        (b'{"bundle": "/nowhere"}', "/nowhere: No such file or directory"),
        (b'{"annotations": {"bundle": "/tmp"}, "x": [[{"bundle": "/tmp"}]]}', "no OCI state with a bundle"),
    ],
)
def test_a_state_that_is_none_is_refused(container: Container, state: bytes, says: str) -> None:
    code, said = container.tried("create-symlinks", "--link", "a::/b", state=state)

    assert code == 1
    assert says in said


def test_texts_of_the_configuration_do_not_pass_for_its_structure(container: Container) -> None:
    config = {
        "process": {"env": ['","root":{"path":"/etc"}', '\\"}'], "args": ['{"root":{"path":"/"}}']},
        "annotations": {"root": "{", "é\u20ac": "\u4e2d"},
        "root": {"readonly": True, "path": "rootfs"},
    }
    (container.bundle / "config.json").write_text(json.dumps(config))
    container.hook("create-symlinks", "--link", "a::/b")

    assert os.readlink(container.root / "b") == "a"


@pytest.mark.parametrize(
    "words", [(), ("fly",), ("create-symlinks", "--folder", "x"), ("chmod", "--mode", "9")]
)
def test_what_it_does_not_understand_it_refuses(container: Container, words: tuple[str, ...]) -> None:
    code, said = container.tried(*words)

    assert code == 2
    assert said.startswith("nvidia-cdi-hook: ")


def test_it_serves_specs_that_name_nvidia_ctk_and_newer_ones(container: Container) -> None:
    container.hook("hook", "create-symlinks", "--link", "a::/b")
    assert os.readlink(container.root / "b") == "a"
    assert "nothing is done" in container.hook("update-application-profile")


def test_it_needs_nothing_of_the_host(container: Container) -> None:
    content = program().read_bytes()

    assert content[:4] == b"\x7fELF"
    assert b"/ld-linux" not in content[:4096]  # no loader: linked statically
    done = subprocess.run([program(), "--help"], env={}, capture_output=True, text=True, cwd="/")
    assert "update-ldcache --folder" in done.stdout
