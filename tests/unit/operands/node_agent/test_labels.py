"""The rule of DESIGN §5 about node labels, on the agent's side."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready import names
from gpuready.operands.node_agent import labels

PCI = names.NFD_PCI_LABELS[0]
KERNEL = names.KERNEL_LABEL


def remembered(**pairs: str) -> dict[str, str]:
    return remembered_of(pairs)


def remembered_of(pairs: Mapping[str, str]) -> dict[str, str]:
    if not pairs:
        return {}
    text = json.dumps(dict(sorted(pairs.items())), separators=(",", ":"))
    return {names.AGENT_LABELS_ANNOTATION: text}


@pytest.mark.parametrize(
    ("on_node", "wrote", "wanted", "changes"),
    [
        pytest.param({}, {}, {PCI: "true"}, {PCI: "true"}, id="first label"),
        pytest.param({PCI: "true"}, {PCI: "true"}, {PCI: "true"}, None, id="nothing differs"),
        pytest.param({}, {PCI: "true"}, {PCI: "true"}, {PCI: "true"}, id="removed by hand: back at once"),
        pytest.param(
            {PCI: "false"}, {PCI: "true"}, {PCI: "true"}, {}, id="changed by hand: honoured, not ours"
        ),
        pytest.param({PCI: "false"}, {}, {PCI: "true"}, None, id="a value of somebody else"),
        pytest.param({PCI: "true"}, {}, {PCI: "true"}, {}, id="as we would write it, and no note: adopted"),
        pytest.param({KERNEL: "5.15"}, {KERNEL: "5.15"}, {KERNEL: "6.8"}, {KERNEL: "6.8"}, id="a new kernel"),
        pytest.param({PCI: "true"}, {PCI: "true"}, {}, {PCI: None}, id="no longer wanted"),
        pytest.param({PCI: "false"}, {PCI: "true"}, {}, {}, id="no longer wanted and no longer ours"),
    ],
)
def test_a_key_is_ours_while_it_holds_the_value_we_wrote(
    on_node: dict[str, str],
    wrote: dict[str, str],
    wanted: dict[str, str],
    changes: dict[str, str | None] | None,
) -> None:
    patch = labels.metadata_patch(on_node, remembered_of(wrote), wanted)

    assert (patch.get("labels", {}) if patch else None) == changes


def test_labels_that_another_writer_claims_are_left_and_forgotten() -> None:
    on_node = {PCI: "true", KERNEL: "5.15"}

    patch = labels.metadata_patch(on_node, remembered_of(on_node), {}, of_others={PCI})

    assert patch == {"labels": {KERNEL: None}, "annotations": {names.AGENT_LABELS_ANNOTATION: None}}


@pytest.mark.parametrize("text", ["{not json", "[]", "[" * 100_000])
def test_labels_are_adopted_again_when_the_annotation_is_spoiled(text: str) -> None:
    spoiled = {names.AGENT_LABELS_ANNOTATION: text}

    patch = labels.metadata_patch({PCI: "true"}, spoiled, {PCI: "true"})

    assert patch == {"annotations": remembered_of({PCI: "true"})}


def test_a_forged_annotation_cannot_make_us_remove_others_labels() -> None:
    foreign = {"team": "ml", names.DEPLOY_DRIVER: "true"}

    patch = labels.metadata_patch(foreign, remembered_of(foreign), {})

    assert patch == {"annotations": {names.AGENT_LABELS_ANNOTATION: None}}


PAIRS = st.dictionaries(
    st.sampled_from([PCI, KERNEL, "nvidia.com/gpu.product", "nvidia.com/gpu.count"]), st.sampled_from("xyz")
)


@given(on_node=PAIRS, wrote=PAIRS, wanted=PAIRS)
def test_a_second_look_after_the_patch_finds_nothing_to_do(
    on_node: dict[str, str], wrote: dict[str, str], wanted: dict[str, str]
) -> None:
    annotations = remembered_of(wrote)
    patch = labels.metadata_patch(on_node, annotations, wanted) or {}

    after = merged(on_node, patch.get("labels", {}))
    noted = merged(annotations, patch.get("annotations", {}))

    assert labels.metadata_patch(after, noted, wanted) is None
    assert all(after.get(key) == value or key in on_node for key, value in wanted.items())


def merged(base: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    both = {**base, **changes}
    return {key: value for key, value in both.items() if value is not None}
