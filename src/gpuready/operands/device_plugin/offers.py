"""From resources to what the kubelet is offered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from gpuready.gpu.inventory import Inventory
from gpuready.gpu.topology.preferred import Topology, distributed
from gpuready.node.kubelet.model import ContainerAnswer, Offer
from gpuready.operands.device_plugin.allocation import Beside, Rules, allocate
from gpuready.operands.device_plugin.config import Effective
from gpuready.operands.device_plugin.resources import Resource

Note = Callable[[str, Sequence[str]], None]


def offers_of(
    resources: Sequence[Resource],
    effective: Effective,
    topology: Topology,
    nodes: Mapping[str, str],
    note: Note = lambda resource, ids: None,
    beside: Beside | None = None,
) -> dict[str, Offer]:
    """By resource name.

    nodes  path -> host path of the device nodes that exist
    note   hears (resource, ids) of each container that got devices, inside the call: it must be quick
    beside what each container gets beside its GPUs
    """
    given = beside or Beside()
    return {
        resource.name: _offer(resource, effective, topology, nodes, note, given) for resource in resources
    }


def topology_of(inventory: Inventory) -> Topology:
    return Topology([gpu.uuid for gpu in inventory.gpus], inventory.pair_scores)


def _offer(
    resource: Resource,
    effective: Effective,
    topology: Topology,
    nodes: Mapping[str, str],
    note: Note,
    beside: Beside,
) -> Offer:
    rules = Rules(
        strategies=effective.strategies,
        id_strategy=effective.id_strategy,
        annotation_prefix=effective.annotation_prefix,
        one_each=effective.one_each and resource.is_shared,
        device_specs=nodes if effective.pass_device_specs else None,
        beside=beside,
    )

    def answer(asked: Sequence[str]) -> ContainerAnswer:
        given = allocate(asked, resource.name, resource.targets, rules)
        note(resource.name, asked)
        return given

    prefer = partial(_distributed, resource) if resource.is_shared else topology.aligned
    return Offer(resource.devices, answer, prefer)


def _distributed(
    resource: Resource, available: Sequence[str], required: Sequence[str], size: int
) -> list[str]:
    replicas = {target.uuid: resource.replicas for target in resource.targets.values()}
    return distributed(available, required, size, replicas)
