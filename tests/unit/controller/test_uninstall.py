"""No disk is left uncleaned without a word, whatever else was deleted together with the policy."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.controller.fake_api import FakeApi
from tests.unit.controller.test_faults import AGENT, agent_daemonset
from tests.unit.controller.test_loops import Controller, controller, gpu_node

from gpuready import names
from gpuready.controller.nodes.summary import decode_gpunode
from gpuready.controller.nodes.uninstall import without_ours
from gpuready.kube.errors import error_of

REMOVAL = f"delete daemonsets {AGENT}"


def agent_on(node: str) -> dict[str, Any]:
    meta = {
        "name": f"agent-{node}",
        "namespace": "gpu-operator",
        "labels": {names.OPERAND_LABEL: "node-agent"},
    }
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
    return {"metadata": meta, "spec": {"nodeName": node}, "status": ready}


def cluster_without_policy(**objects: Any) -> FakeApi:
    fleet = {"nodes": [gpu_node("g1")], "pods": [agent_on("g1")], "daemonsets": [agent_daemonset()]}
    return FakeApi(**{**fleet, **objects})


def gpunode(*, uninstalled: bool, **status: Any) -> dict[str, Any]:
    meta = {"name": "g1", "uid": "u1", "resourceVersion": "5"}
    return {
        "metadata": meta,
        "spec": {"uninstall": True},
        "status": {"uninstalled": uninstalled, **status},
    }


def show(made: Controller, obj: dict[str, Any]) -> None:
    """As the watch would bring it."""
    made.caches.gpu_nodes._put("g1", decode_gpunode(json.dumps(obj).encode()))


async def events_of(api: FakeApi) -> list[str]:
    return [line for line in api.sent if line.startswith("create events")]


async def test_an_agent_whose_gpunode_was_deleted_with_the_policy_is_asked_by_a_new_one_before_it_goes():
    api = cluster_without_policy()

    async with controller(api) as made:
        await made.policy.reconcile("policy")
        await made.nodes.reconcile("g1")

        assert REMOVAL not in api.sent
        assert "create gpunodes g1" in api.sent
        assert "patch nodes g1" not in api.sent, "labels go when the disk is clean"

        show(made, gpunode(uninstalled=True))
        await made.nodes.reconcile("g1")
        assert "delete gpunodes g1" in api.sent
        made.caches.gpu_nodes._drop("g1")
        await made.nodes.reconcile("g1")
        await made.policy.reconcile("policy")

    assert api.sent.count("create gpunodes g1") == 1
    assert REMOVAL in api.sent
    assert await events_of(api) == []


async def test_where_no_gpunode_can_be_made_the_agents_stay_for_the_patience_and_then_the_node_is_named(
    caplog,
):
    api = cluster_without_policy()
    api.refuse["g1"] = error_of(404, {"message": "the server could not find the requested resource"})

    async with controller(api) as made:
        await made.nodes.reconcile("g1")
        await made.policy.reconcile("policy")
        assert REMOVAL not in api.sent
        assert await events_of(api) == []

        made.nodes.uninstaller._patience_s = 0.0
        woken: list[bool] = []
        made.nodes.uninstaller.on_given_up = lambda: woken.append(True)
        await made.nodes.reconcile("g1")
        await made.policy.reconcile("policy")

    assert REMOVAL in api.sent
    assert woken == [True]
    assert len(await events_of(api)) == 1
    assert made.nodes.uninstaller.given_up == ["g1"]
    said = next(record for record in caplog.records if record.message == "node agent did not clean up")
    assert "could not find the requested resource" in str(said.__dict__)


async def test_an_agent_on_a_node_without_gpus_has_nothing_to_clean_and_is_not_asked():
    plain = {**gpu_node("g1"), "metadata": {"name": "g1", "uid": "u", "resourceVersion": "1", "labels": {}}}
    api = cluster_without_policy(nodes=[plain])

    async with controller(api) as made:
        await made.nodes.reconcile("g1")
        await made.policy.reconcile("policy")

    assert "create gpunodes g1" not in api.sent
    assert REMOVAL in api.sent


async def test_a_status_that_nobody_can_read_whole_does_not_spare_its_node_the_clean_up():
    api = cluster_without_policy(gpunodes=[gpunode(uninstalled=False, requests=[{"kind": 7}])])

    async with controller(api) as made:
        await made.nodes.reconcile("g1")
        await made.policy.reconcile("policy")

    assert REMOVAL not in api.sent
    assert not {"create gpunodes g1", "delete gpunodes g1"} & set(api.sent)


def test_a_request_for_a_proof_goes_with_the_agent_that_it_concerns():
    annotations = {names.PROVE_CUDA_ANNOTATION: "now", "example.com/other": "stays"}

    assert without_ours({}, annotations, agents_too=False) is None
    assert without_ours({}, annotations, agents_too=True) == {
        "metadata": {"annotations": {names.PROVE_CUDA_ANNOTATION: None}}
    }
