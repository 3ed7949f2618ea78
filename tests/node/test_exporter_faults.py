"""What is done to a running exporter: NVML refuses any call, clocks jump, GPUs change or leave.

Each of these passes: the page is served all the time, what is not concerned stays, and all is as before when
it is over.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from benchmarks.processes import memory
from prometheus_client.parser import text_string_to_metric_families
from tests.sim.exporter_node import ExporterNode, Pod
from tests.sim.operator_cluster import http

from gpuready_sim.hardware import call_faults, mig, work
from gpuready_sim.hardware.course import Course

INTERVAL_MS = 100
DEADLINE_S = 30.0
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
PROFILES = ["3g.40gb", "2g.20gb", "1g.10gb"]
# Looks as the exporter does and tells which functions of libnvidia-ml that took.
CALLS = """
import sys, time, pynvml
from pathlib import Path
from gpuready.gpu.telemetry.fields import find_field, own_fields
from gpuready.gpu.telemetry.reader import Reader
from gpuready.gpu.tree import Tree
from gpuready.operands.exporter.counters import parse, shipped
fields = [row.field for row in parse(shipped("default-counters.csv")).rows] + list(own_fields())
reader = Reader(lambda: Tree(Path(sys.argv[1])), time)
reader.start()
for _ in range(3):
    reader.collect(fields, time.monotonic(), 1, 20)
print(*sorted(pynvml._nvmlGetFunctionPointer_cache))
"""


class Page:
    def __init__(self, text: str) -> None:
        self._families = {
            family.name: family.samples for family in text_string_to_metric_families(text)
        }  # raises for a page that is none

    def rows(self, name: str, **labels: str) -> list[Any]:
        families = self._families.get(name) or self._families.get(name.removesuffix("_total")) or []
        return [row for row in families if labels.items() <= row.labels.items() and row.name == name]

    def number(self, name: str, **labels: str) -> float:
        [row] = self.rows(name, **labels)
        return float(row.value)


async def page_of(node: ExporterNode) -> Page:
    status, text = await http(f"{node.url}/metrics")
    assert status == 200
    return Page(text)


async def eventually(node: ExporterNode, check: Callable[[Page], object], what: str) -> Page:
    deadline = time.monotonic() + DEADLINE_S
    while not check(found := await page_of(node)):
        assert time.monotonic() < deadline, f"{what}: {(await http(f'{node.url}/health'))[1]}"
        await asyncio.sleep(INTERVAL_MS / 2000)
    return found


async def looks_later(node: ExporterNode, number: int) -> Page:
    """The page after so many more looks have ended."""
    name = "gpuready_exporter_collections_total"
    wanted = (await page_of(node)).number(name) + number
    return await eventually(node, lambda page: page.number(name) >= wanted, f"{number} more looks")


def is_whole(gpus: int) -> Callable[[Page], bool]:
    """Every GPU tells its temperature and its use of memory, and none is silent."""

    def check(page: Page) -> bool:
        silent = sum(row.value for row in page.rows("gpuready_exporter_gpu_silent"))
        warm = page.rows("DCGM_FI_DEV_GPU_TEMP")
        used = {row.labels["gpu"] for row in page.rows("DCGM_FI_DEV_FB_USED")}
        return silent == 0 and len(warm) == len(used) == gpus

    return check


def shows_gpu_0(page: Page) -> bool:
    """On busy cores a look each 0.1 s may come too late for once."""
    return bool(page.rows("DCGM_FI_DEV_GPU_TEMP", gpu="0"))


@pytest_asyncio.fixture
async def node(tmp_path: Path) -> AsyncIterator[ExporterNode]:
    async with ExporterNode(tmp_path / "node", gpus=2) as made:
        yield made


async def start(node: ExporterNode, **env: str) -> None:
    await node.start(DCGM_EXPORTER_INTERVAL=str(INTERVAL_MS), **env)
    await eventually(node, is_whole(2), "a first look")


async def test_no_call_that_fails_costs_more_than_its_own_gpu_or_outlasts_its_fault(
    node: ExporterNode,
) -> None:
    with node.gpus() as gpus:
        mig.layout(gpus, 1, PROFILES)
    tree = str(node.root)
    told = subprocess.run(
        [sys.executable, "-c", CALLS, tree], env=node.env(), capture_output=True, check=True
    )
    calls = told.stdout.decode().split()
    assert len(calls) > 40
    assert {"nvmlDeviceGetFieldValues", "nvmlGpmSampleGet", "nvmlEventSetWait_v2"} <= set(calls)
    await start(node)
    for call in calls:
        with node.gpus() as gpus:
            call_faults.fail(gpus, call, 999, gpu=1)
        await looks_later(node, 2)
        await eventually(node, shows_gpu_0, f"GPU 0, while {call} of GPU 1 fails")
        with node.gpus() as gpus:
            call_faults.mend(gpus)
            call_faults.fail(gpus, call, 999)
        await looks_later(node, 2)
        with node.gpus() as gpus:
            call_faults.mend(gpus)
        await eventually(node, is_whole(2), f"{call} works again")


@pytest.mark.skipif(FAKETIME is None, reason="libfaketime is not here (Debian package faketime)")
@pytest.mark.parametrize("jump_s", [86_400, -86_400])
async def test_a_wall_clock_that_is_set_changes_nothing_but_the_times_that_are_shown(
    node: ExporterNode, tmp_path: Path, jump_s: int
) -> None:
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    first, second = node.uuids()
    node.add(Pod("works", (first,)), on=0)
    node.add(Pod("rests", (second,)))
    with node.gpus() as gpus:
        work.set_load(gpus, 0, Course.constant(80))
    await start(
        node,
        LD_PRELOAD=str(FAKETIME),
        FAKETIME_TIMESTAMP_FILE=str(clock),
        FAKETIME_NO_CACHE="1",
        FAKETIME_DONT_FAKE_MONOTONIC="1",
    )
    with node.gpus() as gpus:
        gpus.raise_xid(1, 43)
    before = await eventually(node, lambda page: page.rows("gpuready_xid_errors_total"), "the XID")
    assert abs(before.number("gpuready_xid_last_time_seconds") - time.time()) < 60

    clock.write_text(f"{jump_s:+d}\n")
    with node.gpus() as gpus:
        gpus.raise_xid(1, 31)
    shown = await eventually(node, lambda page: page.rows("gpuready_xid_errors_total", xid="31"), "the next")
    assert abs(shown.number("gpuready_xid_last_time_seconds", xid="31") - time.time() - jump_s) < 60
    await looks_later(node, 5)
    after = await eventually(node, is_whole(2), "both GPUs")

    assert after.number("gpuready_xid_errors_total", xid="43") == 1
    assert after.number("DCGM_FI_DEV_XID_ERRORS", gpu="1") == 31, "it is not out of its window"
    assert after.number("gpuready_allocation_idle_seconds", pod="works") < 60
    assert after.number("gpuready_allocation_idle_seconds", pod="rests") < 60
    assert after.number("gpuready_exporter_mapping_age_seconds") < 60
    if jump_s > 0:  # the simulator's load began at a time of the wall clock: before that the GPU did nothing
        use = "gpuready_pod_sm_utilization_ratio"
        await eventually(node, lambda page: page.number(use, pod="works") > 0.5, "what the pod uses")


async def test_gpus_that_are_cut_up_and_made_whole_again_under_it_are_shown_as_they_are(
    node: ExporterNode,
) -> None:
    await start(node)
    known = {(profile, str(number)) for number, profile in enumerate(sorted(PROFILES, reverse=True), 1)}
    for turn in range(40):
        with node.gpus() as gpus:
            if turn % 2:
                mig.disable(gpus, 1)
            else:
                mig.layout(gpus, 1, PROFILES)
        page = await eventually(node, shows_gpu_0, "GPU 0, whatever GPU 1 is cut into")
        parts = [row.labels for row in page.rows("DCGM_FI_DEV_FB_USED", gpu="1") if "GPU_I_ID" in row.labels]
        assert {(part["GPU_I_PROFILE"], part["GPU_I_ID"]) for part in parts} <= known
        assert "asking NVML failed" not in (await http(f"{node.url}/health"))[1]
    await looks_later(node, 2)
    whole = await eventually(node, is_whole(2), "GPU 1 as a whole")
    assert [row for row in whole.rows("DCGM_FI_DEV_FB_USED") if "GPU_I_ID" in row.labels] == []


async def test_a_gpu_that_is_taken_out_on_purpose_is_forgotten_and_one_that_is_lost_is_not(
    node: ExporterNode,
) -> None:
    await start(node)
    pause = node.root / "run/gpuready/desired/pause"
    pause.parent.mkdir(parents=True, exist_ok=True)
    pause.write_text("GPU 0 goes to a virtual machine\n")
    await eventually(node, lambda page: not page.number("gpuready_exporter_nvml_up"), "NVML is let go")
    put_back = node.take_out(0)
    pause.unlink()
    page = await eventually(node, lambda page: page.rows("DCGM_FI_DEV_GPU_TEMP", gpu="1"), "the other GPU")
    assert page.rows("gpuready_exporter_gpu_silent", gpu="0") == []
    assert await http(f"{node.url}/health") == (200, "OK\n")

    pause.write_text("it comes back\n")
    await eventually(node, lambda page: not page.number("gpuready_exporter_nvml_up"), "NVML is let go")
    put_back()
    pause.unlink()
    await eventually(node, is_whole(2), "both")

    with node.gpus() as gpus:
        gpus.raise_xid(0, 79)
    await eventually(node, lambda page: page.number("gpuready_exporter_gpu_silent", gpu="0"), "it is missed")
    later = await looks_later(node, 5)
    assert later.number("gpuready_exporter_gpu_silent", gpu="0") == 1


async def test_a_kubelet_that_answers_with_16_mb_delays_no_scrape_and_costs_nothing_afterwards(
    node: ExporterNode,
) -> None:
    node.add(Pod("mine", (node.uuids()[0],)))
    many = range(16 * 2**20 // 700)
    node.pods += [Pod(f"other-{n}", ("x" * 600,), "example.com/nic", f"namespace-{n}") for n in many]
    node.answers_alike()
    await start(node)
    await eventually(node, lambda page: page.rows("gpuready_allocation_info", pod="mine"), "the pod")
    asked = (await page_of(node)).number("gpuready_exporter_kubelet_lists_total", result="ok")

    def taken(page: Page) -> bool:
        return page.number("gpuready_exporter_kubelet_lists_total", result="ok") >= asked + 3

    waits = []
    page = await page_of(node)
    while not taken(page):
        begun = time.monotonic()
        await http(f"{node.url}/health")
        waits.append(time.monotonic() - begun)
        page = await page_of(node)
    assert page.rows("gpuready_allocation_info", pod="mine")
    assert page.rows("gpuready_exporter_unattributed_devices") == []
    assert max(waits) < 2, sorted(waits)[-5:]

    assert node.exporter is not None
    del node.pods[1:]
    node.answers_alike()
    asked = page.number("gpuready_exporter_kubelet_lists_total", result="ok")
    await eventually(node, taken, "an answer as usual")
    assert memory(node.exporter.pid).rss_mb < 40


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("openssl")), reason="no curl or no openssl here"
)
async def test_a_page_behind_tls_and_a_password_is_served_with_the_certificate_of_this_moment(
    node: ExporterNode,
) -> None:
    folder = node.container / "etc/web"
    folder.mkdir(parents=True)
    make_certificate(folder, "first")
    (folder / "web.yaml").write_text(
        "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
        f"basic_auth_users: {{prometheus: {PASSWORD_HASH}}}\n"
    )
    command = [sys.executable, "-m", "gpuready.cli", "exporter", "--web-config-file", "/etc/web/web.yaml"]
    exporter = subprocess.Popen(command, env=node.env())
    try:
        assert await code_of(node, user="prometheus:secret") == "200"
        assert await code_of(node, user="prometheus:wrong") == "401"
        assert await code_of(node) == "401"
        make_certificate(folder, "second")
        deadline = time.monotonic() + DEADLINE_S
        while "CN=second" not in await certificate_of(node):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)
    finally:
        exporter.terminate()
        exporter.wait()
    await start(node)
    assert node.exporter is not None
    assert "libssl" not in Path(f"/proc/{node.exporter.pid}/maps").read_text(), "nobody asked for TLS"


PASSWORD_HASH = "$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"


def make_certificate(folder: Path, name: str) -> None:
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subject = ["-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *files, *subject]
    subprocess.run(command, check=True, capture_output=True)


async def code_of(node: ExporterNode, user: str = "") -> str:
    """Of the answer to a scrape by TLS, as soon as there is one."""
    deadline = time.monotonic() + DEADLINE_S
    credentials = ["-u", user] if user else []
    while True:
        _, said = await curl("-o", "/dev/null", "-w", "%{http_code}", *credentials, tls_url(node))
        if said != "000":
            return said
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


async def certificate_of(node: ExporterNode) -> str:
    told, _ = await curl("-v", "-o", "/dev/null", tls_url(node))
    return told


def tls_url(node: ExporterNode) -> str:
    return f"{node.url.replace('http:', 'https:')}/metrics"


async def curl(*arguments: str) -> tuple[str, str]:
    """What it told of itself, and what it printed."""
    command = ["curl", "-s", "-k", "-m", "5", *arguments]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    return done.stderr, done.stdout
