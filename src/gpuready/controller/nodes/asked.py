"""What a policy asks of every node alike, worked out once instead of once per node. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.controller.nodes.driver_pod import asked_version
from gpuready.operands.contract import Flavour, Operand, Refusal
from gpuready.operands.device_plugin.operand import OPERAND as DEVICE_PLUGIN
from gpuready.operands.gfd.operand import OPERAND as FEATURE_DISCOVERY
from gpuready.operands.registry import VALIDATOR
from gpuready.operands.toolkit.operand import OPERAND as TOOLKIT


@dataclass(frozen=True)
class OperandAsked:
    """
    flavour   whose image runs; None where it is not enabled, or nobody's can run
    refusal   why ours does not take the policy's settings
    """

    operand: Operand
    flavour: Flavour | None
    refusal: Refusal | None

    @classmethod
    def of(cls, operand: Operand, policy: ClusterPolicy) -> Self:
        if not operand.enabled(policy):
            return cls(operand, None, None)
        return cls(operand, operand.flavour(policy), operand.refusal(policy))

    @property
    def runs_original(self) -> bool:
        return self.flavour is Flavour.ORIGINAL

    def runs_own(self, labels: Mapping[str, str], before: Mapping[str, Any]) -> bool:
        """Settings that ours does not take keep it from starting; one that runs is left as it is."""
        if self.flavour is not Flavour.OWN or labels.get(self.operand.deploy_label) != "true":
            return False
        return self.refusal is None or bool(before.get("enabled"))


@dataclass(frozen=True)
class Asked:
    """
    driver_version   in the driver image's tag, "" = no particular one
    """

    policy: ClusterPolicy
    driver_version: str
    plugin: OperandAsked
    toolkit: OperandAsked
    feature_discovery: OperandAsked
    validator: OperandAsked

    @classmethod
    def of(cls, policy: ClusterPolicy) -> Self:
        return cls(
            policy,
            asked_version(policy),
            plugin=OperandAsked.of(DEVICE_PLUGIN, policy),
            toolkit=OperandAsked.of(TOOLKIT, policy),
            feature_discovery=OperandAsked.of(FEATURE_DISCOVERY, policy),
            validator=OperandAsked.of(VALIDATOR, policy),
        )
