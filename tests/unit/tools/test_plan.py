"""`gpuready plan`: what follows from a policy in cases that a simulated cluster does not show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.tools.planned import (
    PLUGIN,
    TOOLKIT,
    Object,
    cluster,
    gpu_machine,
    named,
    policy,
)

from gpuready import names
from gpuready.api.crd import all_crds
from gpuready.controller.nodes.summary import decode_gpunode
from gpuready.controller.policy.plan import key_of
from gpuready.kube.errors import error_of
from gpuready.tools.files import beside_in
from gpuready.tools.plan import look as looks
from gpuready.tools.plan.forecast import Fate, Forecast, PodFate
from gpuready.tools.plan.foresee import foresee
from gpuready.tools.plan.text import text_of

# --- which policy, and is it followed ---------------------------------------------------------------------


def test_the_policy_in_force_changes_nothing_but_what_nobody_has_done_yet() -> None:
    raw, look = cluster()

    forecast = foresee(raw, look)

    assert forecast.objects == ()
    assert [each.node for each in forecast.gpu_nodes] == ["gpu-1"], "no operator runs here"


def test_what_would_be_wrong_with_a_node_is_said_in_words_with_the_next_step() -> None:
    asks = {names.PLUGIN_CONFIG_LABEL: "shared-by-five"}
    raw, look = cluster(gpu_machine("gpu-1", **asks), gpu_machine("gpu-2", **asks), gpu_machine("gpu-3"))

    forecast = foresee(raw, look)

    lines = text_of(forecast).splitlines()
    assert lines[:2] == [
        "warn    gpu-1, gpu-2  device-plugin: the node asks for the sharing configuration 'shared-by-five', "
        "but the policy names no ConfigMap",
        "        next  set spec.devicePlugin.config.name, or remove the node label "
        + names.PLUGIN_CONFIG_LABEL,
    ]
    troubles = {each["node"]: [row["reason"] for row in each["troubles"]] for each in rows_of(forecast)}
    assert troubles == {"gpu-1": ["ConfigNotNamed"], "gpu-2": ["ConfigNotNamed"], "gpu-3": []}


def rows_of(forecast: Forecast) -> list[Object]:
    return list(forecast.to_json()["gpuNodes"])


def test_a_younger_policy_waits_and_changes_nothing() -> None:
    _, look = cluster()

    forecast = foresee(policy("another", devicePlugin={"enabled": False}), look)

    assert forecast.ignored_for == "cluster-policy"
    assert not forecast.changes_something
    assert forecast.says_something
    assert text_of(forecast).splitlines() == [
        "wait    another  cluster-policy is older and stays in force",
        "nothing would change",
    ]


def test_a_policy_that_is_being_deleted_no_longer_counts() -> None:
    raw, look = cluster()
    going = {**look.policies[0]["metadata"], "deletionTimestamp": "2026-01-02T00:00:00Z"}
    look = replace(look, policies=[{**look.policies[0], "metadata": going}])

    assert foresee(raw, look).ignored_for == ""
    assert foresee(policy("another"), look).ignored_for == ""


def test_every_problem_of_a_policy_is_named_and_nothing_would_change() -> None:
    _, look = cluster()

    forecast = foresee(policy(mig={"strategy": "doubled"}, hostPaths={"rootFS": "host"}), look)

    assert len(forecast.problems) == 1  # the schema first: the rest cannot be read
    assert "spec.mig.strategy" in forecast.problems[0]
    assert text_of(forecast).endswith("1 problem: what runs would be left as it is")


def test_a_policy_under_an_older_crd_is_not_followed() -> None:
    raw, look = cluster()
    crds = {crd["metadata"]["name"]: json.loads(json.dumps(crd)) for crd in all_crds()}
    versions = crds["clusterpolicies.nvidia.com"]["spec"]["versions"]
    del versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["gpuready"]

    forecast = foresee(raw, replace(look, crds=crds))

    assert "spec.gpuready" in forecast.problems[0]


def test_an_operand_whose_settings_would_end_its_daemon_is_refused_and_left_alone() -> None:
    _, look = cluster()

    forecast = foresee(policy(devicePlugin={"env": [{"name": "MIG_STRATEGY", "value": "odd"}]}), look)

    (refused,) = forecast.refused
    assert refused.name == "device-plugin"
    assert "odd" in refused.refused
    assert forecast.objects == ()
    assert f"refuse  device-plugin  {refused.refused}" in text_of(forecast)


def test_while_the_original_operator_leads_nothing_happens_and_that_is_said() -> None:
    raw, look = cluster()
    lease: Object = {"metadata": {"name": names.LEADER_LEASE}, "spec": {"holderIdentity": "gpu-operator-7d9"}}

    theirs = foresee(raw, replace(look, lease=lease))
    lease["metadata"]["annotations"] = {names.LEADER_ANNOTATION: "gpu-operator-7d9"}
    ours = foresee(raw, replace(look, lease=lease))

    assert any("gpu-operator-7d9" in remark for remark in theirs.remarks)
    assert not any("gpu-operator-7d9" in remark for remark in ours.remarks)


# --- what pods refer to, and what stands in the way -------------------------------------------------------

NONE: Mapping[str, set[str]] = {"ConfigMap": set(), "Secret": set(), "PriorityClass": set()}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"devicePlugin": {"imagePullSecrets": ["gone"]}}, "there is no Secret gpu-operator/gone"),
        ({"daemonsets": {"priorityClassName": "gone"}}, "there is no PriorityClass gone"),
        ({"gpuready": {"certConfig": {"name": "gone"}}}, "there is no ConfigMap gpu-operator/gone"),
    ],
)
def test_what_pods_would_miss_is_told_beforehand(spec: Object, said: str) -> None:
    _, look = cluster()

    forecast = foresee(policy(**spec), replace(look, existing=NONE))

    (refused,) = (line for line in forecast.refused if line.name == "device-plugin")
    assert said in refused.refused
    assert forecast.of_fate(Fate.PRUNED) == [], "what runs stays"


def test_the_node_agents_refusal_is_told_too() -> None:
    _, look = cluster()

    forecast = foresee(policy(daemonsets={"priorityClassName": "gone"}), replace(look, existing=NONE))

    assert "there is no PriorityClass gone" in forecast.agent_refused[0]
    assert "refuse  node-agent  there is no PriorityClass gone" in text_of(forecast)
    assert not [pod for pod in forecast.pods if pod.fate is PodFate.STOPS]


def test_a_key_that_a_config_map_does_not_have_is_told_beforehand() -> None:
    _, look = cluster()
    config: Object = {"kind": "ConfigMap", "metadata": {"name": "ca"}, "data": {"other": "text"}}
    there = replace(look, configmaps={"ca": config}, existing={**NONE, "ConfigMap": {"ca"}})

    forecast = foresee(policy(gpuready={"certConfig": {"name": "ca"}}), there)

    (refused,) = (line for line in forecast.refused if line.name == "device-plugin")
    assert "has no key ca-bundle.crt" in refused.refused


def test_what_stands_in_the_policys_file_counts_as_there() -> None:
    _, look = cluster()
    raw = policy(gpuready={"certConfig": {"name": "ca"}}, daemonsets={"priorityClassName": "mine"})
    beside = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}, "data": {"ca-bundle.crt": "x"}},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "mine"}},
    ]
    text = "\n---\n".join(json.dumps(each) for each in (*beside, raw))

    forecast = foresee(raw, replace(look, existing=NONE).with_beside(beside_in(text, "gpu-operator")))

    assert forecast.refused == ()
    assert forecast.agent_refused[0] == ""


def test_somebody_elses_object_where_ours_should_be_is_told_beforehand_and_nothing_follows_from_it() -> None:
    raw, look = cluster()
    (ours,) = (obj for obj in look.owned if key_of(obj)[::2] == ("DaemonSet", PLUGIN))
    theirs = json.loads(json.dumps(ours))
    theirs["metadata"] = {"name": PLUGIN, "namespace": "gpu-operator", "uid": "x"}
    theirs["metadata"]["managedFields"] = [{"manager": "kubectl-create", "operation": "Update"}]
    theirs["spec"]["template"]["spec"]["containers"][0]["image"] = "theirs:1"
    rest = [obj for obj in look.owned if obj is not ours]

    forecast = foresee(raw, replace(look, owned=rest, foreign=[theirs]))

    (obstacle,) = forecast.obstacles
    assert (obstacle.kind, obstacle.name, obstacle.operand) == ("DaemonSet", PLUGIN, "device-plugin")
    assert "that gpuready has not made" in obstacle.message
    assert "delete or rename" in obstacle.next_step
    assert forecast.objects == ()
    assert [pod for pod in forecast.pods if pod.daemonset == PLUGIN] == []
    assert forecast.says_something
    assert f"refuse  device-plugin DaemonSet {PLUGIN}" in text_of(forecast)


def test_a_strangers_object_that_says_the_same_is_left_as_it_is() -> None:
    raw, look = cluster()
    (ours,) = (obj for obj in look.owned if obj["kind"] == "RuntimeClass" and key_of(obj)[2] == "nvidia")
    theirs = {**ours, "metadata": {"name": "nvidia", "uid": "x"}}
    rest = [obj for obj in look.owned if obj is not ours]

    forecast = foresee(raw, replace(look, owned=rest, foreign=[theirs]))

    assert (forecast.objects, forecast.obstacles) == ((), ())


# --- objects ----------------------------------------------------------------------------------------------


def test_an_object_that_somebody_else_made_is_taken_over_field_by_field() -> None:
    raw, look = cluster()
    (ours,) = (obj for obj in look.owned if key_of(obj)[::2] == ("DaemonSet", PLUGIN))
    theirs = json.loads(json.dumps(ours))
    theirs["metadata"]["labels"] = {"app": PLUGIN}
    theirs["spec"]["template"]["spec"]["containers"][0]["image"] = "theirs:1"
    look = replace(look, owned=[obj for obj in look.owned if obj is not ours], foreign=[theirs])

    (change,) = foresee(raw, look).objects

    assert (change.fate, change.why) == (Fate.CHANGED, "taken over")
    by_path = {each.path: (each.old, each.new) for each in change.fields}
    image = "spec.template.spec.containers[name=nvidia-device-plugin].image"
    assert by_path[image] == ("theirs:1", looks.OWN_IMAGE)


def test_a_field_that_the_server_spells_in_its_own_way_is_no_change() -> None:
    raw, look = cluster()
    live = [json.loads(json.dumps(obj)) for obj in look.owned]
    (daemonset,) = (obj for obj in live if obj["metadata"]["name"] == PLUGIN and obj["kind"] == "DaemonSet")
    daemonset["spec"]["template"]["spec"]["priorityClassName"] = "spelled-otherwise"
    fields = {"f:spec": {"f:template": {"f:spec": {"f:priorityClassName": {}}}}}
    entry = {"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}
    daemonset["metadata"]["managedFields"] = [entry]

    assert foresee(raw, replace(look, owned=live)).objects == ()

    entry["manager"] = "kubectl-edit"
    (change,) = foresee(raw, replace(look, owned=live)).objects
    assert (change.why, change.fields[0].old) == ("repaired", "spelled-otherwise")


def test_a_field_that_is_no_longer_asked_for_is_told_with_what_it_was() -> None:
    _, look = cluster(devicePlugin={"env": [{"name": "A", "value": "1"}]})
    live = [json.loads(json.dumps(obj)) for obj in look.owned]
    (daemonset,) = (obj for obj in live if obj["metadata"]["name"] == PLUGIN and obj["kind"] == "DaemonSet")
    env = {"f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}}}
    container = {"f:containers": {'k:{"name":"nvidia-device-plugin"}': env}}
    # Taken away, a default comes back from the server: that is no change.
    pod = {**container, "f:schedulerName": {}}
    daemonset["spec"]["template"]["spec"]["schedulerName"] = "default-scheduler"
    fields = {"f:spec": {"f:template": {"f:spec": pod}}}
    entry = {"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}
    daemonset["metadata"]["managedFields"] = [entry]

    (change,) = foresee(policy(), replace(look, owned=live)).objects

    path = "spec.template.spec.containers[name=nvidia-device-plugin].env[name=A]"
    assert [(each.path, each.old, each.new) for each in change.fields] == [
        (path, {"name": "A", "value": "1"}, None)
    ]


async def test_the_operators_own_image_is_the_one_of_its_deployment() -> None:
    env = [{"name": "GPUREADY_IMAGE", "value": "mirror/gpuready:2"}, {"name": "NODE", "valueFrom": {}}]
    container = {"command": ["gpuready"], "args": ["operator"], "env": env}
    deployment = {"metadata": {"name": "op"}, "spec": {"template": {"spec": {"containers": [container]}}}}

    seen = await looks.gather(Lists(deployments=[deployment]), "gpu-operator")  # type: ignore[arg-type]

    assert seen.image == "mirror/gpuready:2"
    assert (await looks.gather(Lists(), "gpu-operator", "asked:1")).image == "asked:1"  # type: ignore[arg-type]


async def test_what_only_says_more_may_be_kept_from_whoever_plans() -> None:
    revisions = [
        {
            "metadata": {"labels": {"controller-revision-hash": text}, "ownerReferences": [{"name": PLUGIN}]},
            "revision": number,
        }
        for number, text in ((9, "nine"), (10, "ten"), (1, "one"))
    ]

    seen = await looks.gather(Lists(controllerrevisions=revisions), "gpu-operator")  # type: ignore[arg-type]
    assert seen.revisions == {PLUGIN: "ten"}
    kept = Lists(forbidden=("leases", "namespaces", "controllerrevisions", "secrets"))
    seen = await looks.gather(kept, "gpu-operator")  # type: ignore[arg-type]
    assert (seen.lease, seen.own_namespace, seen.revisions) == (None, None, {})


class Lists:
    """As much of an API client as `gather` uses; kinds that are not given are not served."""

    def __init__(self, forbidden: tuple[str, ...] = (), **by_plural: list[Object]) -> None:
        self._by_plural, self._forbidden = by_plural, forbidden

    async def list(self, resource: Any, namespace: Any = None, label_selector: str = "") -> Any:
        self._check(resource)
        return self._by_plural.get(resource.plural, []), "1"

    def _check(self, resource: Any) -> None:
        if resource.plural in self._forbidden:
            raise error_of(403, {"message": f"{resource.plural} is forbidden", "reason": "Forbidden"})

    async def list_metadata(self, resource: Any, namespace: Any = None, label_selector: str = "") -> Any:
        return (await self.list(resource))[0]

    async def get(self, resource: Any, name: str, namespace: Any = None) -> Object:
        self._check(resource)
        raise error_of(404, {"message": name, "reason": "NotFound"})


# --- nodes ------------------------------------------------------------------------------------------------


def test_many_nodes_with_the_same_change_are_one_line() -> None:
    machines = [gpu_machine(f"gpu-{number}") for number in range(40)]
    raw, look = cluster(*machines)

    lines = text_of(foresee(raw, look)).splitlines()

    labelled = [line for line in lines if line.startswith("label")]
    assert labelled == [
        "label   gpu-0, gpu-1, gpu-2, gpu-3, gpu-4, gpu-5, gpu-6, gpu-7 and 32 more  by the operator"
    ]
    assert len([line for line in lines if line.startswith("create  GPUNode")]) == 1


def test_a_node_that_opted_out_gets_no_label_and_no_pod() -> None:
    raw, look = cluster(gpu_machine(**{names.DEPLOY_OPERANDS: "false"}))

    forecast = foresee(raw, look)

    (change,) = forecast.labels
    assert change.labels == {names.GPU_PRESENT: "true"}
    assert [each for each in forecast.pods if each.daemonset == PLUGIN] == []


def test_a_toolkit_that_is_being_removed_is_no_change_of_the_next_policy() -> None:
    _, look = cluster(gpu_machine(), toolkit={"enabled": True})

    def plan(at_work: str, enabled: bool) -> Forecast:
        chain = [{"link": "toolkit", "state": at_work, "reason": "Leaving"}]
        row = {"metadata": {"name": "gpu-1"}, "status": {"chain": chain}}
        in_force = policy(toolkit={"enabled": enabled}, metadata=look.policies[0]["metadata"])
        summary = decode_gpunode(json.dumps(row).encode())
        return foresee(policy(), replace(look, policies=[in_force], gpu_nodes={"gpu-1": summary}))

    begins, goes_on = plan("ok", enabled=True), plan("not-checked", enabled=False)

    assert f"DaemonSet/{TOOLKIT}" in named(begins, Fate.PRUNED)
    assert named(goes_on, Fate.PRUNED) == set()
    said = "toolkit: its pods and objects stay until each node has given back what it changed there: gpu-1"
    assert said in begins.remarks
    assert said in goes_on.remarks


def test_text_of_a_policy_cannot_write_to_the_screen() -> None:
    _, look = cluster()

    told = text_of(foresee(policy(devicePlugin={"env": [{"name": "A", "value": "\x1b[2Jgone"}]}), look))

    assert "\x1b" not in told
