"""Which fields an older CRD in the cluster would drop."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpuready.api.crd import all_crds, cluster_policy_crd
from gpuready.api.skew import find_skew


def older(*paths: str) -> dict[str, Any]:
    """The ClusterPolicy's CRD without these fields."""
    crd = cluster_policy_crd()
    for path in paths:
        *above, field = path.split(".")
        properties = _schema(crd)["properties"]
        for name in above:
            properties = properties[name]["properties"]
        del properties[field]
    return crd


def _schema(crd: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


@pytest.mark.parametrize("crd", all_crds(), ids=lambda crd: crd["metadata"]["name"])
def test_our_own_crds_drop_nothing(crd: dict[str, Any]) -> None:
    skew = find_skew(crd)

    assert skew is not None
    assert not skew.is_outdated
    assert skew.served == skew.expected


def test_the_topmost_field_of_each_missing_branch_is_named() -> None:
    skew = find_skew(older("spec.devicePlugin.mps", "spec.gpuready", "status.operands"))

    assert skew is not None
    assert skew.missing == ("spec.devicePlugin.mps", "spec.gpuready", "status.operands")
    assert skew.served != skew.expected


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda schema: schema["properties"].update(extra={"type": "string"}), id="a newer one"),
        pytest.param(lambda schema: schema.pop("description", None), id="a text less"),
        pytest.param(
            lambda schema: schema["properties"].update(
                spec={"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            ),
            id="one that keeps what it does not know",
        ),
    ],
)
def test_a_schema_that_drops_nothing_of_ours_is_not_outdated(change: Any) -> None:
    crd = copy.deepcopy(cluster_policy_crd())
    change(_schema(crd))

    skew = find_skew(crd)

    assert skew is not None
    assert not skew.is_outdated


def test_a_version_that_is_not_served_drops_everything() -> None:
    crd = cluster_policy_crd()
    crd["spec"]["versions"][0]["served"] = False

    skew = find_skew(crd)

    assert skew is not None
    assert skew.missing == ("spec", "status")


def test_other_peoples_crds_are_none_of_our_business() -> None:
    assert find_skew({"metadata": {"name": "nodefeatures.nfd.k8s-sigs.io"}, "spec": {}}) is None
