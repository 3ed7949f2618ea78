"""The operator's own metrics, under the original's names where it has them.

Source of the names: gpu-operator v26.3.3, controllers/operator_metrics.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gpuready.controller.labelling.decision import is_gpu_node

if TYPE_CHECKING:
    from gpuready.controller.caches import Caches
    from gpuready.controller.loop import Loop
    from gpuready.controller.policy.loop import PolicyLoop


class Collector:
    """Reads the loops and caches when it is asked; nothing is counted twice."""

    def __init__(self, caches: Caches, policy: PolicyLoop, loops: Iterable[Loop]) -> None:
        self._caches = caches
        self._policy = policy
        self._loops = list(loops)

    def collect(self) -> Iterator[Metric]:
        nodes = [node for node in self._caches.nodes.values() if is_gpu_node(node.metadata.labels)]
        yield _gauge("gpu_operator_gpu_nodes_total", "nodes with nvidia.com/gpu.present=true", len(nodes))
        state = {"ready": 1, "notReady": 0}.get(self._policy.state, -1)
        yield _gauge("gpu_operator_reconciliation_status", "1 ready, 0 not ready, -1 no policy", state)
        last = self._policy.last_ready
        if last is not None:
            yield _gauge(
                "gpu_operator_reconciliation_last_success_ts_seconds", "when it was last ready", last
            )
        yield _counter("gpu_operator_reconciliation", "passes of the policy loop", self._policy.reconciled)
        yield _counter("gpu_operator_reconciliation_failed", "failed passes", self._policy.failed)
        yield self._per_loop()
        away = sum(not cache.connected for cache in self._caches.all)
        yield _gauge("gpuready_watches_broken", "watches that the API server does not serve right now", away)

    def _per_loop(self) -> Metric:
        family = CounterMetricFamily(
            "gpuready_reconciles", "passes by loop and result", labels=["loop", "result"]
        )
        for loop in self._loops:
            family.add_metric([loop.name, "failed"], loop.failed)
            family.add_metric([loop.name, "ok"], loop.reconciled - loop.failed)
        return family


def exposition(collector: Collector) -> bytes:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)
