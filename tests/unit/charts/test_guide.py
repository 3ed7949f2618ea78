"""docs/guides/install.md and the example values: what they name exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.charts.chart import CHART, ROOT, needs_helm, only, rendered

from gpuready.api.policy import find_problems
from gpuready.commands import gpuready
from gpuready.tools.images import images_of

GUIDE = (ROOT / "docs/guides/install.md").read_text()
EXAMPLES = sorted((ROOT / "examples").glob("values-*.yaml"))
NODES = """
kind: NodeList
items:
- kind: Node
  metadata:
    name: gpu-a
    labels:
      feature.node.kubernetes.io/pci-10de.present: "true"
      feature.node.kubernetes.io/system-os_release.ID: ubuntu
      feature.node.kubernetes.io/system-os_release.VERSION_ID: "22.04"
"""
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


@needs_helm
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_values_render_a_policy_without_problems(example: Path) -> None:
    policy = only(rendered(yaml.safe_load(example.read_text())), "ClusterPolicy")
    assert find_problems(policy) == []


@needs_helm
def test_the_air_gaps_steps_list_every_image_with_its_place_in_the_mirror() -> None:
    values = yaml.safe_load((ROOT / "examples/values-airgap.yaml").read_text())
    policy = yaml.safe_dump(only(rendered(values), "ClusterPolicy"))
    pulled, _ = images_of(policy, NODES)
    assert any("/driver:" in each.image for each in pulled)
    assert all(each.image.startswith("mirror.example.com/gpu/") for each in pulled)
    operator = only(rendered(values), "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert operator in {each.image for each in pulled}, "the operator's own is among them"


def test_every_value_that_the_guide_names_is_in_values_yaml() -> None:
    named = set(re.findall(r"[`\s](?:--set )?([a-z]\w+(?:\.[a-zA-Z]\w+)+)[=`]", GUIDE))
    named = {name for name in named if name.partition(".")[0] in VALUES}
    assert len(named) >= 8
    # No operand names an image by default, but may.
    named = {name for name in named if name.rpartition(".")[2] not in ("repository", "image", "version")}
    assert {name for name in named if not _is_there(VALUES, name.split("."))} == set()


def test_every_command_that_the_guide_types_exists() -> None:
    typed = re.findall(r"(?:^|[`|] ?|-- )\s*gpuready ([a-z]\w*)((?: --?[\w-]+)*)", GUIDE, re.MULTILINE)
    typed = [(word, flags.split()) for word, flags in typed if word in gpuready.commands or flags]
    assert {word for word, _ in typed} >= {"crds", "images", "uninstall"}
    for word, flags in typed:
        known = {name for option in gpuready.commands[word].params for name in option.opts}
        assert set(flags) - known == set(), f"gpuready {word}"


def test_every_file_that_the_guide_names_is_there() -> None:
    files = set(re.findall(r"\b((?:examples|tests|charts)/[\w./-]+)", GUIDE))
    assert {name for name in files if not (ROOT / name.rstrip(".")).exists()} == set()


def _is_there(values: Any, path: list[str]) -> bool:
    for name in path:
        if not isinstance(values, dict) or name not in values:
            return False
        values = values[name]
    return True
