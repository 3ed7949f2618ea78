"""cluster.yaml: what it means, and what its errors say."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuready_sim.cluster.spec import DEFAULT_CLUSTER, ClusterSpec, SpecError

EXAMPLES = sorted(Path(__file__).parents[3].glob("examples/cluster-*.yaml"))


def test_a_count_expands_to_numbered_nodes():
    spec = ClusterSpec.parse("nodes: [{name: a100, count: 3, gpus: {A100-SXM4-40GB: 8}}]")

    assert [n.name for n in spec.nodes] == ["a100-0", "a100-1", "a100-2"]
    assert spec.nodes[0].gpus == ("A100-SXM4-40GB",) * 8


def test_a_node_with_gpus_has_a_host_driver_unless_told_otherwise():
    spec = ClusterSpec.parse(
        "nodes: [{name: a, gpus: {L4: 1}}, {name: b, gpus: {L4: 1}, driver: container}, {name: c}]"
    )

    assert [(n.driver_where, n.driver_version) for n in spec.nodes] == [
        ("host", "570.86.10"),
        ("container", None),
        ("none", None),
    ]


def test_two_models_in_one_node_keep_their_slots():
    spec = ClusterSpec.parse("nodes: [{name: a, gpus: [L4, {model: RTX-4090, count: 2}, L4]}]")

    assert spec.nodes[0].gpus == ("L4", "RTX-4090", "RTX-4090", "L4")


@pytest.mark.parametrize(
    ("text", "what", "why", "hint"),
    [
        pytest.param(
            "nodes: [{name: a, gpus: {A100: 8}}]",
            "nodes[0].gpus.A100: 'A100' is not allowed",
            "A100-SXM4-40GB, H100-SXM5-80GB, L4, T4, RTX-4090",
            "use 'A100-SXM4-40GB'",
            id="unknown model names the known ones",
        ),
        pytest.param(
            "nodes: [{name: a, gpu: {L4: 1}}]",
            "nodes[0].gpu is not allowed here",
            "gpus",
            "use 'gpus'",
            id="typo",
        ),
        pytest.param(
            "nodes: [{name: a, gpus: {L4: 0}}]",
            "nodes[0].gpus.L4: 0 is not allowed",
            "1 or more",
            "",
            id="count",
        ),
        pytest.param(
            "nodes: [{name: a, crio: 1.34.2, containerd: 2.2.1}]",
            "nodes[0].crio: '1.34.2' is not allowed",
            "a node has one runtime",
            "",
            id="two runtimes",
        ),
        pytest.param(
            "nodes: [{name: A_b}]", "nodes[0].name: 'A_b' is not allowed", "lower case", "", id="name"
        ),
        pytest.param(
            "nodes: [{name: a, driver: {where: hots}}]",
            "nodes[0].driver.where: 'hots' is not allowed",
            "host, container, none",
            "use 'host'",
            id="driver place",
        ),
        pytest.param(
            "nodes: [{name: a, driver: {where: moon}}]",
            "nodes[0].driver.where: 'moon' is not allowed",
            "host, container, none",
            "correct the file",
            id="nothing like it",
        ),
        pytest.param(
            "nodes: [{name: a, driver: {version: 5.x}}]",
            "nodes[0].driver.version: '5.x' is not allowed",
            "570.86.10",
            "",
            id="driver version",
        ),
        pytest.param(
            "nodes: [{name: a, count: 2.7}]",
            "nodes[0].count: 2.7 is not allowed",
            "a whole number, 0 or more",
            "",
            id="how many nodes",
        ),
        pytest.param(
            "nodes: [{name: a, os: {version: 22.04}}]",
            "nodes[0].os.version: 22.04 is not allowed",
            "a text in quotes",
            "",
            id="a version that YAML reads as a number",
        ),
        pytest.param(
            "nodes: [{name: a, taints: [{key: k, effect: NoShedule}]}]",
            "nodes[0].taints[0].effect: 'NoShedule' is not allowed",
            "NoSchedule, PreferNoSchedule, NoExecute",
            "use 'NoSchedule'",
            id="taint effect",
        ),
        pytest.param("nodes: [{name: a, memory: lots}]", "nodes[0].memory", "a quantity", "", id="quantity"),
        pytest.param("nodes: [{name: a, cpu: -3}]", "nodes[0].cpu: -3", "above 0", "", id="negative"),
        pytest.param("nodes: [{name: a, memory: 0Gi}]", "nodes[0].memory: '0Gi'", "above 0", "", id="zero"),
        pytest.param("nodes: [{name: a, cpu: .inf}]", "nodes[0].cpu: inf", "above 0", "", id="infinite"),
        pytest.param("nodes: [{name: a, cpu: true}]", "nodes[0].cpu: True", "above 0", "", id="no number"),
        pytest.param(
            'nodes: [{name: a, labels: {"b ad": 1}}]',
            "nodes[0].labels.b ad: 'b ad' is not allowed",
            "a label key such as nvidia.com/gpu",
            "",
            id="label key",
        ),
        pytest.param(
            "nodes: [{name: a, labels: {team: m l}}]",
            "nodes[0].labels.team: 'm l' is not allowed",
            "letters, digits, '-', '_' and '.'",
            "",
            id="label value",
        ),
        pytest.param(
            "nodes: [{name: a, labels: {1: x}}]",
            "nodes[0].labels.1: 1 is not allowed",
            "a text in quotes",
            "",
            id="a label key that YAML reads as a number",
        ),
        pytest.param(
            "nodes: [{name: a, taints: [{key: /gpu}]}]",
            "nodes[0].taints[0].key: '/gpu' is not allowed",
            "a label key such as nvidia.com/gpu",
            "",
            id="taint key",
        ),
        pytest.param(
            "nodes: [{name: a, taints: [{key: gpu, value: -x}]}]",
            "nodes[0].taints[0].value: '-x' is not allowed",
            "letters, digits, '-', '_' and '.'",
            "",
            id="taint value",
        ),
        pytest.param(
            "nodes: [{name: a, taints: [{key: gpu, value: x}, {key: gpu, value: y}]}]",
            "nodes[0].taints[1].key: 'gpu' is not allowed",
            "a taint gpu:NoSchedule already",
            "",
            id="the same taint twice",
        ),
        pytest.param(
            f"nodes: [{{name: {62 * 'n'}, count: 2}}]",
            f"nodes[0].name: '{62 * 'n'}-0' is not allowed",
            "at most 63",
            "",
            id="too long with its number",
        ),
        pytest.param(
            "{nodes: [{name: a}], podApi: api.example.com}",
            "podApi: 'api.example.com' is not allowed",
            "127.0.0.1:16443",
            "",
            id="pods reach nothing outside",
        ),
        pytest.param(
            "{nodes: [{name: a}], nodeGraceSeconds: 0}",
            "nodeGraceSeconds: 0 is not allowed",
            "1 or more",
            "",
            id="no grace",
        ),
        pytest.param(
            "{nodes: [{name: a}], nodeGraceSeconds: .nan}",
            "nodeGraceSeconds: nan is not allowed",
            "1 or more",
            "",
            id="grace that is no number",
        ),
        pytest.param("nodes: [{name: a}, {name: a}]", "two nodes are called a", "identity", "", id="doubles"),
        pytest.param("nodes: []", "nodes", "at least one node", "", id="empty"),
        pytest.param("nodes: [", "is no YAML", "", "", id="broken YAML"),
        pytest.param("- a", "the file", "a mapping", "", id="no mapping"),
    ],
)
def test_an_error_names_path_value_and_what_is_allowed(text, what, why, hint):
    with pytest.raises(SpecError) as caught:
        ClusterSpec.parse(text)

    assert what in caught.value.what
    assert why in caught.value.why
    assert hint in caught.value.next_step


def test_the_default_cluster_is_valid():
    assert [len(n.gpus) for n in ClusterSpec.parse(DEFAULT_CLUSTER).nodes] == [0, 2]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_each_example_is_valid(path):
    assert ClusterSpec.load(path).nodes


def test_there_are_three_examples():
    assert len(EXAMPLES) == 3
