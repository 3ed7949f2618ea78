"""A cluster as the original operator leaves it: record P01's objects, written by its manager, with leftovers.

Nodes have no kubelet: DaemonSets are what counts, their pods stay as the DaemonSet controller made them.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import io
import json
from pathlib import Path
from typing import Any

from tests.sim.operator_cluster import (
    DEADLINE_S,
    DEPLOY,
    GPU_NODES,
    NAMESPACE,
    POLICIES,
    condition,
    edit,
    error,
    labels,
)
from tests.unit.operands.original.recorded import documents, plan_of_record, policy_of

from gpuready import names
from gpuready.cli import main
from gpuready.controller.caches import OWNED_KINDS
from gpuready.controller.labelling.decision import has_gpu
from gpuready_sim.client import NODES, PODS, Resource, SimClient
from gpuready_sim.cluster.control_plane import install_crds
from gpuready_sim.cluster.handle import Cluster

RECORD = "P01"
DEPLOYED = ("driver", "container-toolkit", "operator-validator", "device-plugin", "gpu-feature-discovery")
LEFT = "left-over"
DRIVER = "nvidia-driver-daemonset"
VERSION = "580.126.20"  # that the record asks for
OTHER_PODS = "gpu-feature-discovery"  # the DaemonSet that another version of the original wrote
STRANGERS = ("RuntimeClass", "nvidia-legacy")
Object = dict[str, Any]
Key = tuple[str, str]


def originals(policy_uid: str) -> list[Object]:
    """What the original makes for record P01, with a field more in each that a successor does not know."""
    made = [obj for operand in plan_of_record(RECORD).operands for obj in operand.objects]
    return [_as_the_original_writes(copy.deepcopy(obj), policy_uid) for obj in made]


def _as_the_original_writes(obj: Object, policy_uid: str) -> Object:
    meta = obj["metadata"]
    for owner in meta["ownerReferences"]:
        owner["uid"] = policy_uid
    for place in (meta, obj.get("spec", {}).get("template", {}).get("metadata", {})):
        place["labels"] = _without_ours(place.get("labels") or {})
    meta["annotations"] = {**(meta.get("annotations") or {}), "nvidia.com/last-applied-hash": LEFT}
    meta["labels"][LEFT] = "label"
    match obj["kind"]:
        case "ConfigMap":
            obj["data"][LEFT] = "key"
        case "Role" | "ClusterRole":
            obj["rules"].append({"apiGroups": ["policy"], "resources": [LEFT], "verbs": ["use"]})
        case "Service":
            obj["spec"]["ports"].append({"name": LEFT, "port": 1, "targetPort": 1, "protocol": "TCP"})
        case "DaemonSet":
            _list_otherwise(obj["spec"]["template"]["spec"])
            if meta["name"] == OTHER_PODS:
                _change_pods(obj["spec"]["template"]["spec"])
    return obj


def _list_otherwise(pod: Object) -> None:
    """It has orders of its own, as it has them of the validator's variables."""
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        container["env"] = list(reversed(container.get("env") or ()))


def _change_pods(pod: Object) -> None:
    pod["containers"][0].setdefault("env", []).append({"name": "LEFT_OVER", "value": LEFT})
    pod["volumes"] = [*pod.get("volumes", ()), {"name": LEFT, "emptyDir": {}}]


def _without_ours(labels: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if not key.startswith("gpuready.dev/")}


class Takeover:
    """The cluster before and after; the same is seen on the embedded and on the real API server."""

    def __init__(self, cluster: Cluster, policy: Object, before: dict[Key, Object]) -> None:
        self.cluster = cluster
        self.policy = policy
        self.before = before
        self.planned: Object = {}

    @classmethod
    async def prepared(cls, cluster: Cluster) -> Takeover:
        """What the original made under chart defaults, before the policy switches the exporter off."""
        await install_crds(cluster.client)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await cluster.apply(namespace)
        policy = policy_of(RECORD)
        policy["metadata"] = {"name": policy["metadata"]["name"]}
        policy["spec"]["dcgmExporter"]["enabled"] = False
        del policy["spec"]["daemonsets"]["labels"]  # the marks of the original's chart: ours writes none
        made = await cluster.client.create(POLICIES, policy)
        before = {}
        async with as_manager(cluster, "gpu-operator") as original:
            for node in documents(RECORD, "nodes"):
                await _create_node(original, node)
            for obj in originals(made["metadata"]["uid"]):
                if (obj["kind"], obj["metadata"]["name"]) != STRANGERS:
                    before[key_of(obj)] = await _write(original, await _resource(cluster, obj), obj)
        async with as_manager(cluster, "kubectl-create") as user:
            for obj in users_objects(made["metadata"]["uid"]):
                await user.create(await _resource(cluster, obj), obj)
        return cls(cluster, made, before)

    async def plan(self, file: Path) -> None:
        """What `gpuready plan` says before our operator has ever run here."""
        policy = {key: self.policy[key] for key in ("apiVersion", "kind", "spec")}
        file.write_text(json.dumps({**policy, "metadata": {"name": self.policy["metadata"]["name"]}}))
        shown = io.StringIO()
        arguments = ["plan", "-f", str(file), "-o", "json", "--kubeconfig", str(self.cluster.kubeconfig)]
        with contextlib.redirect_stdout(shown):
            await asyncio.to_thread(main, arguments)
        self.planned = json.loads(shown.getvalue())

    async def expect_as_planned(self) -> None:
        planned = {
            fate: {(row["kind"], row["name"]) for row in rows}
            for fate, rows in self.planned["objects"].items()
        }
        ours = await self._ours()
        assert planned["created"] == ours - self.before.keys()
        assert planned["changed"] == ours & self.before.keys()
        assert planned["pruned"] == {key for key in self.before if _is_exporters(key)}
        assert {row["why"] for row in self.planned["objects"]["changed"]} == {"taken over"}
        (obstacle,) = self.planned["obstacles"]
        assert (obstacle["kind"], obstacle["name"]) == STRANGERS

    async def _ours(self) -> set[Key]:
        found = set()
        for kind in OWNED_KINDS:
            resource = await self.cluster.resource(kind.api_version, kind.kind)
            objects, _ = await self.cluster.client.list(resource, label_selector="gpuready.dev/operand")
            found |= {(kind.kind, obj["metadata"]["name"]) for obj in objects}
        return found

    async def is_over(self) -> None:
        """Everything that is wanted is ours, and what is not has gone."""
        wanted = [key for key in self.before if not _is_exporters(key)]
        for key in wanted:
            await self.cluster.wait(*await self._address(key), until=_is_ours, timeout_s=DEADLINE_S)
        for key in self.before:
            if _is_exporters(key):
                await self.cluster.wait_gone(*await self._address(key), timeout_s=DEADLINE_S)
        await error(self.cluster, "ReconcileFailed")

    async def expect_no_leftovers(self) -> None:
        left = {key: leftovers_of(obj) for key, obj in (await self.after()).items()}
        assert {key: found for key, found in left.items() if found} == {}
        assert len(left) > 30

    async def expect_owners(self) -> None:
        owner = {
            "apiVersion": "nvidia.com/v1",
            "kind": "ClusterPolicy",
            "name": self.policy["metadata"]["name"],
            "uid": self.policy["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        owners = {key: obj["metadata"]["ownerReferences"] for key, obj in (await self.after()).items()}
        assert {key: found for key, found in owners.items() if found != [owner]} == {}

    async def expect_pods_left_alone(self) -> None:
        after = await self.after()
        rolled = {
            name
            for (kind, name), obj in after.items()
            if kind == "DaemonSet" and obj["spec"]["template"] != self.before[kind, name]["spec"]["template"]
        }
        # The driver's pods are replaced when somebody deletes them (OnDelete).
        assert rolled - {DRIVER} == {OTHER_PODS}
        assert after["DaemonSet", DRIVER]["spec"]["updateStrategy"]["type"] == "OnDelete"

    async def expect_events(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while "TakenOver" not in [
                row["reason"] for row in await self.cluster.events(OTHER_PODS, NAMESPACE)
            ]:
                await asyncio.sleep(0.1)

    async def expect_only_unwanted_gone(self) -> None:
        for key in (("ConfigMap", "users-own"), ("ConfigMap", "like-the-originals")):
            kept = await self.cluster.client.get(*await self._address(key))
            assert kept["data"] == {"mine": "yes"}

    async def expect_strangers_untouched(self) -> None:
        """It says otherwise: named, with its field and manager. Once it has gone, ours is made."""
        said = condition(await error(self.cluster, "ReconcileFailed"), "Error")["message"]
        for words in ("RuntimeClass nvidia-legacy", "handler", "kubectl-create", "delete or rename"):
            assert words in said
        where = await self._address(STRANGERS)
        assert (await self.cluster.client.get(*where))["handler"] == "mine"

    async def expect_another_install_to_be_told(self) -> None:
        """Its pods run on, without a label of ours: what they were told stands in their own spec."""
        pods, _ = await self.cluster.client.list(PODS, namespace=NAMESPACE, label_selector=f"app={DRIVER}")
        pod = next(each for each in pods if each["spec"].get("nodeName"))
        assert "gpuready.dev/driver-config" not in labels(pod)
        node = pod["spec"]["nodeName"]
        running = {"status": {"driver": {"owner": "container", "version": VERSION}}}
        await self.cluster.client.merge_patch(GPU_NODES, node, running, subresource="status")
        name = self.policy["metadata"]["name"]
        await edit(self.cluster, {"driver": {"startupProbe": {"periodSeconds": 11}}}, name)
        await self.cluster.wait(
            *await self._address(("DaemonSet", DRIVER)), until=_probes_every_11_s, timeout_s=DEADLINE_S
        )
        assert _trouble(await self.cluster.client.get(GPU_NODES, node)) == ""

        await edit(self.cluster, {"driver": {"env": [{"name": "A", "value": "1"}]}}, name)
        told = await self.cluster.wait(GPU_NODES, node, until=_trouble, timeout_s=DEADLINE_S)
        assert _trouble(told) == (
            f"{node} runs {VERSION} as an earlier policy had it installed, not as this one"
        )
        await edit(self.cluster, {"driver": {"env": None}}, name)
        await self.cluster.wait(GPU_NODES, node, until=lambda obj: not _trouble(obj), timeout_s=DEADLINE_S)

    async def after(self) -> dict[Key, Object]:
        return {
            key: await self.cluster.client.get(*await self._address(key))
            for key in self.before
            if not _is_exporters(key)
        }

    async def _address(self, key: Key) -> tuple[Resource, str, str | None]:
        kind, name = key
        api_version = API_VERSIONS.get(kind, "rbac.authorization.k8s.io/v1")
        resource = await self.cluster.resource(api_version, kind)
        return resource, name, NAMESPACE if resource.namespaced else None


API_VERSIONS = {
    **dict.fromkeys(("ConfigMap", "Service", "ServiceAccount"), "v1"),
    "DaemonSet": "apps/v1",
    "RuntimeClass": "node.k8s.io/v1",
}


def key_of(obj: Object) -> Key:
    return obj["kind"], obj["metadata"]["name"]


def users_objects(policy_uid: str) -> list[Object]:
    """Two that only look like the original's, and one that stands where one of ours should."""
    owner = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "cluster-policy"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"mine": "yes"}}
    meta = {"namespace": NAMESPACE, "labels": {"app": "nvidia-dcgm-exporter"}}
    owned = {"ownerReferences": [{**owner, "uid": policy_uid, "controller": True}]}
    return [
        {**config, "metadata": {"name": "users-own", **meta}},
        {**config, "metadata": {"name": "like-the-originals", **meta, **owned}},
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": STRANGERS[0],
            "metadata": {"name": STRANGERS[1]},
            "handler": "mine",
        },
    ]


def _probes_every_11_s(daemonset: Object) -> bool:
    probe: Object = daemonset["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
    return bool(probe["periodSeconds"] == 11)


def _trouble(gpu_node: Object) -> str:
    return str(((gpu_node.get("spec") or {}).get("driver") or {}).get("trouble", {}).get("message") or "")


def _is_ours(obj: Object) -> bool:
    return "gpuready.dev/operand" in labels(obj)


def _is_exporters(key: Key) -> bool:
    return "dcgm-exporter" in key[1]


async def _resource(cluster: Cluster, obj: Object) -> Resource:
    return await cluster.resource(obj["apiVersion"], obj["kind"])


async def _write(client: SimClient, resource: Resource, obj: Object) -> Object:
    """Made, and replaced at a later pass, as the original does."""
    bare = {**obj, "metadata": {**obj["metadata"], "annotations": {}}}
    there = await client.create(resource, bare)
    if obj["kind"] == "RuntimeClass":
        obj["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
    if obj["kind"] == "Service":
        obj["spec"]["clusterIP"] = there["spec"].get("clusterIP", "")
    return await client.replace(resource, obj)


def as_manager(cluster: Cluster, name: str) -> SimClient:
    """The API server names a writer's fields after his program."""
    return SimClient.from_kubeconfig(cluster.kubeconfig, user_agent=f"{name}/v26.3.3")


async def _create_node(client: SimClient, node: Object) -> None:
    """With the labels by which the original places its pods."""
    found = node["metadata"]["labels"]
    if has_gpu(found):
        found |= {names.GPU_PRESENT: "true", **{f"{DEPLOY}{each}": "true" for each in DEPLOYED}}
    await client.create(NODES, {key: node[key] for key in ("apiVersion", "kind", "metadata", "spec")})
    await client.merge_patch(
        NODES, node["metadata"]["name"], {"status": node["status"]}, subresource="status"
    )


def leftovers_of(obj: Object) -> list[str]:
    """Paths of what the original left on an object, and of managers that own something of it."""
    found: list[str] = []

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                if LEFT in key:
                    found.append(f"{path}.{key}")
                walk(inner, f"{path}.{key}")
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                walk(inner, f"{path}[{index}]")
        elif value == LEFT:
            found.append(path)

    walk({key: value for key, value in obj.items() if key != "metadata"}, "")
    walk({key: value for key, value in obj["metadata"].items() if key != "managedFields"}, "metadata")
    managers = [entry["manager"] for entry in obj["metadata"].get("managedFields") or ()]
    return [*found, *(f"manager {each}" for each in managers if each == "gpu-operator")]
