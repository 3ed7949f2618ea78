"""`gpuready plan`: what is typed, what is printed, and the cases that a simulated cluster does not show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.tools.cluster import PCI, meta, node

from gpuready import names
from gpuready.api.crd import all_crds
from gpuready.cli import main
from gpuready.controller.nodes.summary import decode_gpunode
from gpuready.controller.policy.plan import key_of
from gpuready.kube.apply import with_digest
from gpuready.kube.errors import error_of
from gpuready.tools.files import beside_in
from gpuready.tools.plan import look as looks
from gpuready.tools.plan import pods
from gpuready.tools.plan.forecast import Fate, Forecast, PodFate, Trouble
from gpuready.tools.plan.foresee import foresee, wanted_objects
from gpuready.tools.plan.look import Look
from gpuready.tools.plan.pods import DaemonSetOutlook, pod_changes
from gpuready.tools.plan.text import text_of

Object = dict[str, Any]
OFF = {block: {"enabled": False} for block in ("toolkit", "dcgm", "dcgmExporter", "migManager")}
UBUNTU = {names.OS_ID_LABEL: "ubuntu", names.OS_VERSION_LABEL: "22.04"}
PLUGIN, DRIVER = "nvidia-device-plugin-daemonset", "nvidia-driver-daemonset"
TEAM_TAINT = {"key": "team", "value": "ml", "effect": "NoSchedule"}


def policy(name: str = "cluster-policy", *, metadata: Mapping[str, Any] = {}, **spec: Any) -> Object:
    off = {**OFF, "driver": {"enabled": False}}
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": name, **metadata},
        "spec": {**off, **spec},
    }


def gpu_machine(name: str = "gpu-1", **labels: str) -> Object:
    """As node feature discovery has labelled it; nobody of ours was there yet."""
    return node(name, labels={PCI: "true", **UBUNTU, **labels})


def cluster(*nodes: Object, pods: list[Object] | None = None, **spec: Any) -> tuple[Object, Look]:
    """A cluster in which the policy is in force, and that policy."""
    raw = policy(metadata={"uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z"}, **spec)
    bare = Look("gpu-operator", policies=[raw], nodes=nodes or (gpu_machine(),))
    owned = [with_digest(obj) for obj in wanted_objects(raw, bare)]
    return policy(**spec), replace(bare, owned=owned, pods=pods or [])


def daemon_pod(daemonset: str, node_name: str, operand: str, **labels: str) -> Object:
    owner = {"kind": "DaemonSet", "name": daemonset, "uid": "d", "controller": True}
    own = {names.OPERAND_LABEL: operand, "app": daemonset, **labels}
    metadata = meta(f"{daemonset}-{node_name}", own, namespace="gpu-operator", ownerReferences=[owner])
    return {"metadata": metadata, "spec": {"nodeName": node_name}, "status": {"phase": "Running"}}


def training(node_name: str, gpus: int = 2) -> Object:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec = {"nodeName": node_name, "containers": [container]}
    return {"metadata": meta("training", namespace="ml"), "spec": spec, "status": {"phase": "Running"}}


def named(forecast: Forecast, fate: Fate) -> set[str]:
    return {f"{each.kind}/{each.name}" for each in forecast.of_fate(fate)}


# --- the command ------------------------------------------------------------------------------------------


NODES = """\
kind: NodeList
items:
- kind: Node
  metadata:
    name: gpu-1
    labels:
      feature.node.kubernetes.io/pci-10de.present: "true"
      feature.node.kubernetes.io/system-os_release.ID: ubuntu
      feature.node.kubernetes.io/system-os_release.VERSION_ID: "22.04"
      kubernetes.io/os: linux
- kind: Node
  metadata: {name: cpu-1, labels: {kubernetes.io/os: linux}}
"""


def files(tmp_path: Path, raw: Object, nodes: str = NODES) -> list[str]:
    (tmp_path / "policy.yaml").write_text(json.dumps(raw))
    (tmp_path / "nodes.yaml").write_text(nodes)
    return ["plan", "-f", str(tmp_path / "policy.yaml"), "--nodes", str(tmp_path / "nodes.yaml")]


def test_without_a_cluster_it_tells_what_an_empty_one_would_get(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = files(tmp_path, policy(gfd={"enabled": False}, psp={"enabled": True}))

    code = main([*typed, "--own-image", "registry.example/gpuready:1"])

    assert code == 1
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if line in EXPECTED] == EXPECTED
    assert told[-1].endswith("9 labels on 1 node, 1 GPUNode created, no workload is touched")


EXPECTED = [
    "start   gpuready-node-agent  on gpu-1, cpu-1",
    "start   nvidia-device-plugin-daemonset  on gpu-1",
    "create  device-plugin  ServiceAccount nvidia-device-plugin, DaemonSet nvidia-device-plugin-daemonset",
    "label   gpu-1  by the operator",
    "          nvidia.com/gpu.deploy.device-plugin=true",
    "          nvidia.com/gpu.present=true",
    "create  GPUNode gpu-1",
    "run     device-plugin  gpuready's: registry.example/gpuready:1",
    "ignore  spec.psp  deprecated, ignored as in the original",
    "note    1 node: nobody may have looked for GPUs there; what the node agent finds decides about more "
    "labels, GPUNodes and pods",
    "note    no cluster was looked at: hosts are taken to have no driver, and nothing to be there",
]


def test_a_node_that_the_agent_has_left_alone_is_no_unseen_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled = NODES.replace(
        "    name: gpu-1", '    name: gpu-1\n    annotations: {gpuready.dev/agent-labels: "{}"}'
    )
    ready = "{type: Ready, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z', lastHeartbeatTime: '"
    heard = f"  status: {{conditions: [{ready}2026-01-02T00:00:00Z'}}]}}\n"

    main(files(tmp_path, policy(), labelled + heard))

    assert "nobody may have looked" not in capsys.readouterr().out


def test_json_has_the_same_facts_under_the_names_of_the_api(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([*files(tmp_path, policy()), "-o", "json"])

    found = json.loads(capsys.readouterr().out)
    assert code == 1
    assert {"kind": "DaemonSet", "name": PLUGIN}.items() <= found["objects"]["created"][-1].items()
    assert {"daemonSet": PLUGIN, "operand": "device-plugin", "node": "gpu-1"} in found["pods"]["starts"]
    (labels,) = found["nodeLabels"]
    assert (labels["node"], labels["by"], labels["labels"][names.GPU_PRESENT]) == (
        "gpu-1",
        "operator",
        "true",
    )
    assert [row["node"] for row in found["gpuNodes"]] == ["gpu-1"]
    assert found["workloads"] == found["problems"] == []


@pytest.mark.parametrize(
    ("raw", "nodes", "said"),
    [
        pytest.param({"apiVersion": "v1", "kind": "Pod"}, NODES, "v1 Pod", id="no policy"),
        pytest.param(policy(), "kind: Pod", "no list of Nodes", id="no nodes"),
        pytest.param(
            policy(), "- metadata: {name: [x]}", "is not as the API has it", id="a node that cannot be"
        ),
    ],
)
def test_it_exits_2_when_it_could_not_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], raw: Object, nodes: str, said: str
) -> None:
    assert main(files(tmp_path, raw, nodes)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err


def test_a_server_that_does_not_answer_exits_2_in_three_lines(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    server = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    config = {"current-context": "c", "contexts": [context], "clusters": [server]}
    (tmp_path / "kubeconfig").write_text(json.dumps({**config, "users": [{"name": "u", "user": {}}]}))
    typed = files(tmp_path, policy())[:3]

    assert main([*typed, "--kubeconfig", str(tmp_path / "kubeconfig")]) == 2

    told = capfd.readouterr().err.splitlines()
    assert len(told) == 3
    assert "did not answer" in told[0]


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


# --- nodes from a file ------------------------------------------------------------------------------------


def test_a_host_that_is_labelled_as_having_a_driver_gets_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = gpu_machine(**{names.DEPLOY_DRIVER: names.DRIVER_PRE_INSTALLED, names.GPU_PRESENT: "true"})
    note = json.dumps({names.DEPLOY_DRIVER: names.DRIVER_PRE_INSTALLED, names.GPU_PRESENT: "true"})
    machine["metadata"]["annotations"] = {names.CONTROLLER_LABELS_ANNOTATION: note}
    listed = json.dumps({"kind": "NodeList", "items": [{"kind": "Node", **machine}]})
    typed = files(tmp_path, policy(driver={"enabled": True}), listed)

    main([*typed, "-o", "json"])
    planned = json.loads(capsys.readouterr().out)

    driver = next(row for row in planned["operands"] if row["name"] == "driver")
    assert driver["images"] == []
    assert all(names.DEPLOY_DRIVER not in row["labels"] for row in planned["nodeLabels"])


@pytest.mark.parametrize("label", [None, "true", "false", names.DRIVER_PRE_INSTALLED, "paused-for-upgrade"])
def test_plan_and_images_speak_of_the_same_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], label: str | None
) -> None:
    labels = {names.DEPLOY_DRIVER: label} if label else {}
    machines = [gpu_machine("a", **labels), gpu_machine("b", **{names.OS_VERSION_LABEL: "24.04"})]
    listed = json.dumps({"kind": "NodeList", "items": [{"kind": "Node", **each} for each in machines]})
    asked = policy(driver={"enabled": True, "repoConfig": {"configMapName": "mine"}})
    typed = files(tmp_path, asked, listed)

    main([*typed, "-o", "json"])
    planned = {image for row in json.loads(capsys.readouterr().out)["operands"] for image in row["images"]}
    main(["images", *typed[1:], "-o", "names"])
    pulled = set(capsys.readouterr().out.split())

    assert planned == pulled


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


# --- pods and workloads -----------------------------------------------------------------------------------


def daemonset(on_delete: bool = False, **spec: Any) -> Object:
    pod = {"nodeSelector": {names.GPU_PRESENT: "true"}, **spec}
    strategy = {"type": "OnDelete" if on_delete else "RollingUpdate"}
    return {
        "kind": "DaemonSet",
        "metadata": {"name": PLUGIN, "labels": {names.OPERAND_LABEL: "device-plugin"}},
        "spec": {"template": {"spec": pod}, "updateStrategy": strategy},
    }


TOLERANT = [{"key": "team", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("desired", "renewed", "runs", "taints", "fate"),
    [
        pytest.param(daemonset(), True, True, [], PodFate.RESTARTS, id="another template"),
        pytest.param(daemonset(), False, True, [], None, id="the same template"),
        pytest.param(daemonset(on_delete=True), True, True, [], PodFate.OUTDATED, id="replaced by hand only"),
        pytest.param(daemonset(), False, False, [], PodFate.STARTS, id="a node that had none"),
        pytest.param(None, False, True, [], PodFate.STOPS, id="the DaemonSet goes"),
        pytest.param(None, False, False, [], None, id="it was not there"),
        pytest.param(daemonset(), False, False, [TEAM_TAINT], None, id="a taint keeps it away"),
        pytest.param(daemonset(), False, True, [TEAM_TAINT], None, id="a taint that came later leaves it"),
        pytest.param(daemonset(), True, True, [TEAM_TAINT], PodFate.STOPS, id="its successor may not start"),
        pytest.param(
            daemonset(tolerations=TOLERANT), True, False, [TEAM_TAINT], PodFate.STARTS, id="tolerated now"
        ),
        pytest.param(
            daemonset(nodeSelector={"x": "y"}), False, True, [], PodFate.STOPS, id="selects other nodes now"
        ),
    ],
)
def test_what_becomes_of_a_pod(
    desired: Object | None, renewed: bool, runs: bool, taints: list[Object], fate: PodFate | None
) -> None:
    there = [daemon_pod(PLUGIN, "gpu-1", "device-plugin")] if runs else []
    outlook = DaemonSetOutlook(PLUGIN, "device-plugin", desired, renewed)

    changes = pod_changes([outlook], [node("gpu-1", gpus=8, taints=taints)], there)

    assert [each.fate for each in changes] == ([fate] if fate else [])


def test_pods_that_waited_for_their_deletion_restart_once_that_is_not_asked_for_any_more() -> None:
    """Of OnDelete's pods those of an earlier template, and none behind a taint that came later."""
    raw, seen = cluster(*map(gpu_machine, "abc"), daemonsets={"updateStrategy": "OnDelete"})
    agent = looks.node_agent.DAEMONSET
    revisions = {PLUGIN: "new"}
    hashes = {"a": "old", "b": "new", "c": "old"}
    made = [
        daemon_pod(PLUGIN, name, "device-plugin", **{"controller-revision-hash": revision})
        for name, revision in hashes.items()
    ]
    made += [daemon_pod(agent, name, "node-agent") for name in hashes]
    seen.nodes[2]["spec"]["taints"] = [TEAM_TAINT]
    seen = replace(seen, pods=made, revisions=revisions)

    changed = foresee({**raw, "spec": {**raw["spec"], "daemonsets": {}}}, seen)

    fates = {(pod.fate, pod.node) for pod in changed.pods if pod.daemonset == PLUGIN}
    assert fates == {(PodFate.RESTARTS, "a"), (PodFate.STOPS, "c")}
    assert not [pod for pod in foresee(raw, seen).pods if pod.daemonset == PLUGIN], "they go on waiting"


def test_where_the_toolkit_begins_anew_a_runtime_may_restart_and_that_is_said() -> None:
    raw, seen = cluster(toolkit={"enabled": True})
    said = "1 node: a container runtime whose configuration the toolkit then changes is restarted"

    assert any(each.startswith(said) for each in foresee(raw, seen).remarks)
    made = [daemon_pod("nvidia-container-toolkit-daemonset", "gpu-1", "toolkit")]
    assert not any("runtime" in each for each in foresee(raw, replace(seen, pods=made)).remarks)


def test_the_labels_of_the_namespace_are_told() -> None:
    raw, seen = cluster(psa={"enabled": True})
    level = "pod-security.kubernetes.io/enforce"
    there = {"metadata": {"name": "gpu-operator", "labels": {level: "baseline"}}}

    told = text_of(foresee(raw, replace(seen, own_namespace=there)))

    assert "label   the operator's namespace  by the operator" in told
    assert f"          {level}=privileged" in told
    assert "3 labels on the namespace" in told.splitlines()[-1]


def test_a_driver_that_is_switched_off_is_taken_from_the_pods_that_use_it() -> None:
    present = {names.GPU_PRESENT: "true", names.DEPLOY_DRIVER: "true"}
    there = [daemon_pod(DRIVER, "gpu-1", "driver"), training("gpu-1"), training("elsewhere")]
    _, look = cluster(gpu_machine(**present), pods=there, driver={"enabled": True})

    forecast = foresee(policy(), look)

    assert f"DaemonSet/{DRIVER}" in named(forecast, Fate.PRUNED)
    (workload,) = forecast.workloads
    assert (workload.pod, workload.holds) == ("ml/training", {"nvidia.com/gpu": 2})
    assert workload.trouble is Trouble.LOSES_DRIVER
    told = text_of(forecast)
    assert told.startswith("DISTURB ml/training (2 nvidia.com/gpu)  the driver's pod on gpu-1 is taken away")
    assert told.endswith("1 workload disturbed")


def test_a_driver_installed_as_before_disturbs_nobody_although_its_pod_is_outdated() -> None:
    present = {names.GPU_PRESENT: "true", names.DEPLOY_DRIVER: "true"}
    _, look = cluster(gpu_machine(**present), driver={"enabled": True})
    (live,) = (obj for obj in look.owned if key_of(obj)[::2] == ("DaemonSet", DRIVER))
    digest = live["spec"]["template"]["metadata"]["labels"][names.DRIVER_CONFIG_LABEL]
    pod = daemon_pod(DRIVER, "gpu-1", "driver", **{names.DRIVER_CONFIG_LABEL: digest})
    look = replace(look, pods=[pod, training("gpu-1")])

    probed = foresee(policy(driver={"enabled": True, "startupProbe": {"periodSeconds": 9}}), look)
    replaced = foresee(policy(driver={"enabled": True, "version": "570.124.06"}), look)

    outdated = [(PodFate.OUTDATED, DRIVER)]
    assert [(each.fate, each.daemonset) for each in probed.pods if each.daemonset == DRIVER] == outdated
    assert [(each.fate, each.daemonset) for each in replaced.pods if each.daemonset == DRIVER] == outdated
    assert probed.workloads == ()
    assert [each.trouble for each in replaced.workloads] == [Trouble.MUST_LEAVE_FIRST]


def test_the_originals_driver_pod_is_judged_by_what_it_shows() -> None:
    """It has no label of ours, before the takeover and after it."""
    present = {names.GPU_PRESENT: "true", names.DEPLOY_DRIVER: "true"}
    _, look = cluster(gpu_machine(**present), driver={"enabled": True})
    (live,) = (obj for obj in look.owned if key_of(obj)[::2] == ("DaemonSet", DRIVER))
    pod = daemon_pod(DRIVER, "gpu-1", "")
    pod["metadata"]["labels"] = {"app": DRIVER, "app.kubernetes.io/component": "nvidia-driver"}
    pod["spec"] |= live["spec"]["template"]["spec"]
    gpu_node = decode_gpunode(
        json.dumps(
            {"metadata": {"name": "gpu-1"}, "status": {"driver": {"owner": "container", "version": "1"}}}
        ).encode()
    )
    look = replace(look, pods=[pod, training("gpu-1")], gpu_nodes={"gpu-1": gpu_node})

    probed = foresee(policy(driver={"enabled": True, "startupProbe": {"periodSeconds": 9}}), look)
    other = foresee(policy(driver={"enabled": True, "env": [{"name": "A", "value": "1"}]}), look)

    assert probed.workloads == ()
    assert [each.trouble for each in other.workloads] == [Trouble.MUST_LEAVE_FIRST]


def test_images_are_named_once_each() -> None:
    one = daemonset(containers=[{"image": "a"}, {"image": "b"}], initContainers=[{"image": "a"}])

    assert pods.images_of([one, {"kind": "ConfigMap", "metadata": {"name": "c"}}]) == ("a", "b")


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


def test_text_of_a_policy_cannot_write_to_the_screen() -> None:
    _, look = cluster()

    told = text_of(foresee(policy(devicePlugin={"env": [{"name": "A", "value": "\x1b[2Jgone"}]}), look))

    assert "\x1b" not in told
