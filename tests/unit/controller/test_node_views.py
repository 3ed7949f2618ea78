"""A node is looked at again when it or its agent's pod has changed, and only then."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gpuready import names
from gpuready.controller.caches import Caches
from gpuready.controller.policy.node_views import NodeViews
from gpuready.controller.policy.observed import NodeView
from gpuready.controller.policy.view import view_of
from gpuready.kube.trimmed import Node, decode_node, decode_pod

Put = Callable[[str, Any], None]


class Seen:
    """The views of a cluster, and for which nodes the agents' pods were asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        client: Any = None
        self.caches = Caches.of(client, "gpu-operator")
        self.views = NodeViews(self.caches, self._silence_of)

    def _silence_of(self, node: Node) -> str:
        self.asked.append(node.metadata.name)
        return "" if any(pod.ready for pod in self.caches.agents_on(node.metadata.name)) else "no agent"

    def node(self, name: str, version: str = "1", **labels: str) -> None:
        meta = {"name": name, "resourceVersion": version, "labels": labels}
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        obj = {"metadata": meta, "status": status}
        self.caches.nodes._put(name, decode_node(json.dumps(obj).encode()))

    def agent(self, node: str, *, ready: bool, version: str) -> None:
        labels = {names.OPERAND_LABEL: "node-agent"}
        meta = {"name": f"agent-{node}", "namespace": "n", "resourceVersion": version, "labels": labels}
        status = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
        obj = {"metadata": meta, "spec": {"nodeName": node}, "status": status}
        self.caches.own_pods._put(f"n/agent-{node}", decode_pod(json.dumps(obj).encode()))

    def all(self) -> dict[str, NodeView]:
        return {view.name: view for view in self.views.all()}


GPU = {names.GPU_PRESENT: "true"}


def test_what_has_not_changed_is_not_looked_at_again():
    seen = Seen()
    for name in ("a", "b"):
        seen.node(name, **GPU)
    seen.all()
    seen.asked.clear()

    seen.node("b", "2", **GPU, more="labels")

    assert seen.all()["b"].labels == {**GPU, "more": "labels"}
    assert seen.asked == ["b"]


def test_a_pod_of_the_agent_that_comes_or_becomes_ready_changes_its_nodes_view():
    seen = Seen()
    seen.node("a", **GPU)
    assert seen.all()["a"].silence == "no agent"

    seen.agent("a", ready=False, version="1")
    assert seen.all()["a"].silence == "no agent"

    seen.agent("a", ready=True, version="2")
    assert seen.all()["a"].silence == ""


def test_a_node_that_nobody_has_looked_at_is_undiscovered_until_its_agent_is_ready():
    seen = Seen()
    seen.node("a")
    assert seen.all()["a"].undiscovered

    seen.agent("a", ready=True, version="1")
    assert not seen.all()["a"].undiscovered


def test_the_first_node_that_nfd_labels_changes_how_every_other_is_seen():
    """From then on a node without labels of NFD is one that NFD has still to look at."""
    seen = Seen()
    seen.node("a")
    seen.agent("a", ready=True, version="1")
    assert not seen.all()["a"].undiscovered

    meta = {
        "name": "b",
        "resourceVersion": "1",
        "annotations": {names.NFD_OWNED_ANNOTATION: names.NFD_PCI_LABELS[0]},
    }
    seen.caches.nodes._put("b", decode_node(json.dumps({"metadata": meta}).encode()))

    assert seen.all()["a"].undiscovered


OF_CHART = {"app.kubernetes.io/name": "node-feature-discovery", "role": "worker"}
OF_OPERATOR = {"app": "nfd"}


def nfd_worker(
    seen: Seen,
    name: str,
    *tolerations: dict[str, str],
    version: str = "1",
    labels: dict[str, str] = OF_CHART,
) -> None:
    meta = {"name": name, "namespace": "nfd", "resourceVersion": version, "labels": labels}
    spec = {"template": {"spec": {"tolerations": list(tolerations)}}}
    cache = seen.caches.nfd[labels is OF_OPERATOR]
    cache._put(f"nfd/{name}", {"metadata": meta, "spec": spec})


def tainted(seen: Seen, name: str) -> None:
    """Ready, without a label of NFD."""
    obj = {
        "metadata": {"name": name, "resourceVersion": "1"},
        "spec": {"taints": [{"key": "team", "value": "ml", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    seen.caches.nodes._put(name, decode_node(json.dumps(obj).encode()))


def labelled_by_nfd(seen: Seen, **annotations: str) -> None:
    meta = {
        "name": "found",
        "resourceVersion": "1",
        "labels": {names.NFD_PCI_LABELS[0]: "true"},
        "annotations": annotations,
    }
    seen.caches.nodes._put("found", decode_node(json.dumps({"metadata": meta}).encode()))


NFD = {names.NFD_OWNED_ANNOTATION: names.NFD_PCI_LABELS[0]}
TEAM = {"key": "team", "operator": "Exists"}


def test_a_taint_that_nfd_does_not_tolerate_is_told_until_it_does():
    seen = Seen()
    labelled_by_nfd(seen, **NFD)
    tainted(seen, "a")
    nfd_worker(seen, "nfd-worker")

    kept = seen.all()["a"].kept_away
    assert kept is not None
    assert (kept.daemonset, kept.taints) == ("nfd/nfd-worker", ("team=ml:NoSchedule",))

    nfd_worker(seen, "nfd-worker", TEAM, version="2")
    assert seen.all()["a"].kept_away is None
    assert seen.all()["a"].undiscovered, "it has still to look"


def test_a_worker_of_nfds_operator_counts_as_one_and_its_topology_updater_does_not():
    """OpenShift's operator and plain manifests mark all parts alike: app=nfd."""
    seen = Seen()
    labelled_by_nfd(seen, **NFD)
    tainted(seen, "a")
    for cache in seen.caches.nfd:
        cache._synced.set()
    nfd_worker(seen, "nfd-topology-updater", labels=OF_OPERATOR)
    assert not seen.caches.nfd_may_run

    nfd_worker(seen, "nfd-worker", labels=OF_OPERATOR)
    assert seen.caches.nfd_may_run
    kept = seen.all()["a"].kept_away
    assert kept is not None
    assert kept.daemonset == "nfd/nfd-worker"


def test_of_two_installations_of_nfd_one_that_may_run_there_is_enough():
    seen = Seen()
    labelled_by_nfd(seen, **NFD)
    tainted(seen, "a")
    nfd_worker(seen, "first")
    nfd_worker(seen, "second", TEAM)

    assert seen.all()["a"].kept_away is None


def test_where_no_nfd_labels_nodes_a_taint_hides_none_from_the_agent_which_tolerates_all():
    """NFD is installed and has found no GPU, or is older than the annotation by which it is known."""
    for written in ({}, {"nfd.node.kubernetes.io/worker.version": "0.3"}):
        seen = Seen()
        labelled_by_nfd(seen, **written)
        tainted(seen, "a")
        nfd_worker(seen, "nfd-worker")
        seen.agent("a", ready=True, version="1")

        assert not seen.all()["a"].undiscovered
        assert seen.all()["a"].kept_away is None


def test_a_node_that_is_gone_is_seen_no_longer():
    seen = Seen()
    seen.node("a", **GPU)
    seen.all()

    seen.caches.nodes._drop("a")

    assert seen.all() == {}


def test_where_only_the_labels_of_nfd_are_left_the_agents_look_at_new_nodes():
    """A takeover removes the original's NFD, not what it wrote on nodes."""
    seen = Seen()
    labelled_by_nfd(seen, **NFD)
    tainted(seen, "new")
    for cache in seen.caches.nfd:
        cache._synced.set()
    assert seen.all()["new"].undiscovered, "its agent is not there yet"
    seen.agent("new", ready=True, version="1")
    assert not seen.all()["new"].undiscovered
    view = view_of(
        seen.caches.nodes.values(), namespace="n", own_image="i", base_driver=None, nfd_may_run=False
    )
    assert not view.nfd_present, "so the agent runs on every node"
