"""What the page says of GPUs and of the pods that hold them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.operands.exporter.gpus import (
    DRIVER,
    GPU_TEMP,
    SERIAL,
    USED,
    UTIL,
    XIDS,
    gpu,
    held,
    mig_gpu,
    sample,
)

from gpuready.gpu.telemetry.model import Activity, Collection, ProcessUse
from gpuready.node.kubelet.pod_resources import Held, Holder
from gpuready.operands.exporter.attribution import attribute
from gpuready.operands.exporter.exposition import render
from gpuready.operands.exporter.families import Listed, Style, device_families, pod_families, usage_inputs
from gpuready.operands.exporter.settings import FIRST, NONE, VIRTUAL_GPUS
from gpuready.operands.exporter.usage import shared_out

LISTED = {field.id: (Listed(field.name, str(field.kind), field.help),) for field in (GPU_TEMP, UTIL, USED)}
STYLE = Style(listed=LISTED, hostname="node-1")
GPU_0 = (
    'gpu="0",UUID="GPU-0",pci_bus_id="00000000:00:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3"'
)


def style(**more: Any) -> Style:
    return Style(**{"listed": LISTED, "hostname": "node-1", **more})


def page(
    collection: Collection,
    *held_by: Held,
    look: Style = STYLE,
    pods: dict[int, tuple[str, str]] | None = None,
    since: dict[Holder, float] | None = None,
) -> str:
    attribution = attribute(held_by, collection.devices)
    memory, time = usage_inputs(collection)
    processes = [(each, each.memory_bytes) for each in collection.processes]
    shares = [
        (each, None if each.sm_percent is None else each.sm_percent / 100) for each in collection.processes
    ]
    uses = (
        shared_out(processes, pods or {}, attribution, memory),
        shared_out(shares, pods or {}, attribution, time),
    )
    return render(
        [
            *device_families(collection, attribution, look, *uses),
            *pod_families(collection, attribution, look, *uses, since or {}),
        ]
    ).decode()


def lines(text: str, name: str) -> list[str]:
    return [line for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name]


def test_a_line_has_the_originals_labels_in_its_order():
    collection = Collection((gpu(),), (sample(GPU_TEMP, 41, gpu()), sample(DRIVER, "570.86.10")))

    text = page(collection, held("a", "GPU-0"), look=style(labels={1: "DCGM_FI_DRIVER_VERSION"}))

    assert lines(text, "DCGM_FI_DEV_GPU_TEMP") == [
        f'DCGM_FI_DEV_GPU_TEMP{{{GPU_0},Hostname="node-1",DCGM_FI_DRIVER_VERSION="570.86.10",'
        'container="main",namespace="team",pod="a"} 41'
    ]
    assert "# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n" in text


def test_an_instance_is_named_by_profile_and_id():
    device = mig_gpu(0, gi3="1g.10gb")
    collection = Collection((device,), (sample(USED, 5, device, instance=device.instances[0]),))

    [line] = lines(page(collection), "DCGM_FI_DEV_FB_USED")

    assert 'modelName="NVIDIA H100 80GB HBM3",GPU_I_PROFILE="1g.10gb",GPU_I_ID="3",Hostname="node-1"}' in line


def test_a_link_has_the_originals_names_for_links():
    collection = Collection((gpu(),), (sample(GPU_TEMP, 5, gpu(), link=4),))

    [line] = lines(page(collection, held("a", "GPU-0")), "DCGM_FI_DEV_GPU_TEMP")

    assert line == (
        'DCGM_FI_DEV_GPU_TEMP{nvlink="4",gpu="0",gpu_uuid="GPU-0",pci_bus_id="00000000:00:00.0",'
        'device="nvidia0",model_name="NVIDIA H100 80GB HBM3",hostname="node-1"} 5'
    )


def test_the_spelling_type_and_help_of_the_csv_are_used():
    listed = {150: (Listed("DCGM_FI_DEV_GPU_TEMP_CELSIUS", "counter", "mine"),)}
    text = page(Collection((gpu(),), (sample(GPU_TEMP, 41, gpu()),)), look=style(listed=listed))

    assert "# HELP DCGM_FI_DEV_GPU_TEMP_CELSIUS mine\n# TYPE DCGM_FI_DEV_GPU_TEMP_CELSIUS counter\n" in text
    assert "DCGM_FI_DEV_GPU_TEMP{" not in text


def test_what_the_csv_does_not_list_is_not_shown_but_our_own_is():
    collection = Collection(
        (gpu(),), (sample(GPU_TEMP, 41, gpu()), sample(XIDS, 2, gpu(), labels=(("xid", "79"),)))
    )
    text = page(collection, look=style(listed={}))

    assert "GPU_TEMP" not in text
    assert lines(text, "gpuready_xid_errors_total") == [
        f'gpuready_xid_errors_total{{{GPU_0},Hostname="node-1",xid="79"}} 2'
    ]


def test_label_fields_stand_on_every_line_of_their_gpu():
    collection = Collection(
        (gpu(0), gpu(1)),
        (sample(GPU_TEMP, 1, gpu(0)), sample(GPU_TEMP, 2, gpu(1)), sample(SERIAL, "s0", gpu(0))),
    )
    first, second = lines(
        page(collection, look=style(labels={53: "DCGM_FI_DEV_SERIAL"})), "DCGM_FI_DEV_GPU_TEMP"
    )

    assert 'DCGM_FI_DEV_SERIAL="s0"' in first
    assert "SERIAL" not in second


def test_old_label_names_on_request():
    collection = Collection((gpu(),), (sample(GPU_TEMP, 41, gpu()),))

    [line] = lines(page(collection, held("a", "GPU-0"), look=style(old_names=True)), "DCGM_FI_DEV_GPU_TEMP")

    assert 'uuid="GPU-0"' in line
    assert 'container_name="main",pod_name="a",pod_namespace="team"' in line


def test_no_host_name_and_no_blanks_on_request():
    collection = Collection((gpu(),), (sample(GPU_TEMP, 41, gpu()),))

    [line] = lines(page(collection, look=style(hostname="", replace_blanks=True)), "DCGM_FI_DEV_GPU_TEMP")

    assert line.endswith('modelName="NVIDIA-H100-80GB-HBM3"} 41')


# --- the seed incident: three pods on one shared GPU ------------------------------------------------------

THREE = [held("a", "GPU-0::0"), held("b", "GPU-0::1"), held("c", "GPU-0::2")]


@pytest.mark.parametrize("view", ["exclusive", NONE, FIRST, VIRTUAL_GPUS])
def test_thirty_scrapes_with_the_order_shuffled_give_the_same_series(view: str):
    chance = random.Random(7)
    collection = Collection((gpu(),), (sample(GPU_TEMP, 41, gpu()), sample(UTIL, 90, gpu())))
    pages = {page(collection, *chance.sample(THREE, 3), look=style(view=view)) for _ in range(30)}

    assert len(pages) == 1
    info = lines(pages.pop(), "gpuready_allocation_info")
    assert [line.partition('pod="')[2][0] for line in info] == ["a", "b", "c"]


def test_a_shared_gpus_own_series_name_no_pod():
    [line] = lines(page(Collection((gpu(),), (sample(GPU_TEMP, 41, gpu()),)), *THREE), "DCGM_FI_DEV_GPU_TEMP")

    assert line == f'DCGM_FI_DEV_GPU_TEMP{{{GPU_0},Hostname="node-1"}} 41'


def test_each_holder_has_a_line_of_its_own():
    text = page(Collection((gpu(),)), *THREE[:2])

    assert lines(text, "gpuready_allocation_info") == [
        'gpuready_allocation_info{gpu="0",UUID="GPU-0",Hostname="node-1",namespace="team",pod="a",'
        'container="main",resource="nvidia.com/gpu",replica="0",sharing="shared"} 1',
        'gpuready_allocation_info{gpu="0",UUID="GPU-0",Hostname="node-1",namespace="team",pod="b",'
        'container="main",resource="nvidia.com/gpu",replica="1",sharing="shared"} 1',
    ]
    assert lines(text, "gpuready_allocated_shares") == [
        'gpuready_allocated_shares{gpu="0",UUID="GPU-0",Hostname="node-1"} 2'
    ]


MIB = 2**20


def used_by(*processes: tuple[int, int, float], used_mib: int = 100, util: int = 80) -> Collection:
    """(pid, MiB, percent of the SMs) on GPU 0."""
    return Collection(
        (gpu(),),
        (sample(UTIL, util, gpu()), sample(USED, used_mib, gpu())),
        processes=tuple(ProcessUse("GPU-0", None, pid, mib * MIB, sm) for pid, mib, sm in processes),
    )


def test_memory_and_time_are_shared_out_among_pods_and_the_rest():
    collection = used_by((1, 30, 20.0), (2, 50, 40.0), (99, 10, 5.0))
    text = page(collection, *THREE, pods={1: ("team", "a"), 2: ("team", "b")})
    short = 'gpu="0",UUID="GPU-0",Hostname="node-1"'

    assert lines(text, "gpuready_pod_memory_used_bytes") == [
        f'gpuready_pod_memory_used_bytes{{{short},namespace="team",pod="{pod}",container="main"}} {value}'
        for pod, value in (("a", 30.0 * MIB), ("b", 50.0 * MIB), ("c", 0.0))
    ]
    assert lines(text, "gpuready_unattributed_memory_used_bytes") == [
        f"gpuready_unattributed_memory_used_bytes{{{short}}} {20.0 * MIB}"
    ]
    assert [line.rpartition(" ")[2] for line in lines(text, "gpuready_pod_sm_utilization_ratio")] == [
        "0.2",
        "0.4",
        "0.0",
    ]
    [rest] = lines(text, "gpuready_unattributed_sm_utilization_ratio")
    assert float(rest.rpartition(" ")[2]) == pytest.approx(0.2)


def test_copies_for_each_pod_have_its_own_memory_beside_the_devices():
    collection = used_by((1, 30, 20.0), (2, 50, 40.0))
    look = style(view=VIRTUAL_GPUS)
    text = page(collection, *THREE[:2], look=look, pods={1: ("team", "a"), 2: ("team", "b")})

    found = [
        (line.partition('pod="')[2][:1], float(line.rpartition(" ")[2]))
        for line in lines(text, "DCGM_FI_DEV_FB_USED")
    ]
    assert found == [("", 100), ("a", 30), ("b", 50)]


def test_a_device_that_is_held_and_does_nothing_says_for_how_long():
    collection = Collection(
        (gpu(0), gpu(1)),
        activity=(Activity("GPU-0", None, 1000.0, 600.0), Activity("GPU-1", None, None, 1100.0)),
    )
    text = page(collection, held("a", "GPU-0"), held("b", "GPU-1"))

    found = [line.rpartition(" ")[2] for line in lines(text, "gpuready_allocation_idle_seconds")]
    assert found == ["600.0", "1100.0"]


def test_a_pod_has_not_let_lie_idle_what_it_did_not_hold_yet():
    collection = Collection((gpu(0),), activity=(Activity("GPU-0", None, None, 86_400.0),), ended_at=90_000.0)
    of_a, of_b = held("a", "GPU-0::0"), held("b", "GPU-0::1")
    text = page(collection, of_a, of_b, since={of_a.holder: 89_990.0, of_b.holder: 0.0})

    found = [line.rpartition(" ")[2] for line in lines(text, "gpuready_allocation_idle_seconds")]
    assert found == ["10.0", "86400.0"]


names = st.text(min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(names, names, names, names)
def test_hostile_names_never_break_the_page(pod, namespace, model, resource):
    device = gpu(model=model)
    collection = Collection((device,), (sample(GPU_TEMP, 41, device),))
    each = held(pod, "GPU-0", namespace=namespace, resource=resource)

    read = {f.name: f for f in text_string_to_metric_families(page(collection, each))}

    clean = [text.encode("utf-8", "replace").decode() for text in (pod, namespace, model, resource)]
    temp = read["DCGM_FI_DEV_GPU_TEMP"].samples[0].labels
    assert [temp["pod"], temp["namespace"], temp["modelName"]] == clean[:3]
    assert read["gpuready_allocation_info"].samples[0].labels["resource"] == clean[3]
