"""One object that fails does not stop the others, and is not sent again and again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from tests.unit.controller.fake_api import FakeApi, invalid, overloaded

from gpuready import names
from gpuready.api.crd import cluster_policy_crd
from gpuready.controller.caches import Caches
from gpuready.controller.current import CurrentPolicy
from gpuready.controller.labelling import loop as labelling
from gpuready.controller.labelling.loop import LabellingLoop
from gpuready.controller.loop import Loop
from gpuready.controller.nodes.loop import NodesLoop
from gpuready.controller.nodes.summary import decode_gpunode
from gpuready.controller.nodes.uninstall import Uninstaller
from gpuready.controller.policy import overtaken, setbacks
from gpuready.controller.policy.loop import PolicyLoop
from gpuready.controller.policy.refusals import RETRY_S, Refusals
from gpuready.controller.policy.setbacks import Setbacks
from gpuready.controller.schemas import ServedSchemas
from gpuready.errors import GPUReadyError
from gpuready.kube.errors import Away, error_of
from gpuready.kube.events import EventRecorder
from gpuready.kube.pace import AT_ONCE
from gpuready.kube.resources import Resource

PLUGIN = "nvidia-device-plugin-daemonset"
OFF = {block: {"enabled": False} for block in ("driver", "toolkit", "dcgm", "dcgmExporter", "migManager")}


def policy(**spec: Any) -> dict[str, Any]:
    meta = {
        "name": "p",
        "uid": "u",
        "generation": 1,
        "resourceVersion": "1",
        "creationTimestamp": "2026-11-29",
    }
    return {"metadata": meta, "spec": {**OFF, **spec}}


def gpu_node(name: str) -> dict[str, Any]:
    meta = {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "labels": {names.NFD_PCI_LABELS[0]: "true"},
    }
    return {"metadata": meta, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


class Controller:
    def __init__(self, api: FakeApi) -> None:
        client: Any = api
        self.caches = Caches.of(client, "gpu-operator")
        self.schemas = ServedSchemas(client)
        current = CurrentPolicy(self.caches.policies, self.schemas)
        events = EventRecorder(client, "test")
        self.labelling = LabellingLoop(client, self.caches, current)
        uninstaller = Uninstaller(client, self.caches, events)
        self.nodes = NodesLoop(client, self.caches, current, uninstaller, labels=self.labelling.round)
        self.policy = PolicyLoop(client, self.caches, current, self.nodes, events, "gpuready:test")


@asynccontextmanager
async def controller(api: FakeApi) -> AsyncIterator[Controller]:
    made = Controller(api)
    watching = asyncio.gather(made.caches.run(), made.schemas.run())
    await made.caches.wait_synced()
    await made.schemas.wait_known()
    yield made
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


async def run_until(loop: Loop, done: Callable[[], bool]) -> None:
    working = asyncio.create_task(loop.run())
    async with asyncio.timeout(30):
        while not done():
            await asyncio.sleep(0)
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working


async def test_an_object_that_is_refused_stops_no_other_and_is_named_in_the_status():
    api = FakeApi(clusterpolicies=[policy()])
    api.refuse["gpuready-node-agent"] = invalid("quantities must match")

    async with controller(api) as made:
        await made.policy.reconcile("policy")

    assert f"apply daemonsets {PLUGIN}" in api.sent
    error = next(row for row in api.written["conditions"] if row["type"] == "Error")
    assert error["reason"] == "ReconcileFailed"
    assert "node agent: quantities must match" in error["message"]


class Slow(FakeApi):
    """Never answers about the device plugin's DaemonSet as long as its pods have that label."""

    async def apply(self, resource: Resource, obj: Any, **options: Any) -> Any:
        labels = obj["spec"]["template"]["metadata"]["labels"] if resource.plural == "daemonsets" else {}
        if obj["metadata"]["name"] == PLUGIN and "slow" in labels:
            self.sent.append("slow")
            await asyncio.Event().wait()
        return await super().apply(resource, obj, **options)


def changed(generation: int, **daemonsets: Any) -> dict[str, Any]:
    made = policy(daemonsets=daemonsets)
    made["metadata"].update(generation=generation, resourceVersion=str(generation))
    made["status"] = {"state": "ready", "observedGeneration": 1}
    return made


async def test_a_newer_text_of_the_policy_does_not_wait_for_the_writes_of_the_one_before():
    api = Slow(clusterpolicies=[changed(2, labels={"slow": "yes"})])

    async with controller(api) as made:
        working = asyncio.create_task(made.policy.run())
        async with asyncio.timeout(30):
            while "slow" not in api.sent:
                await asyncio.sleep(0)
            made.caches.policies._put("p", changed(3))
            while "patch clusterpolicies p" not in api.sent:
                await asyncio.sleep(0)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    assert f"apply daemonsets {PLUGIN}" in api.sent
    assert api.written["observedGeneration"] == 3


async def test_the_status_tells_that_a_new_text_is_being_applied_while_the_api_server_is_slow(monkeypatch):
    monkeypatch.setattr(overtaken, "SLOW_AFTER_S", 0.05)
    api = Slow(clusterpolicies=[changed(2, labels={"slow": "yes"})])

    async with controller(api) as made:
        await run_until(made.policy, lambda: "patch clusterpolicies p" in api.sent)

    ready, error = api.written["conditions"][:2]
    assert (api.written["state"], api.written["observedGeneration"]) == ("notReady", 2)
    assert (ready["status"], error["reason"]) == ("False", "Applying")
    assert error["message"] == (
        f"generation 2 is being applied: the API server has not answered yet about DaemonSet/{PLUGIN}"
    )


async def test_a_policy_that_came_through_an_older_crd_changes_nothing_that_runs():
    older = cluster_policy_crd()
    schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del schema["spec"]["properties"]["devicePlugin"]["properties"]["mps"]
    api = FakeApi(clusterpolicies=[policy()], customresourcedefinitions=[older])

    async with controller(api) as made:
        await made.policy.reconcile("policy")

    assert [verb for verb in api.sent if verb.startswith(("apply", "delete"))] == []
    ready, error = api.written["conditions"][:2]
    assert (ready["status"], ready["reason"], error["reason"]) == ("False", "CRDOutdated", "CRDOutdated")
    assert "the API server drops spec.devicePlugin.mps; next: gpuready crds | kubectl" in error["message"]


async def test_the_text_that_was_refused_is_not_sent_again_at_the_next_pass():
    api = FakeApi(clusterpolicies=[policy()])
    api.refuse[PLUGIN] = invalid()

    async with controller(api) as made:
        for _ in range(3):
            await made.policy.reconcile("policy")

    assert api.sent.count(f"apply daemonsets {PLUGIN}") == 1


async def test_an_answer_that_may_pass_is_tried_again_by_the_loop(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(setbacks, "FIRST_RETRY_S", 0.0)
    api = FakeApi(clusterpolicies=[policy()])
    api.refuse[PLUGIN] = overloaded()

    async with controller(api) as made:
        for _ in range(2):
            with pytest.raises(GPUReadyError, match="1 objects could not be written"):
                await made.policy.reconcile("policy")

    assert api.sent.count(f"apply daemonsets {PLUGIN}") == 2


async def test_a_node_whose_labels_cannot_be_written_for_now_keeps_no_other_waiting_for_its_gpunode(
    monkeypatch: pytest.MonkeyPatch,
):
    class OneHangs(FakeApi):
        async def strategic_patch(self, resource: Resource, name: str, patch: Any, *args: Any, **more: Any):
            if name == "hangs":
                await asyncio.Event().wait()
            await super().strategic_patch(resource, name, patch)

    monkeypatch.setattr(labelling, "HUNG_S", 0.05)
    api = OneHangs(clusterpolicies=[policy()], nodes=[gpu_node("fine"), gpu_node("hangs")])

    async with controller(api) as made:
        writing = asyncio.create_task(made.labelling.run())
        await run_until(made.nodes, lambda: "create gpunodes fine" in api.sent)
        writing.cancel()

    assert "patch nodes fine" in api.sent
    assert "patch nodes hangs" not in api.sent


async def test_a_daemonset_just_changed_is_not_ready_before_its_controller_has_seen_the_change():
    """The answer to our own write tells of it, also while the watch still shows the DaemonSet of before."""

    class Api(FakeApi):
        async def apply(self, resource: Resource, obj: Any, **options: Any) -> Any:
            answer = await super().apply(resource, obj, **options)
            answer["metadata"]["generation"] = 2
            return {**answer, "status": {"observedGeneration": 1}}

    meta = {"name": PLUGIN, "namespace": "gpu-operator", "uid": "d", "resourceVersion": "1", "generation": 1}
    before = {"metadata": meta, "spec": {}, "status": {"observedGeneration": 1}}
    api = Api(clusterpolicies=[policy()], daemonsets=[before])

    async with controller(api) as made:
        await made.policy.reconcile("policy")

    row = next(row for row in api.written["operands"] if row["name"] == "device-plugin")
    assert (row["state"], row["reason"]) == ("notReady", "RollingOut")
    assert row["message"] == f"{PLUGIN} has been changed, its pods are about to be replaced"
    assert api.written["observedGeneration"] == 1


async def test_a_mistake_of_ours_with_one_object_stops_no_other_and_is_told():
    api = FakeApi(clusterpolicies=[policy()])
    api.refuse["gpuready-node-agent"] = KeyError("spec")  # type: ignore[assignment]

    async with controller(api) as made:
        with pytest.raises(GPUReadyError):
            await made.policy.reconcile("policy")

    assert f"apply daemonsets {PLUGIN}" in api.sent
    error = next(row for row in api.written["conditions"] if row["type"] == "Error")
    assert error["reason"] == "InternalError"
    assert "node agent: internal error: KeyError: 'spec'" in error["message"]


async def test_a_pass_that_our_own_mistake_ends_says_so_in_the_last_status(monkeypatch):
    api = FakeApi(clusterpolicies=[policy()])
    async with controller(api) as made:
        monkeypatch.setattr(made.policy, "_view", lambda: {}["gone"])
        await run_until(made.policy, lambda: "patch clusterpolicies p" in api.sent)

    ready, error = api.written["conditions"][:2]
    assert (api.written["state"], ready["status"], error["reason"]) == ("notReady", "False", "InternalError")
    assert "internal error: KeyError: 'gone'" in error["message"]
    assert "report it with the operator's log" in error["message"]


@pytest.mark.parametrize("name", ["labelling", "nodes"])
async def test_a_mistake_of_ours_with_one_node_is_told_with_its_name_and_the_others_go_on(name, monkeypatch):
    api = FakeApi(clusterpolicies=[policy()], nodes=[gpu_node(f"g{number}") for number in range(5)])
    async with controller(api) as made:
        loop = getattr(made, name)
        right, done = loop.reconcile, set()

        async def reconcile(key: str) -> None:
            if key == "g3":
                raise ZeroDivisionError("of nothing")
            await right(key)
            done.add(key)

        monkeypatch.setattr(loop, "reconcile", reconcile)
        await run_until(loop, lambda: len(done) == 4 and bool(loop.troubles.texts()))

    (text,) = loop.troubles.texts()
    assert text.startswith(f"{name} of g3: internal error: ZeroDivisionError: of nothing")


async def test_an_api_server_that_is_away_is_no_failure_of_any_object():
    api = FakeApi(clusterpolicies=[policy()])
    api.refuse[PLUGIN] = Away("no answer")

    async with controller(api) as made:
        await run_until(made.policy, lambda: f"apply daemonsets {PLUGIN}" in api.sent)

    assert made.policy.failed == 0
    assert "patch clusterpolicies p" not in api.sent, "and nobody can be told"


def test_an_object_that_may_be_written_later_is_tried_later_and_later_by_itself():
    now = [0.0]
    found = Setbacks(lambda: now[0])
    waits = []
    for _ in range(11):
        found.add("DaemonSet/a", {"spec": 1}, overloaded())
        assert "try again" in str(found.find("DaemonSet/a", {"spec": 1}))
        waits.append(round(found.next_retry_s() or 0, 1))
        now[0] += waits[-1] + 0.001
        assert found.find("DaemonSet/a", {"spec": 1}) is None
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    assert found.find("DaemonSet/a", {"spec": 2}) is None, "another text is tried at once"

    found.add("DaemonSet/b", {}, overloaded())
    assert found.next_retry_s() == pytest.approx(0.0, abs=0.1), "b does not wait as long as a"
    assert (found.times("DaemonSet/a"), found.times("DaemonSet/b")) == (11, 1)
    found.keep({"DaemonSet/b"})
    assert found.times("DaemonSet/a") == 0


def test_the_servers_own_wish_counts():
    found = Setbacks(lambda: 0.0)
    found.add("DaemonSet/a", {}, error_of(429, {"message": "slow", "details": {"retryAfterSeconds": 7}}))
    assert found.next_retry_s() == 7


async def test_an_object_that_rests_after_a_failure_is_not_sent_with_every_event():
    api = FakeApi(clusterpolicies=[policy()])
    api.refuse[PLUGIN] = overloaded()

    async with controller(api) as made:
        for _ in range(20):  # as many events, one after the other
            with suppress(GPUReadyError):
                await made.policy.reconcile("policy")
        assert made.policy._objects.setbacks.times(f"DaemonSet/{PLUGIN}") < 5

    assert api.sent.count(f"apply daemonsets {PLUGIN}") < 5


async def test_an_object_that_cannot_be_deleted_now_waits_by_itself():
    """Another that fails for good would else make every try of all wait for up to a minute."""
    meta = {"name": "left", "namespace": "gpu-operator", "uid": "u"}
    labels = {names.OPERAND_LABEL: "toolkit"}
    left = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**meta, "labels": labels}}
    api = FakeApi(clusterpolicies=[policy()], serviceaccounts=[left])
    api.refuse["left"] = overloaded()

    async with controller(api) as made:
        for _ in range(20):
            with suppress(GPUReadyError):
                await made.policy.reconcile("policy")
        assert 0 < made.policy._objects.setbacks.times("ServiceAccount/left") < 5

    assert 0 < api.sent.count("delete serviceaccounts left") < 5


async def test_a_node_that_cannot_be_labelled_does_not_keep_the_others_waiting():
    api = FakeApi(clusterpolicies=[policy()], nodes=[gpu_node(f"g{number}") for number in range(40)])
    api.refuse["g3"] = invalid()

    async with controller(api) as made:
        await run_until(made.labelling, lambda: len(set(api.sent)) == 40)

    assert api.sent.count("patch nodes g3") <= 2, "it comes again later and later"


async def test_a_gpunode_is_made_once_and_with_all_that_is_known_already():
    api = FakeApi(clusterpolicies=[policy()], nodes=[gpu_node("g1")])

    async with controller(api) as made:
        for _ in range(3):
            await made.nodes.reconcile("g1")

    assert api.sent == ["create gpunodes g1"], "the cache has not shown it yet"


async def test_a_gpunode_without_a_node_and_one_of_an_earlier_node_are_taken_away():
    def of(name: str, uid: str) -> dict[str, Any]:
        owner = {"kind": "Node", "name": name, "uid": uid}
        return {
            "metadata": {"name": name, "uid": f"g-{name}", "resourceVersion": "1", "ownerReferences": [owner]}
        }

    api = FakeApi(
        clusterpolicies=[policy()], nodes=[gpu_node("g1")], gpunodes=[of("g1", "older"), of("gone", "u")]
    )

    async with controller(api) as made:
        await made.nodes.reconcile("g1")
        await made.nodes.reconcile("gone")

    assert api.sent == ["delete gpunodes g1", "delete gpunodes gone"]


async def test_a_policy_with_problems_and_no_good_text_before_writes_nothing_but_its_status():
    api = FakeApi(
        clusterpolicies=[policy(cdi={"enabled": False, "nriPluginEnabled": True})], nodes=[gpu_node("g")]
    )

    async with controller(api) as made:
        await made.policy.reconcile("policy")
        await made.nodes.reconcile("g")
        await made.labelling.reconcile("g")

    assert [line for line in api.sent if "events" not in line] == ["patch clusterpolicies p"]


def test_a_refusal_ends_with_its_time_with_another_text_and_with_the_object():
    now = [0.0]
    refusals = Refusals(lambda: now[0])
    refusals.add("DaemonSet/a", {"spec": 1}, invalid("no"))
    assert "no" in str(refusals.find("DaemonSet/a", {"spec": 1}))
    assert refusals.find("DaemonSet/a", {"spec": 2}) is None

    refusals.add("DaemonSet/a", {"spec": 1}, invalid())
    now[0] += RETRY_S
    assert refusals.find("DaemonSet/a", {"spec": 1}) is None

    refusals.add("DaemonSet/a", {"spec": 1}, invalid())
    refusals.keep({"DaemonSet/b"})
    assert len(refusals) == 0
    refusals.add("DaemonSet/a", {"spec": 1}, overloaded())
    assert len(refusals) == 0, "that may pass"


async def test_every_node_is_labelled_before_any_gpunode_is_made():
    """Labels bring the operands' pods to the nodes; a GPUNode is of use when one of those runs."""
    names_ = ["a", "b", "c"]
    api = FakeApi(clusterpolicies=[policy()], nodes=[gpu_node(name) for name in names_])

    async with controller(api) as made:
        making = asyncio.create_task(made.nodes.run())
        await run_until(made.labelling, lambda: len(api.sent) == 6)
        making.cancel()

    assert [each.rsplit(" ", 1)[0] for each in api.sent] == ["patch nodes"] * 3 + ["create gpunodes"] * 3


async def test_a_node_that_cannot_be_labelled_does_not_keep_others_from_their_gpunode():
    api = FakeApi(clusterpolicies=[policy()], nodes=[gpu_node("bad"), gpu_node("good")])
    api.refuse["bad"] = overloaded()

    async with controller(api) as made:
        making = asyncio.create_task(made.nodes.run())
        await run_until(made.labelling, lambda: "create gpunodes good" in api.sent)
        making.cancel()


async def test_a_gpunode_that_is_changed_again_and_again_is_written_at_a_pace():
    """Somebody flips a label, or a field of the spec, ten times a second."""
    api = FakeApi(clusterpolicies=[policy()], nodes=[gpu_node("g1")])

    async with controller(api) as made:
        for flip in range(100):
            changed = {"devicePlugin": {"requested": f"{flip}"}}
            row = {"metadata": {"name": "g1", "resourceVersion": f"{flip + 1}"}, "spec": changed}
            made.caches.gpu_nodes._put("g1", decode_gpunode(json.dumps(row).encode()))
            await made.nodes.reconcile("g1")

    assert api.sent.count("patch gpunodes g1") == AT_ONCE


async def test_a_grant_that_nobody_asked_for_is_taken_back():
    """Whoever writes it into the spec would else let a later request of that id pass its turn."""
    granted = {"toolkit": {"enabled": True, "restart": "granted", "grant": "forged"}}
    row = {"metadata": {"name": "g1", "uid": "u1", "resourceVersion": "1"}, "spec": granted}
    on = policy(toolkit={"enabled": True})
    api = FakeApi(clusterpolicies=[on], nodes=[gpu_node("g1")], gpunodes=[row])

    async with controller(api) as made:
        await made.nodes.reconcile("g1")

    assert api.written["toolkit"] == {"enabled": True, "restart": "granted"}
