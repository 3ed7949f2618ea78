"""GPUNode.spec of one node, put together from objects wherever they were read. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuready.controller.labelling.loop import labels_to_be
from gpuready.controller.nodes.asked import Asked, OperandAsked
from gpuready.controller.nodes.desired import ConfigSource, Spec, desired_spec
from gpuready.controller.nodes.driver_pod import config_for, driver_trouble
from gpuready.controller.nodes.grants import Grant
from gpuready.controller.nodes.kept_away import kept_away_from
from gpuready.controller.nodes.summary import DriverSummary, GPUNodeSummary
from gpuready.kube.trimmed import Node, Pod
from gpuready.operands.device_plugin.manifest import DAEMONSET as PLUGIN_SET
from gpuready.operands.toolkit.manifest import DAEMONSET as TOOLKIT_SET

KEPT_AWAY = (("devicePlugin", PLUGIN_SET, "device-plugin"), ("toolkit", TOOLKIT_SET, "toolkit"))


@dataclass(frozen=True)
class SpecInputs:
    """What the spec of a node depends on beside node and policy.

    source          None when the policy names no ConfigMap
    driver_pods     those on this node
    find_daemonset  by name, in the operator's namespace
    driver_sets     the DaemonSets of the driver, one for each pool of nodes
    grant           of the node's request; None leaves what was granted
    """

    source: ConfigSource | None
    driver_pods: Sequence[Pod]
    find_daemonset: Callable[[str], Mapping[str, Any] | None]
    driver_sets: Sequence[Mapping[str, Any]] = ()
    grant: Grant | None = None


def spec_of(node: Node, asked: Asked, summary: GPUNodeSummary | None, inputs: SpecInputs) -> Spec:
    labels = labels_to_be(node, summary, asked.policy)
    now = summary.spec if summary else {}
    has = inputs.find_daemonset
    spec = desired_spec(
        asked.policy,
        labels,
        inputs.source,
        now,
        driver_trouble=_driver_trouble(node, asked, summary, inputs),
        plugin_refusal=asked.plugin.refusal,
        runs_plugin=asked.plugin.runs_own(labels, is_there=_is_ours(has(PLUGIN_SET))),
        runs_original_plugin=asked.plugin.runs_original,
        toolkit=toolkit_wish(
            asked.toolkit,
            asked.toolkit.runs_own(labels, is_there=_is_ours(has(TOOLKIT_SET))),
            now.get("toolkit") or {},
            inputs.grant,
        ),
        writes_feature_labels=asked.feature_discovery.runs_own(
            labels, is_there=bool((now.get("featureLabels") or {}).get("enabled"))
        ),
        writes_gates=not asked.validator.runs_original,
        proves_cuda=asked.proves_cuda,
    )
    for section, name, operand in KEPT_AWAY:
        found = kept_away_from(node, operand, name, has(name))
        wish = spec.get(section) or {}
        if found and (wish.get("enabled") or wish.get("original")):
            spec[section] = {**wish, "keptAway": found}
    if kept := _driver_kept_away(node, labels, inputs):
        spec["driver"]["keptAway"] = kept
    return spec


def _driver_kept_away(node: Node, labels: Mapping[str, str], inputs: SpecInputs) -> Spec | None:
    """Of the DaemonSet that would serve this node; a pod that is there stays."""
    if any(not pod.metadata.deleting for pod in inputs.driver_pods):
        return None
    for daemonset in inputs.driver_sets:
        wanted = daemonset["spec"]["template"]["spec"].get("nodeSelector") or {}
        if all(labels.get(key) == value for key, value in wanted.items()):
            return kept_away_from(node, "driver", daemonset["metadata"]["name"], daemonset)
    return None


def _driver_trouble(
    node: Node, asked: Asked, summary: GPUNodeSummary | None, inputs: SpecInputs
) -> Spec | None:
    return driver_trouble(
        node.metadata.name,
        inputs.driver_pods,
        summary.status.driver if summary else DriverSummary(),
        version=asked.driver_version,
        config=config_for(inputs.driver_pods, inputs.find_daemonset),
        before=((summary.spec if summary else {}).get("driver") or {}).get("trouble"),
    )


def _is_ours(daemonset: Mapping[str, Any] | None) -> bool:
    """The original's pods have the same names as ours, and their programs do not speak to our node agent."""
    containers = daemonset["spec"]["template"]["spec"]["containers"] if daemonset else ()
    return any((each.get("command") or [""])[0] == "gpuready" for each in containers)


def toolkit_wish(
    asked: OperandAsked, runs_own: bool, before: Mapping[str, Any], grant: Grant | None
) -> Spec | None:
    """None where no toolkit is to run, as long as none ran: a node without one is not written again."""
    if asked.runs_original:
        return {"enabled": False, "original": True}
    if not runs_own:
        return {"enabled": False} if before else None
    given = grant or Grant(str(before.get("grant") or ""))
    told = {"grant": given.id, "heldBy": given.held_by}
    return {"enabled": True, "restart": "granted", **{key: value for key, value in told.items() if value}}
