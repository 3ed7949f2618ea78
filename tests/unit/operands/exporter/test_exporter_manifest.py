"""What a policy makes of the exporter in a cluster, and how its readiness is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.controller.policies import deployed, gpu_node, raw

from gpuready import names
from gpuready.controller.nodes.summary import decode_gpunode
from gpuready.controller.policy.active import read
from gpuready.controller.policy.observed import Observed
from gpuready.controller.policy.plan import Plan, plan_of
from gpuready.controller.policy.status import status_of
from gpuready.operands.contract import ClusterView
from gpuready.operands.exporter import flags, manifest
from gpuready.operands.exporter.settings import Settings
from gpuready.yaml_text import dump_yaml_documents

GOLDEN = Path(__file__).parent / "exporter.yaml"
NAME = "nvidia-dcgm-exporter"
EVERYTHING = {
    "env": [{"name": "DCGM_EXPORTER_INTERVAL", "value": "15000"}],
    "args": ["--kubernetes-virtual-gpus"],
    "config": {"name": "my-metrics"},
    "service": {"internalTrafficPolicy": "Local"},
    "serviceMonitor": {"enabled": True, "interval": "15s", "additionalLabels": {"release": "prometheus"}},
    "enablePodLabels": True,
    "enablePodUID": True,
    "podLabelAllowlistRegex": ["^app$", "^team$"],
    "hpcJobMapping": {"enabled": True},
    "annotations": {"note": "x"},
    "resources": {"limits": {"memory": "128Mi"}},
}


def planned(configs: dict[str, dict[str, str]] | None = None, **exporter: Any) -> Plan:
    active = read(raw(dcgmExporter={"enabled": True, **exporter}))
    assert active.policy is not None, active.problems
    view = ClusterView("gpu-operator", "gpuready:1", configs=configs or {}, service_monitors=True)
    return plan_of(active, active.policy, view)


def objects(plan: Plan) -> dict[str, Any]:
    return {obj["kind"]: obj for obj in plan.objects if NAME in obj["metadata"]["name"]}


def pod(plan: Plan) -> dict[str, Any]:
    return objects(plan)["DaemonSet"]["spec"]["template"]["spec"]


def env(plan: Plan) -> dict[str, str]:
    return {row["name"]: row.get("value", "") for row in pod(plan)["containers"][0]["env"]}


def test_all_objects_are_as_recorded():
    """`gpuready render` prints the same; a change shows as a diff of this file."""
    active = read(raw(dcgmExporter={"enabled": True, **EVERYTHING}))
    view = ClusterView(
        "gpu-operator", "gpuready:1", configs={"my-metrics": {"dcgm-metrics.csv": ""}}, service_monitors=True
    )
    assert active.policy is not None
    assert dump_yaml_documents(manifest.objects(active.policy, view)) == GOLDEN.read_text()


def test_the_daemon_understands_what_the_manifest_wrote():
    plan = planned({"my-metrics": {"dcgm-metrics.csv": ""}}, **EVERYTHING)
    container = pod(plan)["containers"][0]

    found = Settings.from_env(flags.env_of(container["args"], env(plan)))

    assert found.interval_ms == 15000
    assert found.virtual_gpus
    assert found.kubernetes
    assert found.pod_labels
    assert found.pod_label_allowlist == ("^app$", "^team$")
    assert found.collectors == "/etc/gpuready/metrics/dcgm-metrics.csv"
    assert found.hpc_job_dir == "/var/lib/dcgm-exporter/job-mapping"


def test_names_that_others_depend_on_are_the_originals():
    found = objects(planned())

    assert found["Service"]["metadata"]["name"] == NAME
    assert found["Service"]["metadata"]["annotations"] == {"prometheus.io/scrape": "true"}
    assert found["Service"]["spec"]["ports"] == [{"name": "gpu-metrics", "port": 9400, "targetPort": 9400}]
    assert found["DaemonSet"]["spec"]["template"]["spec"]["nodeSelector"] == {
        "nvidia.com/gpu.deploy.dcgm-exporter": "true"
    }


def test_prometheus_lays_no_pod_of_the_exporter_over_the_pod_of_the_gpu():
    asked = {"enabled": True, "relabelings": [{"targetLabel": "site", "replacement": "a"}]}

    [endpoint] = objects(planned(serviceMonitor=asked))["ServiceMonitor"]["spec"]["endpoints"]

    assert endpoint["relabelings"] == [
        {"action": "labeldrop", "regex": "pod|namespace|container"},
        {"targetLabel": "site", "replacement": "a"},
    ]


def test_only_who_wants_labels_of_pods_gets_a_token():
    quiet, asking = planned(), planned(enablePodLabels=True)

    assert pod(quiet)["automountServiceAccountToken"] is False
    assert "ClusterRole" not in objects(quiet)
    assert pod(asking)["automountServiceAccountToken"] is True
    assert objects(asking)["ClusterRole"]["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    ]


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        pytest.param({"dcgm-metrics.csv": "", "other": ""}, "dcgm-metrics.csv", id="the original's key"),
        pytest.param({"counters.csv": ""}, "counters.csv", id="a single key of any name"),
        pytest.param({}, "dcgm-metrics.csv", id="keys that are not known here"),
    ],
)
def test_a_config_map_brings_the_counters(keys, wanted):
    plan = planned({"m": keys}, config={"name": "m"})

    assert env(plan)["DCGM_EXPORTER_COLLECTORS"] == f"/etc/gpuready/metrics/{wanted}"
    assert {"name": "metrics-config", "configMap": {"name": "m"}} in pod(plan)["volumes"]


def test_several_keys_without_the_right_one_are_named():
    plan = planned({"m": {"a.csv": "", "b.csv": ""}}, config={"name": "m"})

    [refusal] = [each.refusal for each in plan.operands if each.refusal]
    assert (
        refusal.message
        == "the ConfigMap gpu-operator/m has no key dcgm-metrics.csv (its keys are a.csv, b.csv)"
    )


def test_the_originals_variable_for_a_config_map_is_mounted_instead():
    given = [{"name": "DCGM_EXPORTER_CONFIGMAP_DATA", "value": "gpu-operator:m"}]
    plan = planned({"m": {"metrics": ""}}, env=given)

    assert env(plan)["DCGM_EXPORTER_COLLECTORS"] == "/etc/gpuready/metrics/metrics"


@pytest.mark.parametrize(
    ("exporter", "words"),
    [
        ({"env": [{"name": "DCGM_EXPORTER_LISTEN", "value": "9400"}]}, "it must be HOST:PORT or :PORT"),
        ({"args": ["--colectors=x"]}, "--colectors=x is no flag of the exporter"),
    ],
)
def test_settings_that_would_end_the_daemon_are_refused_before_it_replaces_what_runs(exporter, words):
    [refusal] = [each.refusal for each in planned(**exporter).operands if each.refusal]

    assert words in refusal.message
    assert refusal.next_step


def test_another_port_is_told_to_service_and_pod():
    plan = planned(env=[{"name": "DCGM_EXPORTER_LISTEN", "value": ":9500"}])

    assert objects(plan)["Service"]["spec"]["ports"][0]["targetPort"] == 9500
    assert pod(plan)["containers"][0]["ports"] == [{"name": "metrics", "containerPort": 9500}]


# --- readiness --------------------------------------------------------------------------------------------

SILENT = {"state": "degraded", "reason": "GpuSilent", "message": "1 of 2 GPUs do not answer"}
TAKEN = {"state": "broken", "reason": "CannotListen", "message": "port 9400", "nextStep": "free it"}


def row(ready: int, record: dict[str, str] | None) -> dict[str, Any]:
    active = read(raw(dcgmExporter={"enabled": True}))
    assert active.policy is not None
    plan = plan_of(active, active.policy, ClusterView("gpu-operator", "gpuready:1"))
    counts = {"observedGeneration": 1, "desiredNumberScheduled": 1, "updatedNumberScheduled": 1}
    live = {
        obj["metadata"]["name"]: {**obj, "status": {**counts, "numberReady": ready}}
        for obj in plan.objects
        if obj["kind"] == "DaemonSet"
    }
    node = gpu_node()
    if record:
        import json

        body = {
            "metadata": {"name": "g1"},
            "status": {"gpus": 2, "operands": [{"name": "dcgm-exporter", **record}]},
        }
        node = decode_gpunode(json.dumps(body).encode())
    view = deployed(**{names.DEPLOY_EXPORTER: "true"})
    status = status_of(active, plan, Observed([view], {"g1": node}, live), "gpu-operator", "t")
    return next(each for each in status["operands"] if each["name"] == "dcgm-exporter")


@pytest.mark.parametrize(
    ("ready", "record", "state", "reason", "message"),
    [
        pytest.param(1, None, "ready", "Ready", "", id="its pod is ready"),
        pytest.param(
            1, SILENT, "ready", "GpuSilent", "g1: 1 of 2 GPUs do not answer", id="ready, with a silent GPU"
        ),
        pytest.param(
            0, TAKEN, "notReady", "CannotListen", "g1: port 9400; next: free it", id="it says why it is not"
        ),
        pytest.param(
            0,
            {"state": "ok", "reason": "Ready", "message": ""},
            "notReady",
            "PodsNotReady",
            "nvidia-dcgm-exporter: 0 of 1 pod ready; next: kubectl get pods -n gpu-operator -l "
            "app=nvidia-dcgm-exporter, or gpuready doctor",
            id="killed, and its record is still there",
        ),
    ],
)
def test_the_exporter_is_as_ready_as_its_pods_and_says_why(ready, record, state, reason, message):
    found = row(ready, record)

    assert (found["state"], found["reason"], found["message"]) == (state, reason, message)
    assert found["flavour"] == "own"


NAMED = {"enabled": True, "repository": "example.com", "image": "dcgm", "version": "4.6.0"}


@pytest.mark.parametrize(
    ("source", "dcgm", "engine"),
    [
        pytest.param("auto", NAMED, "nvidia-dcgm:5555", id="the engine that the policy runs"),
        pytest.param("dcgm", {"enabled": False}, "", id="none is run: one in this process"),
        pytest.param("nvml", NAMED, "", id="not wanted"),
        pytest.param(None, NAMED, "", id="nothing said"),
    ],
)
@pytest.mark.parametrize("place", ["spec.gpuready.exporter", "env"])
def test_the_exporter_asks_the_policys_engine_where_it_is_to_ask_dcgm(source, dcgm, engine, place):
    found = sourced(dcgm, **{"option" if place != "env" else "variable": source})

    assert found.remote_engine == engine
    assert found.source_in_use == (source or "nvml")


def test_the_source_in_an_env_goes_before_the_policys_own_field():
    found = sourced(NAMED, option="dcgm", variable="nvml")

    assert (found.source_in_use, found.remote_engine) == ("nvml", "")


def test_nvidias_exporter_is_not_told_a_source_and_the_policy_hears_so():
    named = {"enabled": True, "repository": "example.com", "image": "exporter", "version": "1"}
    active = read(raw(dcgmExporter=named, gpuready={"exporter": {"source": "nvml"}}))
    assert active.policy is not None, active.problems
    plan = plan_of(active, active.policy, ClusterView("gpu-operator", "gpuready:1"))

    assert "GPUREADY_EXPORTER_SOURCE" not in env(plan)
    assert "spec.gpuready.exporter: NVIDIA's exporter asks DCGM and nothing else" in plan.without_effect


def sourced(dcgm: dict[str, Any], option: str | None = None, variable: str | None = None) -> Settings:
    """What the daemon reads of a policy that names the source in its own field or in an env."""
    rows = [{"name": "GPUREADY_EXPORTER_SOURCE", "value": variable}] if variable else []
    ours = {"exporter": {"source": option}} if option else {}
    active = read(raw(dcgm=dcgm, dcgmExporter={"enabled": True, "env": rows}, gpuready=ours))
    assert active.policy is not None, active.problems
    return Settings.from_env(env(plan_of(active, active.policy, ClusterView("gpu-operator", "gpuready:1"))))
