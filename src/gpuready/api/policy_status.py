"""ClusterPolicy.status: the original's state and conditions, and what each operand and node is at."""

from __future__ import annotations

from typing import Annotated

from gpuready.api.blocks import Base
from gpuready.api.doc import block, doc

IGNORED, READY, NOT_READY = "ignored", "ready", "notReady"


class StatusCondition(Base, frozen=True, kw_only=True):
    type: Annotated[str, doc("Ready, Error …")]
    status: Annotated[str, doc("True, False or Unknown.", enum=("True", "False", "Unknown"))]
    reason: Annotated[str, doc("One CamelCase word for machines.")] = ""
    message: Annotated[str, doc("A sentence for people.")] = ""
    observed_generation: Annotated[int, doc("The generation this was judged by.")] = 0
    last_transition_time: Annotated[str, doc("When `status` last changed.")] = ""


class OperandStatus(Base, frozen=True, kw_only=True):
    name: Annotated[str, doc("The operand.")]
    enabled: Annotated[bool, doc("Whether the policy asks for it.")] = False
    state: Annotated[str, doc("ready, notReady, disabled or notImplemented.")] = ""
    desired: Annotated[int, doc("Nodes that should run it.")] = 0
    ready: Annotated[int, doc("Nodes where it is ready.")] = 0
    flavour: Annotated[str, doc("Whose image runs: own or original.")] = ""
    reason: Annotated[str, doc("One CamelCase word for machines.")] = ""
    message: Annotated[str, doc("A sentence for people.")] = ""


class NodeCounts(Base, frozen=True, kw_only=True):
    gpu: Annotated[int, doc("Nodes with a GPU.")] = 0
    ready: Annotated[int, doc("GPU nodes whose chain is whole.")] = 0
    broken_by: Annotated[dict[str, int], doc("GPU nodes by the first link of the chain that is broken.")] = {}
    undiscovered: Annotated[int, doc("Nodes that nobody has looked at yet.")] = 0


class PolicyStatus(Base, frozen=True, kw_only=True):
    state: Annotated[str, doc("Overall state.", enum=(IGNORED, READY, NOT_READY))] = ""
    namespace: Annotated[str, doc("Where the operands run.")] = ""
    observed_generation: Annotated[int, doc("The generation this status speaks of.")] = 0
    conditions: Annotated[
        list[StatusCondition], doc("Ready and Error, always as a pair, and others.", list_keys=("type",))
    ] = []
    operands: Annotated[list[OperandStatus], doc("One row per operand.", list_keys=("name",))] = []
    nodes: Annotated[NodeCounts, doc("How many nodes are where.")] = block(NodeCounts)
