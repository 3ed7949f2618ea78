"""Each right of operator and node agent taken away in turn: it is named, and used again once it is granted.

On a real API server the operator's own rules are taken away; before the simulator's, which lets everybody do
everything, a proxy refuses in the real one's words.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.sim import node_cluster
from tests.sim.fault_cluster import FaultCluster, fault_cluster, message_of, removed
from tests.sim.faults import forbids
from tests.sim.faulty_proxy import FOR_EVER
from tests.sim.operator_cluster import (
    AGENT,
    CLUSTER_ROLES,
    NAMESPACE,
    POLICIES,
    POLICY,
    Object,
    Operator,
    policy,
    ready,
)

from gpuready.controller.rbac import operator_objects
from gpuready.operands.node_agent.manifest import RULES as AGENT_RULES
from gpuready_sim.apiserver.pki import kubeconfig, write_kubeconfig
from gpuready_sim.client import Resource
from gpuready_sim.cluster.api import Api
from gpuready_sim.cluster.control_plane import install_crds, install_operator_account
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.kubernetes import assets

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
OPERATOR = "gpuready-operator"
SPEC = "nodes:\n- {name: l4, gpus: {L4: 2}, driver: {where: host}}\n"
PATIENCE_S = 150
# Verbs that a cluster that has everything never uses, or whose absence shows later than a first run.
NOT_IN_A_FIRST_RUN = ("get", "update", "delete")


def single_rights(objects: list[Object]) -> list[tuple[str, str]]:
    """(resource, verb) of all roles together, each once."""
    found = [
        (resource, verb)
        for obj in objects
        for rule in obj.get("rules") or ()
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    return [right for right in dict.fromkeys(found) if right[1] not in NOT_IN_A_FIRST_RUN]


# Read by every operator; written where its manifests have such objects or nodes.
READ = (
    "clusterpolicies", "nodes", "pods", "gpunodes", "clusterroles", "clusterrolebindings", "configmaps",
    "serviceaccounts", "daemonsets",
)  # fmt: skip
WRITTEN = (
    ("clusterpolicies/status", "patch"), ("nodes", "patch"), ("gpunodes", "create"),
    ("clusterroles", "patch"), ("clusterrolebindings", "patch"), ("serviceaccounts", "patch"),
    ("daemonsets", "patch"),
)  # fmt: skip


def of_the_operator() -> list[tuple[str, str]]:
    """What the operator needs in a first run of this cluster."""
    needed = {(resource, verb) for resource in READ for verb in ("list", "watch")} | set(WRITTEN)
    return [right for right in single_rights(operator_objects(NAMESPACE)) if right in needed]


# --- on a real API server --------------------------------------------------------------------------------


Places = tuple[tuple[Resource, str | None], ...]


class RealCluster:
    def __init__(self, cluster: Cluster, operator: Operator) -> None:
        self.cluster = cluster
        self.operator = operator

    @asynccontextmanager
    async def without(self, resource: str, verb: str) -> AsyncIterator[None]:
        """The operator's roles without one right."""
        places = ((CLUSTER_ROLES, None), (ROLES, NAMESPACE))
        roles = [await self.cluster.client.get(where, OPERATOR, space) for where, space in places]
        before = [role["rules"] for role in roles]
        await self._set(places, [_less(rules, resource, verb) for rules in before])
        try:
            yield
        finally:
            await self._set(places, before)

    async def _set(self, places: Places, rules: list[list[Object]]) -> None:
        for (where, namespace), row in zip(places, rules, strict=True):
            await self.cluster.client.merge_patch(where, OPERATOR, {"rules": row}, namespace)


def _less(rules: list[Any], resource: str, verb: str) -> list[Any]:
    left = []
    for rule in copy.deepcopy(rules):
        if resource not in rule["resources"]:
            left.append(rule)
            continue
        others = [each for each in rule["resources"] if each != resource]
        verbs = [each for each in rule["verbs"] if each != verb]
        left += [{**rule, "resources": others}] if others else []
        left += [{**rule, "resources": [resource], "verbs": verbs}] if verbs else []
    return left


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealCluster]:
    try:
        assets.require()
    except assets.MissingAssets as exc:
        pytest.skip(str(exc))
    home: Path = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home))
        async with Cluster.started(SPEC, operator=False, api=Api.KUBERNETES) as cluster:
            await install_crds(cluster.client)
            access = cluster.client.access
            token = await install_operator_account(cluster.client)
            file = cluster.place.directory / "operator-of-the-test.kubeconfig"
            write_kubeconfig(file, kubeconfig(access.ca_pem, token, access.server, user=OPERATOR))
            async with Operator(cluster, file) as operator:
                yield RealCluster(cluster, operator)


@pytest.mark.parametrize(("resource", "verb"), of_the_operator())
async def test_a_right_that_the_operator_lacks_on_a_real_server(real: RealCluster, resource: str, verb: str):
    async with real.without(resource, verb):
        await real.operator.kill()
        real.operator.log_path.unlink(missing_ok=True)
        await real.operator.start()
        await real.cluster.apply(policy())
        await _named(real.cluster, real.operator, resource, verb)
        assert "Traceback" not in _log(real.operator)
    await ready(real.cluster, timeout_s=PATIENCE_S)
    await node_cluster.whole(real.cluster, "l4", timeout_s=PATIENCE_S)
    await real.cluster.wait(POLICIES, POLICY, until=lambda obj: not message_of(obj), timeout_s=PATIENCE_S)
    await removed(real.cluster, ["l4"], timeout_s=PATIENCE_S)


# --- behind a proxy --------------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def faults(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FaultCluster]:
    home: Path = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home))
        async with fault_cluster() as started:
            yield started


@pytest.mark.parametrize(("resource", "verb"), single_rights([{"rules": AGENT_RULES}]))
async def test_a_right_that_the_node_agent_lacks(faults: FaultCluster, resource: str, verb: str):
    if (resource, verb) == ("events", "patch"):
        pytest.skip("a first run has no event to count up")
    with faults.proxy.rule(forbids(), client=AGENT, verb=verb, resource=resource, times=FOR_EVER) as rule:
        await faults.cluster.apply(policy())
        async with asyncio.timeout(PATIENCE_S):
            await rule.hit.wait()
        words = f'cannot {verb} resource "{resource}"'
        await eventually(lambda: _agent_says(faults.cluster, words), words)
        assert "Traceback" not in await faults.logs()
    await ready(faults.cluster, timeout_s=PATIENCE_S)
    await node_cluster.whole(faults.cluster, "l4", timeout_s=PATIENCE_S)
    await faults.clean(timeout_s=PATIENCE_S)


# --- what is looked at -----------------------------------------------------------------------------------


async def eventually(check: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not await check():
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not in {PATIENCE_S} s: {what}") from None


async def _named(cluster: Cluster, operator: Operator, resource: str, verb: str) -> None:
    """In the policy's status or, where that may not be read or written, in the log."""

    async def check() -> bool:
        found = await cluster.client.get(POLICIES, POLICY)
        said = message_of(found) + _log(operator)
        refused = f'cannot {verb} resource "{resource}"' in said
        granting = "attempting to grant RBAC permissions not currently held" in said
        return refused or (granting and f'"{resource}"' in said and f'"{verb}"' in said)

    await eventually(check, f"{verb} {resource} to be named")


def _log(operator: Operator) -> str:
    """Without the quotes' escapes; "" while it is being started."""
    path = operator.log_path
    return path.read_text().replace("\\", "") if path.exists() else ""


async def _agent_says(cluster: Cluster, words: str) -> bool:
    return words in (await node_cluster.log_of(cluster, "l4", "node-agent")).replace("\\", "")
