"""Values files as clouds and vendors document them: each installs unchanged, and after any other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests.sim.operator_cluster import DEADLINE_S, NAMESPACE, POLICIES, POLICY, condition, error, offers
from tests.sim.release import CHART, Helm, leftovers

from gpuready_sim.client import NODES, Object
from gpuready_sim.cluster.handle import Cluster
from gpuready_sim.kubernetes import clients

HELMS = clients.find("helm")
pytestmark = [
    pytest.mark.skipif(not HELMS, reason="helm is not here; next: make clients"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
]
SPEC = """
nodes:
- {name: cpu}
- {name: l4, gpus: {L4: 2}, containerd: 2.2.1, driver: {where: host, version: 570.86.10}}
"""
SHARED = {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}
BESIDE: list[Object] = [
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "time-slicing", "namespace": NAMESPACE},
        "data": {"any": yaml.safe_dump({"version": "v1", "sharing": {"timeSlicing": SHARED}})},
    },
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mirror", "namespace": NAMESPACE}},
]
HOST_DRIVER: Object = {"driver": {"enabled": False}}
MIRRORED = {"repository": "registry.example.com/nvidia", "imagePullSecrets": ["mirror"]}
RKE2 = {
    "CONTAINERD_CONFIG": "/etc/containerd/config.toml",
    "CONTAINERD_SOCKET": "/run/containerd/containerd.sock",
    "CONTAINERD_RUNTIME_CLASS": "nvidia",
    "CONTAINERD_SET_AS_DEFAULT": "true",
}
# name -> values, in the order in which one release goes through them
FILES: dict[str, Object] = {
    "driver-of-the-host": HOST_DRIVER,
    "gke": {
        "hostPaths": {"driverInstallDir": "/home/kubernetes/bin/nvidia"},
        "toolkit": {"installDir": "/home/kubernetes/bin/nvidia"},
        "cdi": {"enabled": True, "default": True},
        "dcgm": {"enabled": False},
        **HOST_DRIVER,
    },
    "eks": {
        "toolkit": {"enabled": False},
        "nfd": {"enabled": True},
        "node-feature-discovery": {"worker": {"tolerations": [{"operator": "Exists"}]}},
        "daemonsets": {"tolerations": [{"operator": "Exists"}]},
        **HOST_DRIVER,
    },
    "aks": {
        "toolkit": {"enabled": False},
        "operator": {"runtimeClass": "nvidia-container-runtime"},
        "nfd": {"enabled": False},
        **HOST_DRIVER,
    },
    "rke2": {
        "toolkit": {"env": [{"name": name, "value": value} for name, value in RKE2.items()]},
        **HOST_DRIVER,
    },
    "time-slicing": {"devicePlugin": {"config": {"name": "time-slicing", "default": "any"}}},
    "mig-mixed": {"mig": {"strategy": "mixed"}},
    "dcgm-off": {"dcgmExporter": {"enabled": False}, "dcgm": {"enabled": False}},
    "no-right-on-secrets": {"operator": {"checkSecrets": False}, "driver": {"imagePullSecrets": ["mirror"]}},
}
AIR_GAP: Object = {
    **dict.fromkeys(("devicePlugin", "dcgmExporter", "gfd", "migManager", "validator"), MIRRORED),
    "toolkit": MIRRORED,
    "driver": {**MIRRORED, "version": "570.86.10"},
}


@pytest.fixture(autouse=True, scope="module")
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(state_home: None) -> AsyncIterator[Cluster]:
    async with Cluster.started(SPEC, operator=False) as started:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await started.apply(namespace, *BESIDE)
        yield started


@pytest.fixture(scope="module")
def helm(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(HELMS[0], cluster, tmp_path_factory.mktemp("helm"))


@pytest.mark.parametrize("name", FILES)
async def test_a_values_file_installs_unchanged_and_after_any_other(
    cluster: Cluster, helm: Helm, name: str
) -> None:
    await helm("upgrade", "--install", "gpuready", str(CHART), "--reset-values", values=FILES[name])

    found = await cluster.wait(POLICIES, POLICY, until=_follows_its_newest_text, timeout_s=DEADLINE_S)
    assert condition(found, "Ready")["reason"] == "Reconciled"
    await cluster.wait(NODES, "l4", until=offers(8 if name == "time-slicing" else 2))


async def test_images_of_a_mirror_run_with_the_originals_contract(cluster: Cluster, helm: Helm) -> None:
    """No simulated node runs them: their pods are what the policy waits for, nothing else."""
    await helm("upgrade", "--install", "gpuready", str(CHART), "--reset-values", values=AIR_GAP)
    told = await error(cluster, "OperandNotReady", "nvidia-device-plugin-daemonset")
    flavours = {row["name"]: row["flavour"] for row in told["status"]["operands"] if row["enabled"]}
    assert flavours["device-plugin"] == flavours["toolkit"] == "original"


async def test_afterwards_nothing_is_left(cluster: Cluster, helm: Helm) -> None:
    await helm("upgrade", "gpuready", str(CHART), "--reset-values", values=HOST_DRIVER)
    await cluster.wait(POLICIES, POLICY, until=_follows_its_newest_text, timeout_s=DEADLINE_S)
    await helm("uninstall", "gpuready")
    assert await leftovers(cluster) == []


def _follows_its_newest_text(policy: Object) -> bool:
    status = policy.get("status") or {}
    return status.get("observedGeneration") == policy["metadata"]["generation"] and status["state"] == "ready"
