"""Which labels a node gets, and whose they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready import names
from gpuready.controller.labelling.decision import LabelFacts, LabelPolicy, decide

PCI = {"feature.node.kubernetes.io/pci-10de.present": "true"}
POLICY = LabelPolicy()


def facts(
    labels: dict[str, str] | None = None, *, ours: dict[str, str] | None = None, owner: str = "container"
) -> LabelFacts:
    annotations = {names.CONTROLLER_LABELS_ANNOTATION: json.dumps(ours)} if ours else {}
    return LabelFacts(labels=PCI if labels is None else labels, annotations=annotations, driver_owner=owner)


def applied(before: LabelFacts, patch: dict[str, Any] | None) -> LabelFacts:
    """The node after the API server merged the patch."""
    metadata = (patch or {}).get("metadata", {})
    labels = {**before.labels, **metadata.get("labels", {})}
    annotations = {**before.annotations, **metadata.get("annotations", {})}
    return LabelFacts(
        labels={key: value for key, value in labels.items() if value is not None},
        annotations={key: value for key, value in annotations.items() if value is not None},
        driver_owner=before.driver_owner,
    )


def test_a_new_gpu_node_gets_all_deploy_labels_in_one_patch():
    node = applied(facts(), decide(facts(), POLICY))
    assert node.labels["nvidia.com/gpu.present"] == "true"
    assert {key.removeprefix(names.DEPLOY_PREFIX) for key in node.labels if "gpu.deploy." in key} == {
        "driver",
        "gpu-feature-discovery",
        "container-toolkit",
        "device-plugin",
        "dcgm",
        "dcgm-exporter",
        "node-status-exporter",
        "operator-validator",
    }
    assert decide(node, POLICY) is None, "a labelled node costs no write"


@pytest.mark.parametrize("label", names.NFD_PCI_LABELS)
def test_each_pci_label_of_feature_discovery_makes_a_gpu_node(label):
    assert decide(facts({label: "true"}), POLICY) is not None
    assert decide(facts({label: "false"}), POLICY) is None


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        pytest.param("host", "pre-installed", id="a host driver keeps the driver pod away"),
        pytest.param("container", "true", id="no driver on the host"),
        pytest.param("", None, id="nobody has looked yet: no label, so no driver pod can start"),
    ],
)
def test_the_driver_label_waits_for_the_node_agent(owner, expected):
    node = applied(facts(owner=owner), decide(facts(owner=owner), POLICY))
    assert node.labels.get(names.DEPLOY_DRIVER) == expected


def test_without_a_driver_in_the_policy_the_label_does_not_wait():
    node = applied(facts(owner=""), decide(facts(owner=""), LabelPolicy(driver_enabled=False)))
    assert node.labels[names.DEPLOY_DRIVER] == "true"


def test_an_agent_that_falls_silent_does_not_take_the_driver_label_away():
    node = applied(facts(), decide(facts(), POLICY))
    silent = LabelFacts(labels=node.labels, annotations=node.annotations, driver_owner="")
    assert decide(silent, POLICY) is None


def test_a_label_removed_by_hand_is_back():
    node = applied(facts(), decide(facts(), POLICY))
    labels = {key: value for key, value in node.labels.items() if key != names.DEPLOY_DEVICE_PLUGIN}
    patch = decide(LabelFacts(labels, node.annotations, "container"), POLICY)
    assert patch == {"metadata": {"labels": {names.DEPLOY_DEVICE_PLUGIN: "true"}}}


@pytest.mark.parametrize("value", ["false", "paused-for-driver-upgrade", "mine"])
def test_a_value_that_is_not_ours_is_honoured(value):
    node = applied(facts(), decide(facts(), POLICY))
    changed = LabelFacts({**node.labels, names.DEPLOY_DEVICE_PLUGIN: value}, node.annotations, "container")
    after = applied(changed, decide(changed, POLICY))
    assert after.labels[names.DEPLOY_DEVICE_PLUGIN] == value
    gone = applied(after, decide(after, None))
    assert gone.labels[names.DEPLOY_DEVICE_PLUGIN] == value, "and it outlives the policy"


def test_without_a_policy_nothing_of_ours_stays():
    node = applied(facts(), decide(facts(), POLICY))
    clean = applied(node, decide(node, None))
    assert clean.labels == PCI
    assert clean.annotations == {}


def test_the_opt_out_of_a_whole_node_removes_all_deploy_labels():
    node = applied(facts(), decide(facts(), POLICY))
    opted_out = LabelFacts({**node.labels, names.DEPLOY_OPERANDS: "false"}, node.annotations, "container")
    after = applied(opted_out, decide(opted_out, POLICY))
    assert after.labels == {**PCI, names.DEPLOY_OPERANDS: "false", names.GPU_PRESENT: "true"}


def test_a_card_that_went_away_leaves_present_false_and_no_deploy_label():
    node = applied(facts(), decide(facts(), POLICY))
    labels = {key: value for key, value in node.labels.items() if key not in PCI}
    bare = LabelFacts(labels, node.annotations, "")
    assert applied(bare, decide(bare, POLICY)).labels == {names.GPU_PRESENT: "false"}


def test_the_originals_promise_to_upgrade_drivers_goes():
    """With it the driver manager evicts nobody, and nobody else does: the driver could never be unloaded."""
    promised = {names.UPGRADE_ENABLED_ANNOTATION: "true"}
    settled = applied(facts(), decide(facts(), POLICY))
    before = LabelFacts(settled.labels, {**settled.annotations, **promised}, "container")
    patch = decide(before, POLICY)
    assert patch == {"metadata": {"annotations": {names.UPGRADE_ENABLED_ANNOTATION: None}}}
    assert decide(applied(before, patch), POLICY) is None
    assert decide(LabelFacts({}, promised), None) is None, "without a policy it is nobody's here"


def test_a_plain_node_is_never_touched():
    assert decide(facts({"kubernetes.io/os": "linux"}), POLICY) is None


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        pytest.param({"nvidia.com/mig.capable": "true"}, True, id="discovered as capable"),
        pytest.param(
            {"nvidia.com/mig.capable": "false", "nvidia.com/gpu.product": "NVIDIA-A100"}, False, id="denied"
        ),
        pytest.param({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, True, id="by product"),
        pytest.param({"nvidia.com/gpu.product": "NVIDIA-L4"}, False, id="cannot"),
    ],
)
def test_the_mig_manager_runs_where_mig_is_possible(label, expected):
    node = applied(facts({**PCI, **label}), decide(facts({**PCI, **label}), POLICY))
    assert ("nvidia.com/gpu.deploy.mig-manager" in node.labels) == expected
    assert (node.labels.get("nvidia.com/mig.config") == "all-disabled") == expected


@pytest.mark.parametrize("text", [None, "{not json", "[1]", "[" * 100_000])
def test_labels_are_adopted_again_when_the_annotation_is_lost(text):
    node = applied(facts(), decide(facts(), POLICY))
    damaged = {} if text is None else {names.CONTROLLER_LABELS_ANNOTATION: text}
    lost = LabelFacts(node.labels, damaged, "container")
    again = applied(lost, decide(lost, POLICY))
    assert again.annotations == node.annotations
    assert applied(again, decide(again, None)).labels == PCI, "so that the uninstall finds them"


def test_a_forged_annotation_cannot_make_us_remove_others_labels():
    foreign = {"team": "ml", "kubernetes.io/hostname": "n1"}
    node = facts({**PCI, **foreign}, ours=foreign)
    assert foreign.items() <= applied(node, decide(node, POLICY)).labels.items()
    assert foreign.items() <= applied(node, decide(node, None)).labels.items()


KEYS = st.sampled_from(
    [names.GPU_PRESENT, names.DEPLOY_DEVICE_PLUGIN, names.DEPLOY_DRIVER, *names.NFD_PCI_LABELS]
)
VALUES = st.sampled_from(["true", "false", "", "pre-installed", "paused", "mine"])
PAIRS = st.dictionaries(KEYS, VALUES)
OUR_KEYS = st.sampled_from([names.GPU_PRESENT, names.DEPLOY_DEVICE_PLUGIN, names.DEPLOY_DRIVER])


@given(
    labels=PAIRS,
    ours=st.dictionaries(OUR_KEYS, VALUES),
    owner=st.sampled_from(["", "host", "container"]),
)
def test_one_patch_is_enough_and_the_next_pass_writes_nothing(labels, ours, owner):
    before = facts(labels, ours=ours, owner=owner)
    after = applied(before, decide(before, POLICY))
    assert decide(after, POLICY) is None
