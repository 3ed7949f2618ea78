"""A policy of the original's Helm chart leads to the original's objects, field by field."""

from __future__ import annotations

import fnmatch
import subprocess
from typing import Any

import pytest
from tests.unit.operands.original.normal_form import by_key, differences, normal, record_objects
from tests.unit.operands.original.recorded import NAMES, plan_of_record

from gpuready.yaml_text import parse_yaml

DRIVER = ("DaemonSet", "nvidia-driver-daemonset")
EXPORTER = ("DaemonSet", "nvidia-dcgm-exporter")

# (record, object, path) -> why we do otherwise. Marks under gpuready.dev/ are ours everywhere.
JUSTIFIED = [
    # One DaemonSet per operating system: the original takes one node's for all, and mixed clusters get images
    # of the wrong one. A single pool has its selector too, for the node that joins with another.
    ("*", DRIVER, "*.nodeSelector.feature.node.kubernetes.io/system-os_release.*"),
    ("*", DRIVER, "*.labels.nvidia.com/node.os-version"),
    # The exporter is told to listen on :9500; the original goes on probing and serving 9400, so the pod is
    # never ready.
    ("P11", EXPORTER, "*.ports.metrics.containerPort"),
    ("P11", EXPORTER, "*Probe.httpGet.port"),
    ("P11", ("Service", "nvidia-dcgm-exporter"), "spec.ports.gpu-metrics.targetPort"),
    # The original's args of these two replace the script that `sh -c` is to run, and the container ends.
    ("P11", ("DaemonSet", "nvidia-device-plugin-daemonset"), "*.nvidia-device-plugin.command"),
    ("P11", ("DaemonSet", "nvidia-mig-manager"), "*.nvidia-mig-manager.command"),
]


def ours(record: str) -> dict[Any, Any]:
    return by_key([obj for each in plan_of_record(record).operands for obj in each.objects])


def is_justified(record: str, key: Any, path: str) -> bool:
    return any(
        fnmatch.fnmatch(record, in_record) and key == of and fnmatch.fnmatch(path, pattern)
        for in_record, of, pattern in JUSTIFIED
    )


@pytest.mark.parametrize("record", NAMES)
def test_the_same_objects_exist_as_the_original_made(record: str) -> None:
    assert set(ours(record)) == set(record_objects(record))


@pytest.mark.parametrize("record", NAMES)
def test_every_field_is_the_originals_save_where_we_know_better(record: str) -> None:
    found = {}
    made, recorded = ours(record), record_objects(record)
    for key in recorded:
        rows = differences(normal(made[key]), normal(recorded[key]))
        found.update(
            {(key, path): pair for path, pair in rows.items() if not is_justified(record, key, path)}
        )
    assert found == {}


def test_no_difference_is_justified_that_is_none() -> None:
    seen = set()
    for record in NAMES:
        made, recorded = ours(record), record_objects(record)
        for key in recorded:
            for path in differences(normal(made[key]), normal(recorded[key])):
                seen |= {
                    row for row in JUSTIFIED if is_justified(record, key, path) and _fits(row, key, path)
                }
    assert seen == set(JUSTIFIED)


def _fits(row: Any, key: Any, path: str) -> bool:
    return bool(row[1] == key and fnmatch.fnmatch(path, row[2]))


@pytest.mark.parametrize("record", NAMES)
def test_all_operands_are_the_originals_and_none_is_refused(record: str) -> None:
    plan = plan_of_record(record)
    shared = ("runtime-classes", "operator-metrics")
    flavours = {each.operand.name: each.flavour for each in plan.operands if each.enabled}
    assert {str(flavour) for name, flavour in flavours.items() if name not in shared} == {"original"}
    assert not plan.refused
    assert set(plan.not_implemented) <= {"driver-upgrade"}


def test_the_default_mig_configurations_have_the_originals_names() -> None:
    key = ("ConfigMap", "default-mig-parted-config")
    made = parse_yaml(ours("P01")[key]["data"]["config.yaml"])
    recorded = record_objects("P01")[key]["data"]["config.yaml"]["entries"]
    assert sorted(made["mig-configs"]) == sorted(recorded)
    assert made["version"] == "v1"


def test_the_default_gpu_clients_are_the_originals() -> None:
    key = ("ConfigMap", "default-gpu-clients")
    made = parse_yaml(ours("P01")[key]["data"]["clients.yaml"])
    recorded = record_objects("P01")[key]["data"]["clients.yaml"]["entries"]
    assert sorted(made["systemd-services"]) == sorted(recorded)


def shell_texts() -> list[tuple[str, str]]:
    """Every script that our objects bring along, once."""
    texts = {}
    for record in NAMES:
        for (kind, name), obj in ours(record).items():
            if kind == "ConfigMap":
                texts.update({(name, text) for key, text in obj["data"].items() if key.endswith(".sh")})
            if kind == "DaemonSet":
                pod = obj["spec"]["template"]["spec"]
                for container in [*pod.get("initContainers", []), *pod["containers"]]:
                    if container.get("command", [])[1:] and container["command"][1].endswith("c"):
                        texts.update({(container["name"], text) for text in container.get("args", [])})
    return sorted(texts.items())


@pytest.mark.parametrize(("where", "text"), shell_texts(), ids=lambda value: str(value)[:24])
def test_every_shell_text_is_shell(where: str, text: str) -> None:
    checked = subprocess.run(["sh", "-n", "-c", text], capture_output=True, text=True, check=False)
    assert (where, checked.stderr) == (where, "")
