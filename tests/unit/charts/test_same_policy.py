"""The same values lead to the same ClusterPolicy as with the original's chart.

records/ holds values files and the policies that the chart of gpu-operator v26.3.3 renders from them.
Policies are compared by what they mean: a field that is absent means its default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.unit.charts.chart import HERE, Object, needs_helm, only, refused, rendered

from gpuready.api import images
from gpuready.api.clusterpolicy import ClusterPolicy, ClusterPolicySpec
from gpuready.api.policy import find_problems, find_unknown_fields, parse_policy
from gpuready.operands import registry

pytestmark = needs_helm
REFUSED = "P10"
RECORDS = sorted(path.name for path in (HERE / "records").iterdir() if path.name != REFUSED)

# Why a field of the original's policy is not in ours: path (a * stands for one name) -> reason.
DIFFERENCES = {
    "*.repository": "no operand names an image unless the values do: gpuready's own programs run",
    "*.image": "as repository; the release table knows the name",
    "*.version": "as repository; the release table knows the version",
    "*.manager.repository": "as *.repository",
    "*.manager.image": "as *.repository",
    "*.manager.version": "as *.repository",
    "*.driverManager.repository": "as *.repository",
    "*.driverManager.image": "as *.repository",
    "*.driverManager.version": "as *.repository",
    "daemonsets.labels.helm.sh/chart": "with it, every new chart would restart every GPU pod",
    "daemonsets.labels.app.kubernetes.io/managed-by": "it comes with the label above",
    "driver.startupProbe.initialDelaySeconds": "our probe looks at once; a minute more for every driver",
    "driver.startupProbe.periodSeconds": "as initialDelaySeconds",
    "driver.startupProbe.timeoutSeconds": "as initialDelaySeconds",
    "driver.startupProbe.failureThreshold": "as initialDelaySeconds",
}


@pytest.mark.parametrize("record", RECORDS)
def test_values_of_the_original_lead_to_the_same_policy(record: str) -> None:
    ours, theirs = policies(record)
    fields_of_ours, fields_of_theirs = fields(ours), fields(theirs)
    wrong = {path: value for path, value in fields_of_ours.items() if fields_of_theirs.get(path) != value}
    assert wrong == {}, "said by our chart and not by the original's"
    missing = set(fields_of_theirs) - set(fields_of_ours)
    assert {path for path in missing if reason_of(path) is None} == set()


@pytest.mark.parametrize("record", RECORDS)
def test_where_values_name_an_image_the_same_image_runs(record: str) -> None:
    ours, theirs = policies(record)
    named = [name for name in images.RELEASES if images.named_image(ours, name) and _is_mirrored(ours, name)]
    for component in named:
        assert images.named_image(ours, component) == images.named_image(theirs, component)
    assert bool(named) == (record == "P11")


def test_every_listed_difference_is_one() -> None:
    seen = set()
    for record in RECORDS:
        ours, theirs = policies(record)
        seen |= {rule_of(path) for path in set(fields(theirs)) - set(fields(ours))}
    assert set(DIFFERENCES) - seen == set()


@pytest.mark.parametrize("record", RECORDS)
def test_the_policy_has_no_problem_and_no_field_that_nobody_knows(record: str) -> None:
    raw = only(rendered(values_of(record)), "ClusterPolicy")
    assert find_problems(raw) == []
    assert find_unknown_fields(raw) == []


def test_a_chart_without_values_asks_for_nothing_that_does_nothing() -> None:
    """A condition NoEffect that is always there is read by nobody."""
    policy = parse_policy(only(rendered(), "ClusterPolicy"))
    assert registry.fields_without_effect(policy) == []


def test_config_maps_of_values_are_written_as_by_the_original() -> None:
    objects = rendered(values_of("P03"))
    config = only(objects, "ConfigMap", "time-slicing-config")
    assert sorted(config["data"]) == ["any", "l40s"]
    metrics = only(rendered(values_of("P06")), "ConfigMap", "custom-dcgm-exporter-metrics")
    assert metrics["data"]["dcgm-metrics.csv"].startswith("DCGM_FI_DEV_GPU_UTIL, gauge")
    mig = only(rendered(values_of("P04")), "ConfigMap", "custom-mig-parted-configs")
    assert "mixed-a" in mig["data"]["config.yaml"]


def test_values_that_leave_drivers_to_nvidia_driver_objects_are_refused() -> None:
    said = refused(values_of(REFUSED))
    assert "driver.nvidiaDriverCRD.enabled: gpuready follows no NVIDIADriver objects yet" in said


# --- comparing -------------------------------------------------------------------------------------------


def policies(record: str) -> tuple[ClusterPolicy, ClusterPolicy]:
    """Ours and the original's for the same values."""
    ours = only(rendered(values_of(record)), "ClusterPolicy")
    return parse_policy(ours), parse_policy(only(documents(record), "ClusterPolicy"))


def values_of(record: str) -> Mapping[str, Any]:
    text = (HERE / "records" / record / "values.yaml").read_text()
    return dict(yaml.load(text, Loader=yaml.CSafeLoader) or {})


def documents(record: str) -> list[Object]:
    text = Path(HERE, "records", record, "policy.yaml").read_text()
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]


def fields(policy: ClusterPolicy) -> dict[str, Any]:
    """What a policy says beyond the defaults: path -> value."""
    defaults = dict(_leaves(ClusterPolicySpec()))
    return {path: value for path, value in _leaves(policy.spec) if defaults.get(path, []) != value}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, msgspec.Struct):
        inside = {field.encode_name: getattr(value, field.name) for field in msgspec.structs.fields(value)}
    elif isinstance(value, Mapping):
        inside = dict(value)
    else:
        yield path, msgspec.to_builtins(value)
        return
    for name, inner in inside.items():
        yield from _leaves(inner, f"{path}.{name}" if path else name)


def reason_of(path: str) -> str | None:
    return DIFFERENCES.get(rule_of(path))


def rule_of(path: str) -> str:
    _, dot, rest = path.partition(".")
    return f"*{dot}{rest}" if f"*{dot}{rest}" in DIFFERENCES else path


def _is_mirrored(policy: ClusterPolicy, component: str) -> bool:
    return images.block_of(policy, component).repository.startswith("registry.example.com")
