"""A bundle that is not one: refused with what, why and the next step, wherever the fault is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.tools.cluster import cluster, daemonset, gpu_node, link, node, operand_pod, pod, policy

from gpuready.commands import run
from gpuready.tools.snapshot import FORMAT

TAINT = {"key": "team", "value": "ml", "effect": "NoSchedule"}
TERMS = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": TERMS}}}


def whole() -> dict[str, Any]:
    """Every kind with every part that the analysis reads."""
    broken = link("device-plugin", "broken", "PluginNotRegistered", "m", evidence=["e"], nextStep="n")
    crashed = operand_pod("device-plugin", "g1", waiting={"reason": "CrashLoopBackOff", "message": "m"})
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": "m"}}
    crashed["status"]["containerStatuses"][0]["lastState"] = ended
    return cluster(
        node("g1", gpus=2, taints=[TAINT]),
        node("g2", gpus=2, cordoned=True),
        gpu_nodes=[gpu_node("g1", broken), gpu_node("g2")],
        pods=[crashed, pod("h", on="g2", gpus=1), pod("p", gpus=1, affinity=AFFINITY, tolerations=[TAINT])],
        daemonsets=[daemonset("d", "device-plugin", tolerations=[TAINT], selector={"a": "b"})],
        policies=[policy("notReady", operands=[{"name": "driver", "state": "notImplemented"}])],
    ).to_json()


def doctor(tmp_path: Path, content: str) -> int:
    file = tmp_path / "bundle.json"
    file.write_text(content)
    return run(["doctor", "--bundle", str(file)])


def test_a_kind_that_we_do_not_know_is_named_as_the_bundle_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor(tmp_path, json.dumps({**whole(), "missing": ["gpunodes", "widgets"]})) == 1

    told = "the API server does not know gpunodes.gpuready.dev, widgets\n"
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"nodes": "abc"}, 'nodes must be a list, and is "abc"'),
        ({"nodes": 5}, "nodes must be a list, and is a number"),
        ({"nodes": [1]}, "nodes[0] must be an object"),
        ({"nodes": [None]}, "nodes[0] is missing"),
        ({"nodes": {"a": 1}}, "nodes must be a list, and is an object"),
        ({"nodes": [{}]}, "nodes[0].metadata is missing"),
        ({"missing": 5}, "missing must be a list"),
        (
            {"gpunodes": [gpu_node("g1", gpus="many")]},
            'gpunodes[0].status.gpus must be a whole number, and is "many"',
        ),  # type: ignore[arg-type]
        ({"gpunodes": [gpu_node("g1", link(7))]}, "gpunodes[0].status.chain[5].link must be a text"),  # type: ignore[arg-type]
        ({"gpunodes": [gpu_node("g1", link("driver", 7))]}, "status.chain[1].state must be a text"),  # type: ignore[arg-type]
    ],
)
def test_a_malformed_bundle_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, Any], why: str
) -> None:
    assert doctor(tmp_path, json.dumps({**whole(), **changed})) == 2

    told = capsys.readouterr().err
    assert "is not a bundle" in told
    assert why in told
    assert "--save-bundle" in told


def test_a_bundle_may_hold_links_and_states_of_a_newer_node_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = gpu_node("g1", link("fabric", "broken", "NoFabric", "no manager"), link("driver", "splendid"))

    assert doctor(tmp_path, json.dumps({**whole(), "gpunodes": [newer]})) == 1
    assert "FAIL  node/g1  fabric  no manager" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("[" * 200_000, id="nothing but depth"),
        pytest.param(f'{{"format": "{FORMAT}", "nodes": {"[" * 100_000}{"]" * 100_000}}}', id="deep"),
        pytest.param(f'{{"format": "{FORMAT}", "nodes": {"9" * 10_000}}}', id="a long number"),
        pytest.param("", id="empty"),
    ],
)
def test_what_json_cannot_read_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    assert doctor(tmp_path, content) == 2
    assert "is not a bundle" in capsys.readouterr().err


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bundle").write_bytes(b"\x1f\x8b\xff\xfe")

    assert run(["doctor", "--bundle", str(tmp_path / "bundle")]) == 2


def test_a_fault_in_any_place_is_told_or_does_not_matter(tmp_path: Path) -> None:
    """Each value of a whole bundle in turn is one of another kind: never a traceback."""
    text = json.dumps(whole())
    for path in list(_places(whole())):
        for wrong in (5, "abc", [1], {"a": 1}, True, None):
            row = json.loads(text)
            _put(row, path, wrong)
            assert doctor(tmp_path, json.dumps(row)) in (0, 1, 2), path


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from _places(inner, (*path, key))


def _put(row: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        row = row[key]
    row[path[-1]] = value
