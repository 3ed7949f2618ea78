"""kubectl get: what each line says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuready_sim.apiserver import ages, jsonpath, tables
from gpuready_sim.apiserver.schemas import BUILTINS, BuiltinResource

Object = dict[str, Any]
NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
CREATED = "2026-01-01T11:55:00Z"


def resource(kind: str, group: str = "") -> BuiltinResource:
    return next(one for one in BUILTINS if (one.group, one.kind) == (group, kind))


def line(kind: str, obj: Object, group: str = "", *, wide: bool = False) -> Object:
    """What is shown, by column."""
    obj = {"metadata": {"name": "x", "creationTimestamp": CREATED} | obj.pop("metadata", {})} | obj
    columns = tables.columns_of(resource(kind, group))
    cells = tables.row_of(resource(kind, group), obj, now=NOW)["cells"]
    assert len(columns) == len(cells)
    return {
        column["name"]: cell
        for column, cell in zip(columns, cells, strict=True)
        if wide or column["priority"] == 0
    }


def pod(*statuses: Object, init: list[Object] | None = None, phase: str = "Running", **more: Any) -> Object:
    spec: Object = {"containers": [{"name": one["name"]} for one in statuses]}
    status: Object = {"phase": phase, "containerStatuses": list(statuses)}
    if init is not None:
        spec["initContainers"] = [{"name": one["name"]} for one in init]
        status["initContainerStatuses"] = init
    return {"spec": spec, "status": status} | more


def container(name: str = "c", *, ready: bool = False, restarts: int = 0, **state: Object) -> Object:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state}


RUNNING = container(ready=True, running={})


@pytest.mark.parametrize(
    ("obj", "ready", "status"),
    [
        pytest.param(
            {"spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending"}},
            "0/1",
            "Pending",
            id="new",
        ),
        pytest.param(pod(RUNNING), "1/1", "Running", id="running"),
        pytest.param(
            pod(RUNNING, container("d", waiting={"reason": "CrashLoopBackOff"})),
            "1/2",
            "CrashLoopBackOff",
            id="one crashes",
        ),
        pytest.param(
            pod(container(waiting={"reason": "ContainerCreating"}), phase="Pending"),
            "0/1",
            "ContainerCreating",
            id="starting",
        ),
        pytest.param(
            pod(container(terminated={"reason": "Completed", "exitCode": 0}), phase="Succeeded"),
            "0/1",
            "Completed",
            id="done",
        ),
        pytest.param(
            pod(container(terminated={"reason": "Error", "exitCode": 1}), phase="Failed"),
            "0/1",
            "Error",
            id="failed",
        ),
        pytest.param(
            pod(container(terminated={"exitCode": 3}), phase="Failed"), "0/1", "ExitCode:3", id="no reason"
        ),
        pytest.param(
            pod(
                container(waiting={"reason": "PodInitializing"}),
                init=[container("i", running={})],
                phase="Pending",
            ),
            "0/1",
            "Init:0/1",
            id="first init container runs",
        ),
        pytest.param(
            pod(
                container(waiting={"reason": "PodInitializing"}),
                init=[
                    container("i", terminated={"exitCode": 0}),
                    container("j", waiting={"reason": "PodInitializing"}),
                ],
                phase="Pending",
            ),
            "0/1",
            "Init:1/2",
            id="second init container is next",
        ),
        pytest.param(
            pod(
                container(waiting={"reason": "PodInitializing"}),
                init=[container("i", waiting={"reason": "CrashLoopBackOff"})],
                phase="Pending",
            ),
            "0/1",
            "Init:CrashLoopBackOff",
            id="an init container crashes",
        ),
        pytest.param(
            pod(
                container(waiting={"reason": "PodInitializing"}),
                init=[container("i", terminated={"exitCode": 1, "reason": "Error"})],
                phase="Pending",
            ),
            "0/1",
            "Init:Error",
            id="an init container failed",
        ),
        pytest.param(
            pod(RUNNING, metadata={"deletionTimestamp": CREATED}), "1/1", "Terminating", id="being deleted"
        ),
        pytest.param(
            {
                "spec": {"containers": [{"name": "c"}]},
                "status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"},
            },
            "0/1",
            "UnexpectedAdmissionError",
            id="refused by the kubelet",
        ),
    ],
)
def test_the_status_of_a_pod(obj: Object, ready: str, status: str) -> None:
    shown = line("Pod", obj)

    assert (shown["Ready"], shown["Status"]) == (ready, status)


def test_restarts_say_when_the_last_one_was() -> None:
    crashed = container(ready=True, restarts=3, running={}) | {
        "lastState": {"terminated": {"finishedAt": "2026-01-01T11:59:15Z"}}
    }

    assert line("Pod", pod(crashed)) == {
        "Name": "x", "Ready": "1/1", "Status": "Running", "Restarts": "3 (45s ago)", "Age": "5m",
    }  # fmt: skip


def test_finished_pods_are_marked_for_kubectl() -> None:
    obj = {"metadata": {"name": "x"}, "status": {"phase": "Succeeded"}}

    (condition,) = tables.row_of(resource("Pod"), obj, now=NOW)["conditions"]

    assert (condition["type"], condition["reason"]) == ("Completed", "Succeeded")


def test_a_node_shows_status_roles_version_and_more_when_wide() -> None:
    node = {
        "metadata": {"labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "gpu"}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.2"}],
            "nodeInfo": {
                "kubeletVersion": "v1.37.0",
                "osImage": "Ubuntu 22.04.5 LTS",
                "kernelVersion": "5.15",
            },
        },
    }

    assert line("Node", node, wide=True) == {
        "Name": "x",
        "Status": "Ready,SchedulingDisabled",
        "Roles": "control-plane,gpu",
        "Age": "5m",
        "Version": "v1.37.0",
        "Internal-IP": "127.0.0.2",
        "External-IP": "<none>",
        "OS-Image": "Ubuntu 22.04.5 LTS",
        "Kernel-Version": "5.15",
        "Container-Runtime": "<unknown>",
    }


def test_a_daemon_set_counts_its_pods() -> None:
    obj = {
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "spec": {"nodeSelector": {"gpu": "true"}, "containers": [{"name": "c", "image": "i"}]}
            },
        },
        "status": {
            "desiredNumberScheduled": 3,
            "currentNumberScheduled": 3,
            "numberReady": 2,
            "numberAvailable": 2,
        },
    }

    assert list(line("DaemonSet", obj, "apps", wide=True).values()) == [
        "x", 3, 3, 2, 0, 2, "gpu=true", "5m", "c", "i", "a=b",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "group", "event"),
    [
        (
            "Event",
            "",
            {
                "involvedObject": {"kind": "Pod", "name": "p"},
                "source": {"component": "kubelet"},
                "message": "m\n",
                "firstTimestamp": CREATED,
                "lastTimestamp": "2026-01-01T11:59:00Z",
                "count": 4,
            },
        ),
        (
            "Event",
            "events.k8s.io",
            {
                "regarding": {"kind": "Pod", "name": "p"},
                "reportingController": "kubelet",
                "note": "m",
                "eventTime": "2026-01-01T11:55:00.000000Z",
                "series": {"count": 4, "lastObservedTime": "2026-01-01T11:59:00.000000Z"},
            },
        ),
    ],
)
def test_both_kinds_of_events_look_the_same(kind: str, group: str, event: Object) -> None:
    assert line(kind, event | {"type": "Warning", "reason": "Failed"}, group, wide=True) == {
        "Last Seen": "60s",
        "Type": "Warning",
        "Reason": "Failed",
        "Object": "pod/p",
        "Subobject": "",
        "Source": "kubelet",
        "Message": "m",
        "First Seen": "5m",
        "Count": 4,
        "Name": "x",
    }


def test_every_builtin_kind_fits_its_columns_even_when_empty() -> None:
    for one in BUILTINS:
        line(one.kind, {}, one.group, wide=True)


CRD = {
    "spec": {
        "versions": [
            {
                "name": "v1",
                "additionalPrinterColumns": [
                    {"name": "Driver", "type": "string", "jsonPath": ".status.columns.driver"},
                    {"name": "GPUs", "type": "integer", "jsonPath": ".status.gpus"},
                    {
                        "name": "Ready",
                        "type": "string",
                        "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
                    },
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                    {
                        "name": "More",
                        "type": "string",
                        "jsonPath": ".status.list",
                        "priority": 1,
                        "description": "d",
                    },
                ],
            },
            {"name": "v2"},
        ]
    }
}


def gpu_node(version: str) -> BuiltinResource:
    return BuiltinResource("x.dev", version, "GPUNode", "gpunodes", "gpunode", (), False, (), ())


def test_a_custom_kind_shows_its_own_columns() -> None:
    obj = {
        "metadata": {"name": "n", "creationTimestamp": CREATED},
        "status": {
            "columns": {"driver": "ok"},
            "gpus": 8,
            "conditions": [{"type": "Ready", "status": "True"}],
            "list": [1],
        },
    }

    columns = tables.columns_of(gpu_node("v1"), CRD)
    assert [(one["name"], one["type"], one["priority"]) for one in columns] == [
        ("Name", "string", 0), ("Driver", "string", 0), ("GPUs", "integer", 0), ("Ready", "string", 0),
        ("Age", "date", 0), ("More", "string", 1),
    ]  # fmt: skip
    assert tables.row_of(gpu_node("v1"), obj, CRD, now=NOW)["cells"] == ["n", "ok", 8, "True", "5m", "[1]"]


def test_what_a_custom_object_lacks_stays_empty() -> None:
    obj = {"metadata": {"name": "n"}}

    assert tables.row_of(gpu_node("v1"), obj, CRD, now=NOW)["cells"] == ["n", None, None, None, None, None]
    assert tables.row_of(gpu_node("v2"), obj, CRD, now=NOW)["cells"] == ["n", None]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (660, "11m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (9 * 3600, "9h"),
        (47 * 3600, "47h"),
        (50 * 3600, "2d2h"),
        (10 * 86400, "10d"),
        (800 * 86400, "2y70d"),
        (-5, "<invalid>"),
    ],
)
def test_ages_read_as_kubectl_writes_them(seconds: int, text: str) -> None:
    assert ages.human(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]),
        ('.l[?(@.t=="x")].v', [7]),
        (".l[*].t", ["x", "y"]),
        (".l[1].t", ["y"]),
        (".l[-1].t", ["y"]),
        (r".labels.nvidia\.com/gpu\.count", ["8"]),
        (r".labels['nvidia\.com/gpu\.count']", ["8"]),
        (".labels['nvidia.com/gpu.count']", []),  # a path of three names
        (".missing.b", []),
        ("spam[", []),
    ],
)
def test_paths_of_printer_columns(path: str, found: list[Any]) -> None:
    obj = {"a": {"b": 1}, "l": [{"t": "x", "v": 7}, {"t": "y"}], "labels": {"nvidia.com/gpu.count": "8"}}

    assert jsonpath.find(obj, path) == found
