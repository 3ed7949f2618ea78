"""`gpuready plan` against what happens, edit after edit, for edits that nobody thought of.

What is found here becomes a test with a name, and a mend. PLAN_SEED tells another story, or the same again;
PLAN_EDITS makes it longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sim.foretold import (
    NOTHING,
    Seen,
    changes_of_labels,
    changes_of_pods,
    expect_gpu_nodes,
    expect_objects,
    look,
    planned_labels,
    planned_pods,
    same,
)
from tests.sim.operator_cluster import NAMESPACE, POLICIES, POLICY, condition, label

from gpuready.chain.driver import POD_FAILING
from gpuready.cli import main
from gpuready.operands.contract import REFUSALS
from gpuready_sim.client import CONFIG_MAPS, DAEMON_SETS, NODES, ApiStatus
from gpuready_sim.cluster.api import Api
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.kubernetes import assets

from .policy_edits import edit_around, edited

Object = dict[str, Any]
SEED = int(os.environ.get("PLAN_SEED", "12"))
EDITS = int(os.environ.get("PLAN_EDITS", "24"))
AROUND = 0.3  # so often the cluster changes before the policy does
STILL_S = 5.0  # longer than any of ours waits for its turn to write, on a busy machine too
DEADLINE_S = 150.0
SPEC = """
nodes:
- {name: cpu}
- {name: l4, gpus: {L4: 2}, driver: {where: host}, containerd: 2.2.1}
- {name: a100, gpus: {A100-SXM4-40GB: 2}, driver: {where: container}, containerd: 1.7.24}
- {name: rhel, gpus: {H100-SXM5-80GB: 1}, driver: {where: container}, os: {id: rhel, version: "9.4"}}
- name: odd
  gpus: {L4: 1}
  driver: {where: container}
  os: {id: ubuntu, version: "24.04"}
  taints: [{key: team, value: ml, effect: NoSchedule}]
"""
GPU_MACHINES = ("l4", "a100", "rhel", "odd")
BEGINNING: Object = {
    "driver": {"version": "570.86.10"},
    "daemonsets": {"rollingUpdate": {"maxUnavailable": "100%"}},
    "dcgm": {"enabled": False},
    "migManager": {"enabled": False},
}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("api", [Api.EMBEDDED, Api.KUBERNETES])
async def test_whatever_is_edited_happens_as_it_was_planned(state_home: Path, api: Api) -> None:
    if api is Api.KUBERNETES:
        try:
            assets.require()
        except assets.MissingAssets as exc:
            pytest.skip(str(exc))
    async with Cluster.started(SPEC, api=api) as cluster:
        await _furnish(cluster)
        trial = _Trial(cluster, random.Random(SEED), state_home / "policy.json")
        try:
            await trial.begin()
            for number in range(EDITS):
                await trial.step(number)
            assert trial.refused < EDITS / 2, "the API server takes most of these policies"
            assert trial.faults == []
        except BaseException as exc:
            exc.add_note("\n".join((f"PLAN_SEED={SEED}", *trial.story)))
            raise


async def _furnish(cluster: Cluster) -> None:
    """What policies name."""

    def sharing(replicas: int) -> str:
        rows = [{"name": "nvidia.com/gpu", "replicas": replicas}]
        return json.dumps({"version": "v1", "sharing": {"timeSlicing": {"resources": rows}}})

    metrics = "DCGM_FI_DEV_SM_CLOCK, gauge, x"
    for name, data in {
        "sharing": {"four": sharing(4), "two": sharing(2), "bad": "nonsense: ["},
        "sharing2": {"four": sharing(3)},
        "files": {"ca-bundle.crt": "x"},
        "metrics": {"dcgm-metrics.csv": metrics},
    }.items():
        await cluster.apply(_named("ConfigMap", name, data=data))
    for name in ("there", "there2"):
        await cluster.apply(_named("Secret", name, stringData={"gridd.conf": "x"}))


def _named(kind: str, name: str, **fields: Any) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, **fields}


class _Trial:
    """
    story     what was done, in order
    faults    what went otherwise than planned, with the edit that led to it
    refused   edits that the API server did not take
    """

    def __init__(self, cluster: Cluster, rng: random.Random, file: Path) -> None:
        self._cluster = cluster
        self._rng = rng
        self._file = file
        self._spec = BEGINNING
        self.story: list[str] = []
        self.faults: list[str] = []
        self.refused = 0

    async def begin(self) -> None:
        await self._cluster.apply(_policy(self._spec))
        await _settled(self._cluster)

    async def step(self, number: int) -> None:
        if self._rng.random() < AROUND:
            self.story.append(f"{number} around: {await self._change_around()}")
            await _settled(self._cluster)
        spec, said = edited(self._spec, self._rng)
        code, planned = await self._plan(spec)
        before = await look(self._cluster)
        try:
            await self._write(spec)
        except ApiStatus as exc:
            self.refused += 1
            self.story.append(f"{number} refused: {said}: {str(exc)[:200]}")
            return
        self._spec = spec
        await _settled(self._cluster)
        faults = await self._compared(code, planned, before, await look(self._cluster))
        self.story.append(f"{number} {'otherwise' if faults else 'as planned'}: {said}")
        self.faults += [f"{number} {said}: {fault}" for fault in faults]

    async def _write(self, spec: Object) -> None:
        there = await self._cluster.client.get(POLICIES, POLICY)
        await self._cluster.client.replace(POLICIES, {**there, "spec": spec})

    async def _change_around(self) -> str:
        node, what, value = edit_around(self._rng, GPU_MACHINES)
        match what.split():
            case ["label", key]:
                await label(self._cluster, node, key, value)
            case ["taints"]:
                await self._cluster.client.merge_patch(NODES, node, {"spec": {"taints": value}})
            case _:
                there = await self._cluster.client.get(CONFIG_MAPS, "files", NAMESPACE)
                await self._cluster.client.replace(CONFIG_MAPS, {**there, "data": value})
        return f"{node} {what} {value}"

    async def _plan(self, spec: Object) -> tuple[int, Object]:
        """(exit status, the plan)"""
        self._file.write_text(json.dumps(_policy(spec)))
        shown, complaint = io.StringIO(), io.StringIO()
        arguments = ["plan", "-f", str(self._file), "-o", "json"]
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(complaint):
            code = await asyncio.to_thread(main, [*arguments, "--kubeconfig", str(self._cluster.kubeconfig)])
        return code, json.loads(shown.getvalue()) if code != 2 else {"complaint": complaint.getvalue()}

    async def _compared(self, code: int, planned: Object, before: Seen, after: Seen) -> list[str]:
        if code == 2:
            return [str(planned)]
        if not (self._spec.get("toolkit") or {}).get("enabled", True):
            planned, before, after = _without_toolkit(planned, before, after)
        planned, before, after = _without_failing_pods(planned, before, after)
        policy = await self._cluster.client.get(POLICIES, POLICY)
        checks: list[Callable[[], None]] = [
            lambda: expect_objects(planned["objects"], before, after),
            lambda: same("labels", planned_labels(planned), changes_of_labels(before, after)),
            lambda: same("namespace", planned["namespaceLabels"], _changes_of_namespace(before, after)),
            lambda: expect_gpu_nodes(planned["gpuNodes"], before, after),
            lambda: _expect_pods(planned, before, after),
            lambda: _expect_refusals(planned, policy),
        ]
        found = [fault for check in checks if (fault := _fault_of(check))]
        _, again = await self._plan(self._spec)
        left = {key: again.get(key) for key in NOTHING if again.get(key) != NOTHING[key]}
        left.pop("pods", None) if not _moves(left.get("pods")) else None
        return [*found, *([f"left for the next plan: {json.dumps(left)[:1500]}"] if left else [])]


def _fault_of(check: Callable[[], None]) -> str:
    try:
        check()
    except AssertionError as exc:
        return str(exc)[:2000]
    return ""


def _moves(pods: Object | None) -> bool:
    """Pods that keep an older text because somebody must delete them stay so, plan after plan."""
    return any(pods[fate] for fate in ("starts", "stops", "restarts")) if pods else False


def _without_toolkit(planned: Object, before: Seen, after: Seen) -> tuple[Object, Seen, Seen]:
    """It goes when each node has given back what it changed there; a taint can keep its pod from that."""

    def kept(name: str) -> bool:
        return not name.startswith("nvidia-container-toolkit")

    def rows(found: Mapping[str, Sequence[Object]], key: str) -> Object:
        return {fate: [row for row in each if kept(row[key])] for fate, each in found.items()}

    def seen(found: Seen) -> Seen:
        objects = {key: obj for key, obj in found.objects.items() if kept(key[1])}
        pods = {key: uid for key, uid in found.pods.items() if kept(key[0])}
        return replace(found, objects=objects, pods=pods)

    told = {"objects": rows(planned["objects"], "name"), "pods": rows(planned["pods"], "daemonSet")}
    return {**planned, **told}, seen(before), seen(after)


def _without_failing_pods(planned: Object, before: Seen, after: Seen) -> tuple[Object, Seen, Seen]:
    """Whether the driver's next pod will find its image is known to its registry alone."""
    trouble = "spec.driver.trouble"
    failing = {
        name
        for found in (before, after)
        for name, spec in found.gpu_nodes.items()
        if ((spec.get("driver") or {}).get("trouble") or {}).get("reason") == POD_FAILING
    }

    def untroubled(spec: Object) -> Object:
        driver = {key: value for key, value in (spec.get("driver") or {}).items() if key != "trouble"}
        return {**spec, "driver": driver}

    def seen(found: Seen) -> Seen:
        specs = {
            name: untroubled(spec) if name in failing else spec for name, spec in found.gpu_nodes.items()
        }
        return replace(found, gpu_nodes=specs)

    rows = []
    for row in planned["gpuNodes"]:
        fields = [each for each in row["fields"] if not each["path"].startswith(trouble)]
        if row["node"] not in failing:
            rows.append(row)
        elif fields:
            rows.append({**row, "fields": fields})
    return {**planned, "gpuNodes": rows}, seen(before), seen(after)


def _expect_pods(planned: Object, before: Seen, after: Seen) -> None:
    told, happened = planned_pods(planned), changes_of_pods(before, after)
    for fate in told:
        same(fate, told[fate], happened[fate])


def _expect_refusals(planned: Object, policy: Object) -> None:
    if planned["problems"]:
        return
    told = {row["name"] for row in planned["operands"] if row.get("refused")}
    rows = policy["status"].get("operands") or ()
    same("refused", told, {row["name"] for row in rows if row.get("reason") in REFUSALS})


def _changes_of_namespace(before: Seen, after: Seen) -> Object:
    return {key: value for key, value in after.namespace.items() if before.namespace.get(key) != value}


def _policy(spec: Object) -> Object:
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": POLICY},
        "spec": spec,
    }


async def _settled(cluster: Cluster) -> None:
    """The newest text is followed, every roll-out is over, and for a while nothing has changed."""
    generation = (await cluster.client.get(POLICIES, POLICY))["metadata"]["generation"]
    await cluster.wait(
        POLICIES,
        POLICY,
        until=lambda obj: (obj.get("status") or {}).get("observedGeneration") == generation,
        timeout_s=DEADLINE_S,
    )
    deadline = time.monotonic() + DEADLINE_S
    last, since = await look(cluster), time.monotonic()
    while time.monotonic() - since < STILL_S:
        assert time.monotonic() < deadline, "it does not come to rest"
        await asyncio.sleep(0.25)
        now = await look(cluster)
        if now != last or await _is_moving(cluster):
            last, since = now, time.monotonic()


async def _is_moving(cluster: Cluster) -> bool:
    policy = await cluster.client.get(POLICIES, POLICY)
    said = condition(policy, "Ready").get("message", "")
    sets, _ = await cluster.client.list(DAEMON_SETS, NAMESPACE)
    pods = await cluster.pods(NAMESPACE, "gpuready.dev/operand")
    return (
        "being applied" in said
        or any(map(_rolls, sets))
        or any(pod["metadata"].get("deletionTimestamp") for pod in pods)
    )


def _rolls(daemonset: Object) -> bool:
    status, strategy = daemonset.get("status") or {}, daemonset["spec"]["updateStrategy"]["type"]
    if status.get("observedGeneration") != daemonset["metadata"]["generation"]:
        return True
    wanted = status.get("desiredNumberScheduled", 0)
    return bool(strategy != "OnDelete" and status.get("updatedNumberScheduled", 0) < wanted)
