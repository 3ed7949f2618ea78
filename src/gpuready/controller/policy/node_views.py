"""Each node as the status sees it, looked at again only when it or a pod of its agent has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuready import names
from gpuready.controller.caches import Caches
from gpuready.controller.labelling.decision import is_gpu_node
from gpuready.controller.nodes.condition import is_unknown
from gpuready.controller.policy.observed import KeptAway, NodeView
from gpuready.controller.policy.view import is_labelled_by_nfd
from gpuready.kube.taints import taints_against_daemonset, taints_of
from gpuready.kube.trimmed import Node, Pod


class NodeViews:
    """A pass reads thousands of nodes, of which a few have changed since the last."""

    def __init__(self, caches: Caches, silence_of: Callable[[Node], str]) -> None:
        self._caches = caches
        self._silence_of = silence_of
        self._known: dict[str, NodeView] = {}
        self._by_nfd = False
        caches.nodes.add_handler(self._on_node)
        caches.own_pods.add_handler(self._on_pod)
        for nfd in caches.nfd:
            nfd.add_handler(self._on_nfd)

    def all(self) -> list[NodeView]:
        nodes = self._caches.nodes.values()
        by_nfd = self._caches.nfd_may_run and any(is_labelled_by_nfd(node) for node in nodes)
        if by_nfd != self._by_nfd:
            self._by_nfd = by_nfd
            self._known.clear()
        return [self._known.get(node.metadata.name) or self._look_at(node) for node in nodes]

    def _look_at(self, node: Node) -> NodeView:
        view = self._known[node.metadata.name] = self._view_of(node)
        return view

    def _view_of(self, node: Node) -> NodeView:
        name, labels = node.metadata.name, node.metadata.labels
        if is_gpu_node(labels):
            return NodeView(
                name,
                labels,
                silence=self._silence_of(node),
                silent=is_unknown(node),
                cordoned=node.spec.unschedulable,
                ready=node.ready,
                taints=node.spec.taints,
            )
        seen = _has_nfd_labels(labels) if self._by_nfd else self._has_ready_agent(name)
        silence = "" if self._by_nfd or seen else self._silence_of(node)
        undiscovered = node.ready and not seen
        kept_away = self._kept_away(node) if undiscovered and self._by_nfd else None
        return NodeView(name, labels, silence=silence, undiscovered=undiscovered, kept_away=kept_away)

    def _kept_away(self, node: Node) -> KeptAway | None:
        """None when a worker of NFD may run there, or there is none at all."""
        taints = taints_of(node.spec.taints)
        found = [
            KeptAway(f"{worker['metadata']['namespace']}/{worker['metadata']['name']}", tuple(against))
            for worker in self._caches.nfd_workers()
            for against in (taints_against_daemonset(taints, worker),)
        ]
        return found[0] if found and all(each.taints for each in found) else None

    def _has_ready_agent(self, node: str) -> bool:
        return any(pod.ready for pod in self._caches.agents_on(node))

    def _on_nfd(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        if old is None or new is None or old["spec"] != new["spec"]:
            self._known.clear()

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        for node in (old, new):
            if node is not None:
                self._known.pop(node.metadata.name, None)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None:
                self._known.pop(pod.node_name, None)


def _has_nfd_labels(labels: dict[str, str]) -> bool:
    return any(key.startswith(names.NFD_PREFIX) for key in labels)
