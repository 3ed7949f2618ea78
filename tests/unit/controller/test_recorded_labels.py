"""The labels that the original left on nodes and namespace, for the policies of the recorded runs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.operands.original.normal_form import RECORDS
from tests.unit.operands.original.recorded import NAMES, documents, policy_of

from gpuready.api.policy import parse_policy
from gpuready.controller.labelling.decision import LabelFacts, decide
from gpuready.controller.labelling.loop import label_policy_of
from gpuready.controller.policy.namespace import labelled
from gpuready.yaml_text import parse_yaml

# Of the driver's upgrade, which is another loop's.
NOT_HERE = "nvidia.com/gpu-driver-upgrade-state"


def outcome(record: str) -> dict[str, Any]:
    found: dict[str, Any] = parse_yaml((RECORDS / record / "outcome.yaml").read_text())
    return found


def written(node: dict[str, Any], record: str) -> dict[str, str]:
    """By us, on a node whose agent has found no driver."""
    metadata = node["metadata"]
    facts = LabelFacts(metadata["labels"], metadata.get("annotations") or {}, driver_owner="none")
    patch = decide(facts, label_policy_of(parse_policy(policy_of(record)))) or {}
    labels: dict[str, str] = (patch.get("metadata") or {}).get("labels") or {}
    return labels


def recorded(node: dict[str, Any], record: str) -> dict[str, str]:
    found = outcome(record)["nodes"][node["metadata"]["name"]]
    labels = {} if found == "unchanged" else found.get("labels") or {}
    assert not labels.get("removed")
    return {key: value for key, value in labels.get("added", {}).items() if key != NOT_HERE}


@pytest.mark.parametrize("record", NAMES)
def test_every_node_gets_the_labels_that_the_original_gave_it(record: str) -> None:
    nodes = documents(record, "nodes")
    assert {n["metadata"]["name"]: written(n, record) for n in nodes} == {
        n["metadata"]["name"]: recorded(n, record) for n in nodes
    }


@pytest.mark.parametrize("record", NAMES)
def test_the_namespace_gets_the_labels_that_the_original_gave_it(record: str) -> None:
    theirs = (outcome(record).get("namespaceLabels") or {}).get("added") or {}
    patch = labelled(parse_policy(policy_of(record)), {}) or {}
    assert patch.get("labels", {}) == theirs
