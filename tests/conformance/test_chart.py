"""A release on a simulated cluster with a real control plane (without one: the embedded): all of its life."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests.sim.operator_cluster import (
    AGENT,
    NAMESPACE,
    POLICIES,
    POLICY,
    condition,
    offers,
    operand_pods,
    ready,
)
from tests.sim.release import CHART, VALUES, Helm, leftovers, served

from gpuready_sim.client import (
    CRDS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Access,
    ApiStatus,
    Object,
    SimClient,
)
from gpuready_sim.cluster.api import Api
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.kubernetes import assets, clients

HELMS = {client.version: client for client in clients.find("helm")}
SPEC = """
nodes:
- {name: cpu}
- {name: l4, gpus: {L4: 2}, driver: {where: host, version: 570.86.10}}
- {name: a100, gpus: {A100-SXM4-40GB: 1}}
"""
RECORDS = Path(__file__).parents[1] / "unit/charts/records"
POLICY_CRD = "clusterpolicies.nvidia.com"
pytestmark = [
    pytest.mark.skipif(not HELMS, reason="helm is not here; next: make clients"),
    pytest.mark.timeout(400),
]


@pytest.fixture(autouse=True, scope="module")
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def control_plane() -> Api:
    """The real one where it has been built: it enforces rules and admission policies."""
    try:
        assets.require()
    except assets.MissingAssets:
        return Api.EMBEDDED
    return Api.KUBERNETES


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster.started(SPEC, operator=False, api=control_plane()) as started:
        yield started


@pytest.fixture
def helm(cluster: Cluster, tmp_path: Path) -> Helm:
    return Helm(next(iter(HELMS.values())), cluster, tmp_path)


@pytest.mark.parametrize("version", HELMS)
async def test_install_upgrade_rollback_uninstall(cluster: Cluster, tmp_path: Path, version: str) -> None:
    helm = Helm(HELMS[version], cluster, tmp_path)
    await helm.install()
    await ready(cluster)
    await cluster.wait(NODES, "l4", until=offers(2))
    before = await operand_pods(cluster, "node-agent")

    await helm.upgrade(values={**VALUES, "devicePlugin": {"config": sharing(4)}})
    await cluster.wait(NODES, "l4", until=offers(8))
    await helm("rollback", "gpuready", "1", "--wait")
    await cluster.wait(NODES, "l4", until=offers(2))
    assert await operand_pods(cluster, "node-agent") == before, "no agent was restarted for it"

    await helm("uninstall", "gpuready")
    assert await leftovers(cluster) == []
    assert await served(cluster) >= {POLICY_CRD}


def sharing(replicas: int) -> Object:
    resources = [{"name": "nvidia.com/gpu", "replicas": replicas}]
    config = {"version": "v1", "sharing": {"timeSlicing": {"resources": resources}}}
    return {"create": True, "name": "shared", "default": "any", "data": {"any": yaml.safe_dump(config)}}


# --- CRDs ------------------------------------------------------------------------------------------------


async def test_an_upgrade_brings_older_crds_to_its_version_and_leaves_newer_ones_alone(
    cluster: Cluster, helm: Helm
) -> None:
    await helm.install()
    secret = {"metadata": {"name": "regcred", "namespace": NAMESPACE}, "type": "Opaque"}
    await cluster.client.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", **secret}, NAMESPACE)
    await change_schema(cluster, lambda spec: spec.pop("gpuready"))
    site = {**VALUES, "gpuready": {"imagePullSecrets": ["regcred"]}}
    await helm.upgrade(values=site)
    policy = await cluster.client.get(POLICIES, POLICY)
    assert policy["spec"]["gpuready"]["imagePullSecrets"] == ["regcred"], "nothing was dropped"

    crd = await cluster.client.get(CRDS, POLICY_CRD)
    owners = {entry["manager"] for entry in crd["metadata"]["managedFields"] if writes_versions(entry)}
    assert owners == {"helm"}, "the next `helm install` over CRDs that stayed finds no conflict"

    await change_schema(cluster, lambda spec: spec.update(tomorrow={"type": "string"}))
    await helm.upgrade(values=site)
    assert "tomorrow" in spec_of(await cluster.client.get(CRDS, POLICY_CRD))


async def test_cleanup_crd_takes_the_crds_along(cluster: Cluster, helm: Helm) -> None:
    await helm.install("--set", "operator.cleanupCRD=true")
    await ready(cluster)
    await helm("uninstall", "gpuready")
    assert await leftovers(cluster) == []
    await cluster.wait_gone(CRDS, POLICY_CRD)


async def change_schema(cluster: Cluster, change: Any) -> None:
    crd = await cluster.client.get(CRDS, POLICY_CRD)
    change(spec_of(crd))
    await cluster.client.replace(CRDS, crd)
    await cluster.wait(CRDS, POLICY_CRD, until=is_established)


def writes_versions(entry: Object) -> bool:
    return "f:versions" in entry["fieldsV1"].get("f:spec", {})


def is_established(crd: Object) -> bool:
    return condition(crd, "Established").get("status") == "True"


def spec_of(crd: Object) -> Object:
    schema: Object = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return dict.__getitem__(schema["properties"]["spec"], "properties")  # type: ignore[no-any-return]


# --- without hooks ---------------------------------------------------------------------------------------


async def test_gitops_applies_the_rendered_chart(cluster: Cluster, helm: Helm) -> None:
    words = ("template", "gpuready", str(CHART), "--include-crds", "--set", "hooks.enabled=false")
    objects = [o for o in yaml.safe_load_all(await helm(*words, values=VALUES)) if o]
    crds = [obj for obj in objects if obj["kind"] == "CustomResourceDefinition"]
    for crd in crds:
        await cluster.apply(crd)
        await cluster.wait(CRDS, crd["metadata"]["name"], until=is_established)
    await cluster.apply(*(obj for obj in objects if obj not in crds))
    await ready(cluster)
    await cluster.wait(NODES, "l4", until=offers(2))


async def test_without_hooks_the_documented_order_leaves_nothing_behind(cluster: Cluster, helm: Helm) -> None:
    await type_in_shell(
        cluster,
        "{gpuready} crds | {kubectl} apply --server-side --force-conflicts -f - && {gpuready} crds --check",
    )
    await helm.install("--set", "hooks.enabled=false", "--skip-crds")
    await ready(cluster)
    code, said = await gpuready(cluster, "uninstall")
    assert code == 0, said
    assert "nothing of gpuready is left on any node" in said
    await helm("uninstall", "gpuready")
    assert await leftovers(cluster) == []


async def test_what_an_operator_that_went_first_left_behind_is_cleaned_by_the_next(
    cluster: Cluster, helm: Helm
) -> None:
    await helm.install()
    await ready(cluster)
    await helm("uninstall", "gpuready", "--no-hooks")
    assert await leftovers(cluster) != [], "nobody was there to clean"
    await helm.install("--set", "clusterPolicy.deployCR=false")
    code, said = await gpuready(cluster, "uninstall")
    assert code == 0, said
    await helm("uninstall", "gpuready")
    assert await leftovers(cluster) == []


async def test_uninstall_says_what_is_left_when_nobody_cleans(cluster: Cluster, helm: Helm) -> None:
    await helm.install("--set", "hooks.enabled=false")
    await ready(cluster)
    await cluster.client.merge_patch(DEPLOYMENTS, "gpuready-operator", {"spec": {"replicas": 0}}, NAMESPACE)
    await cluster.wait_pods(NAMESPACE, "app=gpu-operator", lambda pods: not pods)
    code, said = await gpuready(cluster, "uninstall", "--timeout", "2")
    assert code == 1
    assert "GPUNodes a100, l4" in said
    assert "helm uninstall gpuready -n gpu-operator" in said


async def type_in_shell(cluster: Cluster, line: str) -> None:
    """A line of the guide, with the programs where they are on this machine."""
    kubectls = clients.find("kubectl")
    if not kubectls:
        pytest.skip("kubectl is not here; next: make clients")
    programs = {"gpuready": f"{sys.executable} -m gpuready.cli", "kubectl": str(kubectls[0].path)}
    process = await asyncio.create_subprocess_shell(
        line.format(**programs),
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, out.decode()


async def gpuready(cluster: Cluster, *words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gpuready.cli", *words, "--kubeconfig", str(cluster.kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    return process.returncode or 0, out.decode()


# --- takeover --------------------------------------------------------------------------------------------


async def test_a_release_of_the_original_becomes_ours_by_one_upgrade_and_goes_back_by_one_rollback(
    cluster: Cluster, helm: Helm, tmp_path: Path
) -> None:
    await older_crd(cluster)
    await helm("install", "gpu-operator", str(originals_chart(tmp_path)), "--wait")
    theirs = (await cluster.client.get(POLICIES, POLICY))["metadata"]["uid"]

    await helm.upgrade("--reset-values", name="gpu-operator")
    policy = await ready(cluster)
    assert policy["metadata"]["uid"] == theirs, "the policy was changed, not replaced"
    await cluster.wait(NODES, "l4", until=offers(2))
    await cluster.wait_gone(DEPLOYMENTS, "gpu-operator", NAMESPACE)

    await helm("rollback", "gpu-operator", "1")
    assert (await cluster.client.get(POLICIES, POLICY))["metadata"]["uid"] == theirs
    await cluster.client.get(DEPLOYMENTS, "gpu-operator", NAMESPACE)
    await cluster.wait_gone(DEPLOYMENTS, "gpuready-operator", NAMESPACE)


async def test_ownership_can_be_taken_beside_the_originals_release_too(
    cluster: Cluster, helm: Helm, tmp_path: Path
) -> None:
    await older_crd(cluster)
    await helm("install", "gpu-operator", str(originals_chart(tmp_path)), "--wait")
    theirs = (await cluster.client.get(POLICIES, POLICY))["metadata"]["uid"]
    await cluster.client.merge_patch(DEPLOYMENTS, "gpu-operator", {"spec": {"replicas": 0}}, NAMESPACE)

    said = await helm("install", "gpuready", str(CHART), "--skip-crds", values=VALUES, fails=True)
    assert "cluster-policy" in said, "helm itself asks for the word"
    await helm("uninstall", "gpuready", "--no-hooks", "--ignore-not-found")
    await helm.install("--take-ownership", "--skip-crds")
    assert (await ready(cluster))["metadata"]["uid"] == theirs
    await cluster.wait(NODES, "l4", until=offers(2))


async def test_two_replicas_are_both_ready_and_outlive_each_other(cluster: Cluster, helm: Helm) -> None:
    await helm.install("--set", "operator.replicas=2,operator.podDisruptionBudget.enabled=true")
    await ready(cluster)
    pods = await cluster.pods(NAMESPACE, "app=gpu-operator")
    assert len(pods) == 2
    for pod in pods:
        await cluster.client.delete(PODS, pod["metadata"]["name"], NAMESPACE)
        await cluster.wait_pods(NAMESPACE, "app=gpu-operator", both_ready_without(pod))
    await helm.upgrade(values={**VALUES, "operator": {"replicas": 2}, "devicePlugin": {"config": sharing(3)}})
    await cluster.wait(NODES, "l4", until=offers(6))


def both_ready_without(gone: Object) -> Callable[[list[Object]], bool]:
    def holds(pods: list[Object]) -> bool:
        return (
            len(pods) == 2
            and gone["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in pods}
            and all(condition(pod, "Ready").get("status") == "True" for pod in pods)
        )

    return holds


async def older_crd(cluster: Cluster) -> None:
    """As the original leaves it: without our block, and required blocks."""
    from gpuready.api.crd import cluster_policy_crd

    crd = cluster_policy_crd()
    spec_of(crd).pop("gpuready")
    await cluster.client.create(CRDS, crd)
    await cluster.wait(CRDS, POLICY_CRD, until=is_established)


def originals_chart(directory: Path) -> Path:
    """A stand-in: the original's Deployment by name, and the policy that its chart rendered from defaults."""
    chart = directory / "gpu-operator"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: gpu-operator, version: v26.3.3}")
    policy = yaml.safe_load((RECORDS / "P01/policy.yaml").read_text())
    labels = {"app": "gpu-operator"}
    pod = {"containers": [{"name": "gpu-operator", "image": "x", "command": ["sleep", "infinity"]}]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "gpu-operator"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    text = yaml.safe_dump_all([{**policy, "metadata": {"name": POLICY}}, deployment])
    (chart / "templates/all.yaml").write_text(text)
    return chart


# --- what a node agent may write -------------------------------------------------------------------------


async def test_a_node_agents_token_writes_about_its_own_node_only(cluster: Cluster, helm: Helm) -> None:
    await helm.install()
    await ready(cluster)
    if control_plane() is Api.EMBEDDED:
        pytest.skip("the embedded API server stores admission policies and does not enforce them")
    pods = await cluster.pods(NAMESPACE, f"app={AGENT}")
    pod = next(each for each in pods if each["spec"]["nodeName"] == "l4")
    async with SimClient(await as_agent(cluster, pod)) as agent:
        word = {"metadata": {"labels": {f"nvidia.com/gpu.test-{uuid.uuid4().hex[:6]}": "x"}}}
        await agent.merge_patch(NODES, "l4", word)
        with pytest.raises(ApiStatus, match="the node agent of l4 may not write about a100"):
            await agent.merge_patch(NODES, "a100", word)


async def as_agent(cluster: Cluster, pod: Object) -> Access:
    bound = {
        "kind": "Pod",
        "apiVersion": "v1",
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
    }
    request: Object = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": bound, "expirationSeconds": 600},
    }
    answer = await cluster.client.create(
        SERVICE_ACCOUNTS, request, NAMESPACE, name=AGENT, subresource="token"
    )
    access = cluster.client.access
    return Access(access.server, token=answer["status"]["token"], ca_pem=access.ca_pem)


async def test_the_operator_and_the_jobs_need_no_privilege(cluster: Cluster, helm: Helm) -> None:
    """Under the strictest level of Pod Security; the embedded API server lets everything pass."""
    strict = {"name": "strict", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    await cluster.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": strict})
    objects = [o for o in yaml.safe_load_all(await helm("template", "x", str(CHART))) if o]
    templates = [o["spec"]["template"] for o in objects if o["kind"] in ("Deployment", "Job")]
    assert len(templates) == 3
    for template in templates:
        account = template["spec"]["serviceAccountName"]
        await cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": "strict"},
            }
        )
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": account},
            "spec": {**template["spec"], "restartPolicy": "Never"},
        }
        await cluster.client.raw("POST", PODS.path("strict"), body=pod, params={"dryRun": "All"})
