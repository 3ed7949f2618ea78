"""The operator's own metrics: the original's under their names, ours beside them.

Nothing is computed between two scrapes, and the fleet is counted anew only when a node has changed. What the
API says (policies, operands, nodes) is told by the leader alone, so that a second replica does not double it.

Source of the original's names: gpu-operator v26.3.3, controllers/operator_metrics.go.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gpuready import names
from gpuready.controller.fleet import Fleet, fleet_of
from gpuready.controller.upgrade import budget
from gpuready.operands import registry

if TYPE_CHECKING:
    from gpuready.api.clusterpolicy import ClusterPolicy
    from gpuready.controller.caches import Caches
    from gpuready.controller.current import CurrentPolicy
    from gpuready.controller.loop import Loop
    from gpuready.controller.policy.loop import PolicyLoop
    from gpuready.kube.client import KubeClient

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# A pass takes milliseconds; one that waits for a slow API server takes seconds.
_DURATIONS_S = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)
Row = Mapping[str, Any]
Rows = Mapping[Any, int]  # the values of the labels, as a tuple -> how many


class Metrics:
    """Everything that /metrics shows.

    leader   set by whoever knows: false on a replica that waits for its turn. An operator that runs alone,
             without an election, leads.
    """

    def __init__(
        self,
        client: KubeClient,
        caches: Caches,
        current: CurrentPolicy,
        policy: PolicyLoop,
        loops: Iterable[Loop],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.leader = True
        self._caches = caches
        self._current = current
        self._policy = policy
        self._loops = list(loops)
        self._clock = clock
        self._requests: Counter[tuple[str, str, str]] = Counter()
        self._fleet: Fleet | None = None
        self._registry = CollectorRegistry()
        self._listen(client)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def exposition(self) -> bytes:
        """The body of /metrics."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Called by prometheus_client at each scrape."""
        yield from self._process()
        if self.leader:
            yield from self._originals()
            yield from self._policies()
            yield from self._operands()
            yield from self._nodes()

    # --- what is noted as it happens ---------------------------------------------------------------------

    def _listen(self, client: KubeClient) -> None:
        durations = Histogram(
            "gpuready_reconcile_duration_seconds",
            "how long one pass of a loop took",
            labelnames=["loop"],
            buckets=_DURATIONS_S,
            registry=self._registry,
        )
        for loop in self._loops:
            loop.on_pass = durations.labels(loop=loop.name).observe
        client.observer = self._note_request
        self._caches.nodes.add_handler(self._forget_fleet)
        self._caches.gpu_nodes.add_handler(self._forget_fleet)

    def _note_request(self, verb: str, resource: str, code: str) -> None:
        self._requests[(verb, resource, code)] += 1

    def _forget_fleet(self, old: object, new: object) -> None:
        self._fleet = None

    def _known_fleet(self) -> Fleet:
        if self._fleet is None:
            by_name = {summary.metadata.name: summary for summary in self._caches.gpu_nodes.values()}
            self._fleet = fleet_of(self._caches.nodes.values(), by_name)
        return self._fleet

    # --- this process ------------------------------------------------------------------------------------

    def _process(self) -> Iterator[Metric]:
        yield _gauges("gpuready_build_info", "the version that runs", ["version"], {(names.VERSION,): 1})
        yield _gauge("gpuready_leader", "1 on the replica that leads, 0 on one that waits", self.leader)
        yield _counters(
            "gpuready_reconciles",
            "passes that ended, by loop and result: ok, conflict, away, failed",
            ["loop", "result"],
            {(loop.name, result): n for loop in self._loops for result, n in _all_results(loop).items()},
        )
        yield _gauges(
            "gpuready_queue_depth",
            "keys that wait for a worker",
            ["loop"],
            {(loop.name,): len(loop.queue) if self.leader else 0 for loop in self._loops},
        )
        yield _counters(
            "gpuready_api_requests",
            "requests to the API server; code is the HTTP status, or unreachable",
            ["verb", "resource", "code"],
            self._requests,
        )
        away = sum(not cache.connected for cache in self._caches.all)
        yield _gauge("gpuready_watches_broken", "watches that the API server does not serve right now", away)
        yield self._watch_restarts()

    def _watch_restarts(self) -> Metric:
        found: Counter[tuple[str, str]] = Counter()
        for cache in self._caches.all:
            for reason in ("expired", "refused", "unreachable"):
                found[(cache.resource.plural, reason)] += cache.restarts[reason]
        text = "watches that began anew because they were interrupted"
        return _counters("gpuready_watch_restarts", text, ["resource", "reason"], found)

    # --- the original's names ----------------------------------------------------------------------------

    def _originals(self) -> Iterator[Metric]:
        fleet, state = self._known_fleet(), self._state()
        yield _gauge(
            "gpu_operator_gpu_nodes_total", "nodes with nvidia.com/gpu.present=true", fleet.gpu_nodes
        )
        yield _gauge(
            "gpu_operator_reconciliation_status",
            "1 ready, 0 not ready, -1 no policy",
            {"ready": 1, "notReady": 0}.get(state, -1),
        )
        if last := self._last_ready(state):
            yield _gauge(
                "gpu_operator_reconciliation_last_success_ts_seconds", "when it was last ready", last
            )
        yield _counter("gpu_operator_reconciliation", "passes of the policy loop", self._policy.reconciled)
        yield _counter("gpu_operator_reconciliation_failed", "failed passes", self._policy.failed)
        yield _gauge(
            "gpu_operator_reconciliation_has_nfd_labels",
            "1 when some node carries labels of node feature discovery, whoever writes them",
            fleet.has_nfd_labels,
        )
        yield from self._upgrades()
        for name, text in _DRIVER_TOOLKIT.items():
            yield _gauge(f"gpu_operator_openshift_driver_toolkit_{name}", text, 0)

    def _state(self) -> str:
        """As the API shows it; "" without a policy, or while nobody has answered it."""
        active = self._current.active
        return str((active.raw.get("status") or {}).get("state") or "") if active else ""

    def _last_ready(self, state: str) -> float | None:
        """A loop that is silent because nothing changes is ready now, while it would hear of a change."""
        if state == "ready" and all(cache.connected for cache in self._caches.all):
            return self._clock()
        return self._policy.last_ready

    def _upgrades(self) -> Iterator[Metric]:
        policy = self._current.effective
        on = policy is not None and _upgrades_drivers(policy)
        yield _gauge(
            "gpu_operator_driver_auto_upgrade_enabled", "1 when drivers are upgraded by themselves", on
        )
        states = Counter(self._known_fleet().upgrades)
        waiting, done, failed = (states[f"upgrade-{each}"] for each in ("required", "done", "failed"))
        counts = {
            "in_progress": (states.total() - waiting - done - failed, "nodes whose driver is being upgraded"),
            "done": (done, "nodes whose driver is up to date"),
            "failed": (failed, "nodes whose driver could not be upgraded"),
            "pending": (waiting, "nodes that wait for their upgrade"),
            "available": (0, "0: this version upgrades no driver by itself, so nothing may begin"),
        }
        for name, (count, text) in counts.items():
            yield _gauge(f"gpu_operator_nodes_upgrades_{name}", text, count)
        yield _gauges(
            "gpuready_driver_upgrade_blocked_nodes",
            "nodes that wait for another driver and may not begin, by the limit that keeps them",
            ["reason"],
            self._blocked(policy),
        )

    def _blocked(self, policy: ClusterPolicy | None) -> Rows:
        """With zeros: an alert needs to see the end of it."""
        blocked: dict[str, int] = {}
        if policy is not None and budget.asks_for_upgrades(policy):
            gpu_nodes = {each.metadata.name: each for each in self._caches.gpu_nodes.values()}
            found = budget.of_nodes(policy, self._caches.nodes.values(), gpu_nodes)
            blocked = {found.held_back_by: len(found.waiting)}
        return {(limit,): blocked.get(limit, 0) for limit in budget.LIMITS}

    # --- policies and operands, as the API shows them ----------------------------------------------------

    def _policies(self) -> Iterator[Metric]:
        rows = {}
        for raw in self._caches.policies.values():
            status = raw.get("status") or {}
            reason = _reason_of_error(status)
            rows[(raw["metadata"]["name"], str(status.get("state") or "unanswered"), reason)] = 1
        yield _gauges("gpuready_policy_state", "1 for each policy", ["policy", "state", "reason"], rows)
        nodes = self._status().get("nodes") or {}
        hidden = int(nodes.get("undiscovered") or 0)
        yield _gauge("gpuready_nodes_undiscovered", "nodes where nobody has looked for GPUs", hidden)

    def _operands(self) -> Iterator[Metric]:
        rows = self._status().get("operands") or ()
        yield _gauges(
            "gpuready_operand_state",
            "1 for each operand that the policy in force knows",
            ["operand", "state", "reason", "flavour"],
            {_operand_key(row): 1 for row in rows},
        )
        enabled = [row for row in rows if row.get("enabled")]
        for name, text in (("desired", "nodes it belongs to"), ("ready", "nodes where it does its job")):
            counts = {(str(row["name"]),): int(row.get(name) or 0) for row in enabled}
            yield _gauges(f"gpuready_operand_nodes_{name}", text, ["operand"], counts)

    def _status(self) -> Row:
        active = self._current.active
        return (active.raw.get("status") or {}) if active else {}

    # --- the fleet ---------------------------------------------------------------------------------------

    def _nodes(self) -> Iterator[Metric]:
        fleet = self._known_fleet()
        yield _gauge("gpuready_gpus", "GPUs that the nodes have reported", fleet.gpus)
        yield _gauge(
            "gpuready_gpus_healthy", "those of them that work, on nodes that are heard", fleet.healthy_gpus
        )
        yield _gauges(
            "gpuready_chain_nodes",
            "GPU nodes by what each link of the chain says",
            ["link", "state", "reason"],
            fleet.links,
        )
        yield _gauges(
            "gpuready_nodes_held_up",
            "GPU nodes by the first link that keeps them from serving",
            ["link", "reason"],
            {(each.link, each.reason): count for each, count in fleet.held_up_by.items()},
        )
        yield _gauges(
            "gpuready_node_held_up",
            "1 for a GPU node that does not serve, with the link that keeps it; whole nodes have no row",
            ["node", "link", "reason"],
            {(node, each.link, each.reason): 1 for node, each in fleet.held_up.items()},
        )
        yield _gauges(
            "gpuready_node_gpus_unhealthy",
            "GPUs of a node that do not work; nodes without such have no row",
            ["node"],
            {(node,): count for node, count in fleet.unhealthy.items()},
        )


# This version does not build drivers with OpenShift's driver toolkit, so nothing about it can be wrong.
_DRIVER_TOOLKIT = {
    "enabled": "0: this version does not use OpenShift's driver toolkit",
    "nfd_too_old": "0: this version does not use OpenShift's driver toolkit",
    "imagestream_missing": "0: this version does not use OpenShift's driver toolkit",
    "rhcos_tags_missing": "0: this version does not use OpenShift's driver toolkit",
    "imagestream_broken": "0: this version does not use OpenShift's driver toolkit",
}


def _all_results(loop: Loop) -> dict[str, int]:
    """With zeros: a rate needs to see a counter before it first counts."""
    return {result: loop.results[result] for result in ("ok", "conflict", "away", "failed")}


def _upgrades_drivers(policy: ClusterPolicy) -> bool:
    asked = policy.spec.driver.enabled and policy.spec.driver.upgrade_policy.auto_upgrade
    return asked and not any(planned.name == "driver-upgrade" for planned in registry.NOT_IMPLEMENTED)


def _reason_of_error(status: Row) -> str:
    rows = status.get("conditions") or ()
    return str(next((row.get("reason") for row in rows if row.get("type") == "Error"), "") or "")


def _operand_key(row: Row) -> tuple[str, ...]:
    return tuple(str(row.get(name) or "") for name in ("name", "state", "reason", "flavour"))


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _gauges(name: str, text: str, labels: list[str], rows: Rows) -> Metric:
    return _filled(GaugeMetricFamily(name, text, labels=labels), rows)


def _counters(name: str, text: str, labels: list[str], rows: Rows) -> Metric:
    return _filled(CounterMetricFamily(name, text, labels=labels), rows)


def _filled(family: Any, rows: Rows) -> Metric:
    for values, number in sorted(rows.items()):
        family.add_metric(list(values), number)
    return family  # type: ignore[no-any-return]
