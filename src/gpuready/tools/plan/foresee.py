"""From what is there and one policy's text to everything that would follow. Pure.

No rule of the operator is written here a second time: which policy counts, what is wrong with it, which
objects it leads to, which labels and GPUNodes, are answers of the controller's own functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.api.policy import find_unknown_fields
from gpuready.api.skew import find_skew
from gpuready.chain.wording import counted, listed
from gpuready.controller.election import is_originals
from gpuready.controller.kept import decode_found_driver
from gpuready.controller.nodes.asked import Asked
from gpuready.controller.nodes.desired import ConfigSource
from gpuready.controller.policy import pruning
from gpuready.controller.policy.active import ActivePolicy, active_of, ignored_of, under_outdated_schemas
from gpuready.controller.policy.left_behind import left_behind
from gpuready.controller.policy.namespace import labelled
from gpuready.controller.policy.plan import Plan, key_of, plan_of
from gpuready.controller.policy.view import named_configs, view_of
from gpuready.controller.schemas import problem_of
from gpuready.kube.lease import Record
from gpuready.kube.trimmed import Pod, decode_pod
from gpuready.operands import registry
from gpuready.operands.contract import ClusterView
from gpuready.operands.driver.pools import BASE_NAME, COMPONENT, COMPONENT_LABEL
from gpuready.operands.node_agent import manifest as node_agent
from gpuready.operands.toolkit.operand import OPERAND as TOOLKIT
from gpuready.tools.plan import nodes, objects, pods
from gpuready.tools.plan.forecast import Forecast, OperandLine, PodChange, PodFate
from gpuready.tools.plan.look import Look, decoded
from gpuready.tools.plan.nodes import Outlook, Surroundings
from gpuready.tools.plan.objects import ObjectsOutlook
from gpuready.tools.unlabelled import without_gpus

Object = Mapping[str, Any]
# A policy that does not exist yet is younger than every one that does.
_NOT_YET = "9999-12-31T23:59:59Z"


def foresee(raw: Object, look: Look) -> Forecast:
    """`raw`: the policy as in its file, with a name."""
    policies = _with(raw, look.policies)
    active = _active(policies, look)
    name = raw["metadata"]["name"]
    unknown = tuple(find_unknown_fields(raw))
    if active.name != name:
        return Forecast(name, ignored_for=active.name, unknown_fields=unknown)
    if active.policy is None:
        problems = tuple(problem.message for problem in active.problems)
        return Forecast(name, problems=problems, unknown_fields=unknown)
    return _followed(active, active.policy, ignored_of(policies), look, unknown)


def wanted_objects(raw: Object, look: Look) -> list[dict[str, Any]]:
    """What the policy leads to in this cluster; nothing when it is not followed."""
    policies = _with(raw, look.policies)
    active = _active(policies, look)
    if active.policy is None or active.name != raw["metadata"]["name"]:
        return []
    around = _surroundings(active.policy, look)
    view = _view(active.policy, look, _settled(around, look))
    return plan_of(active, active.policy, view, ignored_of(policies)).objects


def _active(policies: Sequence[Object], look: Look) -> ActivePolicy:
    active = active_of(policies)
    assert active is not None  # at least the one that is asked about
    skews = [skew for crd in look.crds.values() if (skew := find_skew(crd)) and skew.is_outdated]
    return under_outdated_schemas(active, tuple(map(problem_of, skews))) if skews else active


def _with(raw: Object, policies: Sequence[Object]) -> list[Object]:
    """The cluster's policies as they are once this one is applied; one that is going counts as a new one."""
    name = raw["metadata"]["name"]
    living = [each for each in policies if not each["metadata"].get("deletionTimestamp")]
    there = next((each for each in living if each["metadata"]["name"] == name), None)
    known = there["metadata"] if there else {"uid": "", "creationTimestamp": _NOT_YET}
    merged = {**raw, "metadata": {**raw["metadata"], **known}, "status": (there or {}).get("status") or {}}
    return [merged, *(each for each in living if each is not there)]


# --- a policy that is followed ----------------------------------------------------------------------------


def _followed(
    active: ActivePolicy, policy: ClusterPolicy, heirs: list[Object], look: Look, unknown: tuple[str, ...]
) -> Forecast:
    around = _surroundings(policy, look)
    outlooks = _settled(around, look)
    view = _view(policy, look, outlooks)
    plan = plan_of(active, policy, view, heirs)
    uids = {each["metadata"]["uid"] for each in look.policies}
    left = left_behind(look.originals, uids, policy, view, plan)
    changed = objects.outlook_of(plan, look, left)
    sets = _daemonsets(plan, look, changed, left)
    moved = pods.pod_changes(sets, _labelled(look.nodes, outlooks), look.own_pods)
    found = {each.name: each.desired for each in sets if each.desired is not None}
    drivers = [each.desired for each in sets if each.operand == pods.DRIVER and each.desired is not None]
    told = replace(around, asked=Asked.of(policy, plan.refusals), driver_sets=drivers)
    wishes = [nodes.gpu_node_change(each, told, found.get) for each in outlooks]
    refusal = plan.agent_refusal
    return Forecast(
        policy=active.name,
        operands=tuple(_operand_lines(plan)),
        objects=changed.changes,
        labels=tuple(change for each in outlooks for change in each.changes),
        namespace_labels=_namespace_labels(policy, look),
        gpu_nodes=tuple(each for each in wishes if each),
        pods=tuple(moved),
        workloads=tuple(pods.workloads_reached(moved, sets, look.own_pods, look.pods)),
        no_effect=plan.without_effect,
        unknown_fields=unknown,
        not_implemented=plan.not_implemented,
        obstacles=changed.obstacles,
        agent_refused=(refusal.message, refusal.next_step) if refusal else ("", ""),
        remarks=(
            *_remarks(policy, look, outlooks),
            *_remarks_on_runtimes(moved),
            *_remarks_on_leaving(policy, look),
        ),
    )


def _namespace_labels(policy: ClusterPolicy, look: Look) -> dict[str, str | None]:
    if look.own_namespace is None:
        return {}
    return dict((labelled(policy, look.own_namespace["metadata"]) or {}).get("labels", {}))


def _surroundings(policy: ClusterPolicy, look: Look) -> Surroundings:
    by_node: dict[str, list[Pod]] = {}
    for pod in look.own_pods:
        read = _driver_pod(pod, look)
        if read is not None:
            by_node.setdefault(read.node_name, []).append(read)
    # Where nobody can look, a host without a driver is the likeliest; `_remarks` says so.
    return Surroundings(
        Asked.of(policy, {}),
        _config_source(policy, look),
        by_node,
        driver_sets=[
            obj for obj in look.owned if obj["kind"] == "DaemonSet" and pruning.operand_of(obj) == pods.DRIVER
        ],
        assumed_driver="none" if look.offline else "",
    )


def _driver_pod(pod: Object, look: Look) -> Pod | None:
    """As the controller's caches would show it: ours, or the original's where its DaemonSet is ours then."""
    labels = pod["metadata"].get("labels") or {}
    if labels.get(names.OPERAND_LABEL) == pods.DRIVER:
        return decode_pod(msgspec.json.encode(pod))
    if names.OPERAND_LABEL in labels or labels.get(COMPONENT_LABEL) != COMPONENT:
        return None
    read = decode_found_driver(msgspec.json.encode(pod))
    return read if look.find_live(("DaemonSet", look.namespace, read.controller)) else None


def _config_source(policy: ClusterPolicy, look: Look) -> ConfigSource | None:
    name = policy.spec.device_plugin.config.name
    if not name:
        return None
    found = look.configmaps.get(name)
    return ConfigSource(name, None if found is None else found.get("data") or {}, look.namespace)


def _settled(around: Surroundings, look: Look) -> list[Outlook]:
    def find_live(name: str) -> Object | None:
        return look.find_live(("DaemonSet", look.namespace, name))

    return [
        nodes.settled(node, look.gpu_nodes.get(name), look.devices.get(name) or (), around, find_live)
        for node in decoded(look.nodes)
        for name in (node.metadata.name,)
    ]


def _view(policy: ClusterPolicy, look: Look, outlooks: Sequence[Outlook]) -> ClusterView:
    view = view_of(
        [each.node for each in outlooks],
        namespace=look.namespace,
        own_image=look.image,
        base_driver=look.find_live(("DaemonSet", look.namespace, BASE_NAME)),
        configs=look.configmaps.values(),
        existing=look.existing,
        service_monitors=look.serves_service_monitors,
        nfd_may_run=look.nfd_may_run,
        images=look.images,
        leaving=_leaving(look),
    )
    if not look.offline:
        return view
    # Not seen is not missing, as `gpuready render` has it.
    unseen: dict[str, Mapping[str, str]] = {name: {} for name in named_configs(policy)}
    monitors = policy.spec.dcgm_exporter.service_monitor.enabled
    return replace(view, configs=unseen | dict(view.configs), service_monitors=monitors)


def _leaving(look: Look) -> frozenset[str]:
    """Operands that are switched off already; their objects stay for nodes that still have work of theirs."""
    active = active_of(look.policies)
    if active is None or active.policy is None:
        return frozenset()
    policy = active.policy
    off = {operand.name for operand in registry.OPERANDS if not operand.enabled(policy)}
    return pruning.leaving(look.gpu_nodes.values()) & off


def _daemonsets(
    plan: Plan, look: Look, changed: ObjectsOutlook, left: Sequence[tuple[str, Object]]
) -> list[pods.DaemonSetOutlook]:
    """Whoever is in the way stays as he is, and so do the pods of what we cannot run as asked."""
    pruned = [(pruning.operand_of(obj), obj) for obj in pruning.surplus(look.owned, plan.keys, plan.refused)]
    refused = {*plan.refused, *([node_agent.NAME] if plan.agent_refusal else [])}
    kept = [obj for obj in look.owned if pruning.operand_of(obj) in refused and key_of(obj) not in plan.keys]
    occupied = {(each.kind, each.name) for each in changed.obstacles}
    planned = [obj for obj in plan.objects if key_of(obj)[::2] not in occupied]
    live = {
        name: obj
        for kind, _, name in map(key_of, planned)
        if kind == "DaemonSet" and (obj := look.find_live((kind, look.namespace, name)))
    }
    return pods.daemonset_outlooks(planned, kept, [*pruned, *left], changed.renewed, live, look.revisions)


def _labelled(raw_nodes: Sequence[Object], outlooks: Sequence[Outlook]) -> list[Object]:
    """The nodes as they are, with the labels that they will have."""
    to_be = {each.name: each.node.metadata.labels for each in outlooks}
    return [
        {**node, "metadata": {**node["metadata"], "labels": to_be[node["metadata"]["name"]]}}
        for node in raw_nodes
    ]


def _operand_lines(plan: Plan) -> list[OperandLine]:
    return [
        OperandLine(
            name=each.operand.name,
            flavour=str(each.flavour or ""),
            images=pods.images_of(each.objects),
            refused=each.refusal.message if each.refusal else "",
            next_step=each.refusal.next_step if each.refusal else "",
        )
        for each in plan.operands
        if each.enabled
    ]


# --- what cannot be known ---------------------------------------------------------------------------------


def _remarks_on_runtimes(moved: Sequence[PodChange]) -> list[str]:
    """What the toolkit's daemon finds to change in a runtime's files is known on the node alone."""
    begins = (PodFate.STARTS, PodFate.RESTARTS)
    nodes = [each for each in moved if each.operand == TOOLKIT.name and each.fate in begins]
    if not nodes:
        return []
    return [
        f"{counted(len(nodes), 'node')}: a container runtime whose configuration the toolkit then changes is "
        "restarted, one node with GPU workloads after the other (spec.gpuready.toolkit.maxUnavailable)"
    ]


def _remarks_on_leaving(policy: ClusterPolicy, look: Look) -> list[str]:
    """What gives hosts back what it changed there goes after that, and not before."""
    going = pruning.leaving(look.gpu_nodes.values())
    return [
        f"{operand.name}: its pods and objects stay until each node has given back what it changed there: "
        f"{listed(pruning.nodes_with_work_of(operand, look.gpu_nodes.values()))}"
        for operand in registry.OPERANDS
        if operand.name in going and not operand.enabled(policy)
    ]


def _remarks(policy: ClusterPolicy, look: Look, outlooks: Sequence[Outlook]) -> list[str]:
    gpus = [each for each in outlooks if each.has_gpus]
    looked = {
        *pods.nodes_by_daemonset(look.own_pods).get(node_agent.DAEMONSET, {}),
        *without_gpus(look.nodes),
    }
    unseen = [each for each in outlooks if not (each.has_gpus or each.is_labelled or each.name in looked)]
    remarks = []
    if look.lease and is_originals(leader := Record(look.lease)):
        remarks.append(
            f"the original GPU operator leads ({leader.holder} holds the Lease {names.LEADER_LEASE}): "
            "nothing happens before it is scaled to 0"
        )
    if unseen:
        remarks.append(
            f"{counted(len(unseen), 'node')}: nobody may have looked for GPUs there; what the node agent "
            "finds decides about more labels, GPUNodes and pods"
        )
    if look.offline and gpus:
        remarks.append("no cluster was looked at: hosts are taken to have no driver, and nothing to be there")
    undecided = [each for each in gpus if each.summary is None or not each.summary.status.driver.owner]
    if undecided and policy.spec.driver.enabled and not look.offline:
        remarks.append(
            f"{counted(len(undecided), 'GPU node')}: the driver's label and pod wait until the node agent "
            "has looked whether the host has a driver"
        )
    if any(each.begins_features for each in gpus):
        remarks.append("the node agent will add feature labels; their values come from the GPUs")
    return remarks
