"""What the README lets a newcomer type, with the files it names."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from gpuready_sim.client import PODS, Resource
from gpuready_sim.scenarios.examples import example

ROOT = Path(__file__).parents[2]
POLICIES = Resource("nvidia.com", "v1", "clusterpolicies", "ClusterPolicy", namespaced=False)


@pytest.mark.parametrize("policy", ["clusterpolicy.yaml", "clusterpolicy-sharing.yaml"])
async def test_one_policy_is_enough_for_a_gpu_in_a_pod(start_cluster, policy):
    cluster = await start_cluster(example("cluster-small.yaml"), operator=True)

    await cluster.apply(example(policy))
    await cluster.wait(POLICIES, "cluster-policy", until=lambda obj: is_ready(obj), timeout_s=60)
    await cluster.apply(example("pod.yaml"))
    await cluster.wait(PODS, "one-gpu", "default", lambda pod: pod["status"].get("phase") == "Succeeded")

    assert re.findall(r"UUID: GPU-[0-9a-f-]{36}", await cluster.logs("one-gpu")), "it prints its own GPU"
    assert (await cluster.logs("one-gpu")).count("UUID") == 1


async def test_nodes_with_taints_and_two_models_become_ready(start_cluster):
    cluster = await start_cluster(example("cluster-mixed.yaml"), operator=True)

    await cluster.apply(example("clusterpolicy.yaml"))

    policy = await cluster.wait(POLICIES, "cluster-policy", until=has_looked_everywhere, timeout_s=60)
    assert policy["status"]["nodes"]["undiscovered"] == 0


@pytest.mark.parametrize("page", ["README.md", "docs/demo.svg", "docs/guides/install.md"])
def test_every_example_that_a_page_names_is_there(page):
    text = html.unescape((ROOT / page).read_text()).replace("\N{NO-BREAK SPACE}", " ")
    named = set(re.findall(r"examples/[\w-]+\.yaml", text))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def is_ready(policy):
    return (policy.get("status") or {}).get("state") == "ready"


def has_looked_everywhere(policy):
    nodes = (policy.get("status") or {}).get("nodes") or {}
    return nodes.get("gpu", 0) > 0 and nodes.get("undiscovered") == 0
