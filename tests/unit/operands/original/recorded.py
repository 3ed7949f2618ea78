"""A record's policy, planned by us: what the operator would apply for the same nodes and the same inputs."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from tests.unit.operands.original.normal_form import RECORDS, Object

from gpuready import names
from gpuready.controller.labelling.decision import has_gpu
from gpuready.controller.policy.active import read
from gpuready.controller.policy.plan import Plan, plan_of
from gpuready.operands.contract import ClusterView, NodeFacts
from gpuready.yaml_text import parse_yaml_documents

# The chart's tests render the same policies.
POLICIES = Path(__file__).parents[2] / "charts/records"
NAMES = ("P01", "P02", "P03", "P04", "P06", "P08", "P08b", "P11")


@functools.cache
def plan_of_record(record: str) -> Plan:
    active = read(policy_of(record))
    assert active.policy is not None, active.problems
    return plan_of(active, active.policy, view_of(record))


def policy_of(record: str) -> Object:
    policies = [obj for obj in documents(record, "policy") if obj["kind"] == "ClusterPolicy"]
    policies[0]["metadata"]["uid"] = "a-uid"
    return policies[0]


def view_of(record: str) -> ClusterView:
    inputs = documents(record, "inputs")
    nodes = [_facts(node) for node in documents(record, "nodes") if has_gpu(node["metadata"]["labels"])]
    return ClusterView(
        namespace="gpu-operator",
        own_image="gpuready:test",
        gpu_nodes=tuple(nodes),
        configs={obj["metadata"]["name"]: obj["data"] for obj in inputs if obj["kind"] == "ConfigMap"},
        service_monitors=any(obj["kind"] == "CustomResourceDefinition" for obj in inputs),
    )


def documents(record: str, file: str) -> list[Any]:
    path = (POLICIES if file == "policy" else RECORDS) / record / f"{file}.yaml"
    return parse_yaml_documents(path.read_text()) if path.exists() else []


def _facts(node: Object) -> NodeFacts:
    """As our own labelling leaves a node whose driver is a container's to install."""
    info = node["status"]["nodeInfo"]
    labels = {names.DEPLOY_DRIVER: "true", **node["metadata"]["labels"]}
    return NodeFacts(
        node["metadata"]["name"],
        labels,
        kernel=info["kernelVersion"],
        runtime=info["containerRuntimeVersion"],
        architecture=info["architecture"],
    )
