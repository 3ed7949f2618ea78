"""How many nodes may be without their driver at once, who uses that up, and who waits for it. Pure.

The arithmetic is the original's, said aloud: its nodes stay `upgrade-required` for weeks without a word when
two others are cordoned or away.

Source: k8s-operator-libs, pkg/upgrade/common_manager.go (GetUpgradesAvailable); operator.md §7.5. A node that
nobody has labelled counts as one that waits when it is known to run another driver than the one asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy, UpgradePolicy
from gpuready.chain.driver import OUTDATED
from gpuready.chain.wording import counted
from gpuready.controller.nodes.summary import GPUNodeSummary
from gpuready.kube.trimmed import Node

REQUIRED, DONE, FAILED, CORDON_REQUIRED = (
    "upgrade-required",
    "upgrade-done",
    "upgrade-failed",
    "cordon-required",
)
_AT_REST = ("", REQUIRED, DONE)
# Why no waiting node may begin: the policy's fields, as the metric's label and the condition's reason say it.
LIMITS = MAX_UNAVAILABLE, MAX_PARALLEL = "maxUnavailable", "maxParallelUpgrades"
_NAMED = 5


@dataclass(frozen=True, slots=True)
class DriverNode:
    """One node that takes a driver container.

    state      its upgrade label, "" without one
    outdated   it runs another driver than the policy asks for
    skipped    somebody has asked not to begin here
    """

    name: str
    state: str = ""
    outdated: bool = False
    cordoned: bool = False
    ready: bool = True
    skipped: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        labels: Mapping[str, str],
        summary: GPUNodeSummary | None,
        *,
        cordoned: bool,
        ready: bool,
    ) -> Self | None:
        """None for a node without a driver container."""
        if labels.get(names.DEPLOY_DRIVER, "") in ("", "false", names.DRIVER_PRE_INSTALLED):
            return None
        trouble = ((summary.spec if summary else {}).get("driver") or {}).get("trouble") or {}
        return cls(
            name=name,
            state=labels.get(names.UPGRADE_STATE_LABEL, ""),
            outdated=trouble.get("reason") == OUTDATED,
            cordoned=cordoned,
            ready=ready,
            skipped=labels.get(names.UPGRADE_SKIP_LABEL) == "true",
        )

    @property
    def waits(self) -> bool:
        return self.state == REQUIRED or (self.state in ("", DONE) and self.outdated)

    @property
    def is_in_progress(self) -> bool:
        """A failed one too: it has not been given back."""
        return self.state not in _AT_REST

    @property
    def unavailable(self) -> str:
        """Why it counts as away, "" when it does not."""
        why = [text for is_so, text in ((self.cordoned, "cordoned"), (not self.ready, "NotReady")) if is_so]
        if self.state == CORDON_REQUIRED and not why:
            return "about to be cordoned"
        return " and ".join(why)


@dataclass(frozen=True)
class Budget:
    """What the policy allows at this moment.

    asked     maxUnavailable as the policy has it: "25%"; allowed: that of `nodes`, rounded up
    parallel  maxParallelUpgrades; 0 = no limit
    """

    nodes: tuple[DriverNode, ...]
    asked: str
    parallel: int

    @classmethod
    def of(cls, policy: UpgradePolicy, nodes: Iterable[DriverNode]) -> Self:
        ordered = tuple(sorted(nodes, key=lambda node: node.name))
        return cls(ordered, str(policy.max_unavailable), policy.max_parallel_upgrades)

    @property
    def allowed(self) -> int:
        if self.asked.endswith("%"):
            return math.ceil(len(self.nodes) * int(self.asked[:-1]) / 100)
        return int(self.asked or 0)

    @property
    def waiting(self) -> list[DriverNode]:
        return [node for node in self.nodes if node.waits and not node.skipped]

    @property
    def skipped(self) -> list[DriverNode]:
        return [node for node in self.nodes if node.waits and node.skipped]

    @property
    def in_progress(self) -> list[DriverNode]:
        return [node for node in self.nodes if node.is_in_progress]

    @property
    def unavailable(self) -> list[DriverNode]:
        return [node for node in self.nodes if node.unavailable]

    @property
    def slots(self) -> int:
        """How many more nodes may begin now."""
        parallel = self._free_in_parallel
        return max(0, min(parallel, self.allowed - len(self.unavailable)))

    @property
    def held_back_by(self) -> str:
        """Which limit keeps every waiting node from beginning; "" when one may, or none waits."""
        if not self.waiting or self.slots:
            return ""
        return MAX_PARALLEL if self._free_in_parallel == 0 else MAX_UNAVAILABLE

    @property
    def _free_in_parallel(self) -> int:
        if not self.parallel:
            return len(self.waiting)
        return max(0, self.parallel - len(self.in_progress))


def of_nodes(policy: ClusterPolicy, nodes: Iterable[Node], gpu_nodes: Mapping[str, GPUNodeSummary]) -> Budget:
    """From objects as the caches hold them."""
    found = (
        DriverNode.of(
            node.metadata.name,
            node.metadata.labels,
            gpu_nodes.get(node.metadata.name),
            cordoned=node.spec.unschedulable,
            ready=node.ready,
        )
        for node in nodes
    )
    return Budget.of(policy.spec.driver.upgrade_policy, [node for node in found if node])


def asks_for_upgrades(policy: ClusterPolicy) -> bool:
    spec = policy.spec
    driver = spec.driver.enabled and not spec.driver.use_nvidia_driver_crd
    return driver and spec.driver.upgrade_policy.auto_upgrade and not spec.sandbox_workloads.enabled


def explained(budget: Budget) -> str:
    """How many wait, the arithmetic, who uses it up; "" when nobody waits."""
    waiting = budget.waiting
    if not waiting:
        return ""
    said = f"{counted(len(waiting), 'node')} {_verb(waiting)} for another driver ({_some(waiting)})"
    return "; ".join([said, *_arithmetic(budget)])


def next_step(budget: Budget) -> str:
    """What frees the budget; "" when it is free."""
    if budget.held_back_by == MAX_PARALLEL:
        failed = [node.name for node in budget.in_progress if node.state == FAILED]
        who = f"look why {', '.join(failed[:_NAMED])} failed" if failed else "wait for the one under way"
        return f"{who}, or raise spec.driver.upgradePolicy.maxParallelUpgrades"
    if budget.held_back_by == MAX_UNAVAILABLE:
        return ", ".join([*_give_back(budget), "or raise spec.driver.upgradePolicy.maxUnavailable"])
    return ""


def _arithmetic(budget: Budget) -> Iterator[str]:
    away = budget.unavailable
    allowed = (
        f"maxUnavailable {budget.asked} of {counted(len(budget.nodes), 'driver node')} is {budget.allowed}"
    )
    if budget.held_back_by == MAX_PARALLEL:
        busy = ", ".join(f"{node.name} ({node.state})" for node in budget.in_progress[:_NAMED])
        yield f"maxParallelUpgrades {budget.parallel} is used up by {busy}"
    elif away:
        used = ", ".join(f"{node.name} ({node.unavailable})" for node in away[:_NAMED])
        used += f" and {len(away) - _NAMED} more" if len(away) > _NAMED else ""
        more = "none may begin" if budget.held_back_by else f"{budget.slots} may begin"
        yield f"{allowed}, used by {used}: {more}"
    else:
        yield f"{allowed}: {budget.slots or 'none'} may begin"
    if budget.skipped:
        yield f"{_some(budget.skipped)} left out by the label {names.UPGRADE_SKIP_LABEL}"


def _give_back(budget: Budget) -> Iterator[str]:
    not_ready = [node.name for node in budget.unavailable if not node.ready]
    cordoned = [node.name for node in budget.unavailable if node.ready and node.cordoned]
    if not_ready:
        yield f"bring {', '.join(not_ready[:_NAMED])} back to Ready"
    if cordoned:
        yield f"kubectl uncordon {' '.join(cordoned[:_NAMED])}"


def _verb(nodes: Sequence[DriverNode]) -> str:
    return "waits" if len(nodes) == 1 else "wait"


def _some(nodes: Sequence[DriverNode]) -> str:
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return ", ".join(node.name for node in nodes[:_NAMED]) + more
