"""The exporter as a pod of a node: whose GPU it is, what a CSV with mistakes leads to, and how it is told.

The seed incident: three pods share one GPU, the kubelet lists them in another order each time (it always
does), and NVIDIA's exporter named one of them at random. C24: a CSV with human mistakes.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families
from tests.sim.node_cluster import FAST, Object, daemon_pod, gpu_node, log_of, pod, running_pod, whole
from tests.sim.operator_cluster import DEADLINE_S, NAMESPACE, http, operand, policy, ready, wait_http

from gpuready_sim.cluster.handle import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXPORTER = "dcgm-exporter"
INTERVAL_S = 0.2
MIB = 2**20
SPEC = """
nodes:
- {name: g1, gpus: {L4: 1}, driver: {where: host}}
"""
C24 = "\r\n".join(
    [
        "# comment at column 0",
        "   # indented comment",
        "DCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature (in C).",
        "DCGM_FI_DEV_POWER_USAGE, gauge, Power draw, in watts",
        'DCGM_FI_DEV_FB_USED, gauge, "Memory used, MiB"',
        "DCGM_FI_DEV_NO_SUCH_FIELD, gauge, nope",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, needs profiling (not on this GPU)",
        "DCGM_FI_DEV_GPU_TEMP, gauge, duplicate",
        "DCGM_FI_DEV_XID_ERRORS, conter, typo in type",
        "DCGM_FI_DRIVER_VERSION, label, Driver version",
        "",
    ]
)
SHARING = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"


def config_map(name: str, **data: str) -> Object:
    meta = {"name": name, "namespace": NAMESPACE}
    data = {key.replace("_", "."): text for key, text in data.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def rows(env: dict[str, str]) -> list[Object]:
    return [{"name": name, "value": value} for name, value in env.items()]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: Path) -> AsyncIterator[Cluster]:
    wanted = policy(
        devicePlugin={"env": rows(FAST), "config": {"name": "sharing", "default": "four"}},
        dcgmExporter={
            "enabled": True,
            "config": {"name": "counters"},
            "enablePodUID": True,
            "enablePodLabels": True,
            "podLabelAllowlistRegex": ["^team$"],
            "env": rows({"DCGM_EXPORTER_INTERVAL": str(int(INTERVAL_S * 1000))}),
        },
    )
    async with Cluster.started(SPEC) as running:
        await running.apply(
            config_map("sharing", four=SHARING), config_map("counters", counters_csv=C24), wanted
        )
        await whole(running, "g1")
        yield running


async def address(cluster: Cluster) -> str:
    found = await daemon_pod(cluster, "g1", EXPORTER, lambda each: bool(each["status"].get("podIP")))
    return f"http://{found['status']['podIP']}:9400"


async def scrape(cluster: Cluster) -> str:
    status, body = await http(f"{await address(cluster)}/metrics")
    assert status == 200, body
    return body


def samples(page: str, name: str) -> list[dict[str, Any]]:
    return [
        {**sample.labels, "value": sample.value}
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name
    ]


def series(page: str) -> set[str]:
    """Names and labels of all lines of GPUs and pods, without values."""
    lines = [line.rpartition(" ")[0] for line in page.splitlines() if not line.startswith("#")]
    return {line for line in lines if not line.startswith("gpuready_exporter_")}


async def eventually(cluster: Cluster, check: Callable[[str], bool], what: str) -> str:
    """The first page of which `check` holds."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        status, page = await http(f"{await address(cluster)}/metrics")
        if status == 200 and check(page):
            return page
        assert time.monotonic() < deadline, f"no page shows {what}:\n{page}"
        await asyncio.sleep(INTERVAL_S / 4)


def _has_looked(obj):
    """Its record may still be of the moment before the first look."""
    return any(row["state"] != "waiting" for row in obj["status"].get("operands") or ())


async def test_a_policy_brings_an_exporter_that_is_ready_and_says_so(cluster):
    found = await ready(cluster)

    row = operand(found, EXPORTER)
    assert (row["state"], row["flavour"], row["desired"], row["ready"]) == ("ready", "own", 1, 1)
    node = await gpu_node(cluster, "g1", _has_looked)
    [told] = node["status"]["operands"]
    assert (told["name"], told["state"], told["reason"]) == (EXPORTER, "degraded", "CountersRejected")


async def test_c24_good_lines_are_used_and_bad_ones_told(cluster):
    await ready(cluster)
    page = await eventually(cluster, lambda page: "DCGM_FI_DEV_GPU_TEMP{" in page, "a first look")

    shown = {line.split("{")[0] for line in page.splitlines() if line.startswith("DCGM_")}
    assert shown == {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED"}
    [temperature] = samples(page, "DCGM_FI_DEV_GPU_TEMP")
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", temperature["DCGM_FI_DRIVER_VERSION"])
    _, told = await http(f"{await address(cluster)}/health")
    lines = [found[1] for text in told.splitlines() if (found := re.match(r"line (\d+)", text))]
    assert lines == ["4", "6", "8", "9", "7"]
    assert (
        "line 7 (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE): no GPU of this node tells it: the GPU has no GPM" in told
    )
    assert samples(page, "gpuready_exporter_rejected_lines") == [{"value": 4.0}]
    [row] = (await gpu_node(cluster, "g1", _has_looked))["status"]["operands"]
    assert {"4", "6", "8", "9"} <= {re.match(r"line (\d+)", text)[1] for text in row["details"]}
    text = await log_of(cluster, "g1", EXPORTER)
    assert "did you mean" in text


async def test_three_pods_on_one_gpu_never_change_a_label(cluster):
    await ready(cluster)
    async with (
        running_pod(cluster, pod("a", "g1", "gpu-hold", "--memory", "1000")),
        running_pod(cluster, pod("b", "g1", "gpu-hold", "--memory", "2000")),
        running_pod(cluster, pod("c", "g1")),
    ):
        await eventually(cluster, shows_all_memory, "three holders with what they use")
        await asyncio.sleep(2 * INTERVAL_S)  # so that even a rate over two looks is there
        first = await scrape(cluster)
        before = samples(first, "gpuready_exporter_collections_total")[0]["value"]

        pages = [first]
        while samples(pages[-1], "gpuready_exporter_collections_total")[0]["value"] < before + 30:
            await asyncio.sleep(INTERVAL_S / 2)
            pages.append(await scrape(cluster))

        assert [sorted(series(page) ^ series(first)) for page in pages] == [[]] * len(pages)
        assert [row["pod"] for row in samples(first, "gpuready_allocation_info")] == ["a", "b", "c"]
        assert all(row["sharing"] == "shared" for row in samples(first, "gpuready_allocation_info"))
        [temperature] = samples(first, "DCGM_FI_DEV_GPU_TEMP")
        assert "pod" not in temperature
        used = {row["pod"]: row["value"] / MIB for row in samples(first, "gpuready_pod_memory_used_bytes")}
        assert used == {"a": 1000, "b": 2000, "c": 0}
        [rest] = samples(first, "gpuready_unattributed_memory_used_bytes")
        [whole_gpu] = samples(first, "DCGM_FI_DEV_FB_USED")
        assert sum(used.values()) + rest["value"] / MIB == whole_gpu["value"]
    await eventually(cluster, lambda page: not samples(page, "gpuready_allocation_info"), "nobody holds it")


def shows_all_memory(page: str) -> bool:
    used = {row["pod"]: row["value"] / MIB for row in samples(page, "gpuready_pod_memory_used_bytes")}
    return used == {"a": 1000, "b": 2000, "c": 0}


async def test_the_one_pod_on_a_gpu_is_named_as_the_original_names_it(cluster):
    await ready(cluster)
    asked = pod("alone", "g1")
    asked["metadata"]["labels"] = {"team": "ml", "other": "x"}
    async with running_pod(cluster, asked) as made:
        page = await eventually(
            cluster,
            lambda page: {"team", "pod_uid"} <= samples(page, "DCGM_FI_DEV_GPU_TEMP")[0].keys(),
            "its label, from the API server, and its uid, from the node",
        )

        [row] = samples(page, "DCGM_FI_DEV_GPU_TEMP")
        assert (row["pod"], row["namespace"], row["container"]) == ("alone", "default", "c0")
        assert row["team"] == "ml"
        assert "other" not in row
        assert row["pod_uid"] == made["metadata"]["uid"]


async def test_while_the_gpus_are_about_to_change_the_driver_is_let_go(cluster):
    await ready(cluster)
    file = cluster.node_root("g1") / "run/gpuready/desired/pause"
    file.write_text("MIG is being changed\n")
    try:
        told = await wait_http(f"{await address(cluster)}/health", status=503)
        assert told == "WAITING\nthe GPUs are about to be changed: MIG is being changed\n"
        await eventually(cluster, lambda page: "gpuready_exporter_nvml_up 0" in page, "that NVML is let go")
        assert not samples(await scrape(cluster), "DCGM_FI_DEV_GPU_TEMP")
    finally:
        file.unlink()
    await eventually(cluster, lambda page: "DCGM_FI_DEV_GPU_TEMP{" in page, "values again")
    await wait_http(f"{await address(cluster)}/health")


async def test_a_driver_that_is_exchanged_on_the_host_is_not_held_up_and_read_anew(cluster):
    await ready(cluster)
    await cluster.fault("driver-update", node="g1", version="570.124.06")
    told = await wait_http(f"{await address(cluster)}/health", status=503)
    assert "the driver's library is 570.124.06 and its module 570." in told
    await cluster.fault("driver-reload", node="g1")

    def is_new(page: str) -> bool:
        rows = samples(page, "DCGM_FI_DEV_GPU_TEMP")
        return bool(rows) and rows[0]["DCGM_FI_DRIVER_VERSION"] == "570.124.06"

    await wait_http(f"{await address(cluster)}/health")
    await eventually(cluster, is_new, "the new driver's version")
