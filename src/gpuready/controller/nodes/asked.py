"""What a policy asks of every node alike, worked out once instead of once per node. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.controller.nodes.driver_pod import asked_version
from gpuready.operands.contract import Flavour, Operand, Refusal
from gpuready.operands.device_plugin.operand import OPERAND as DEVICE_PLUGIN
from gpuready.operands.gfd.operand import OPERAND as FEATURE_DISCOVERY
from gpuready.operands.registry import VALIDATOR
from gpuready.operands.toolkit.operand import OPERAND as TOOLKIT
from gpuready.operands.validator.operand import proves_cuda

HeldBack = Mapping[str, Refusal]  # operand -> why its objects are not applied


@dataclass(frozen=True)
class OperandAsked:
    """
    flavour   whose image runs; None where it is not enabled, or nobody's can run
    refusal   why it is not run as the policy asks: settings that ours does not take, or what is not there
    """

    operand: Operand
    flavour: Flavour | None
    refusal: Refusal | None

    @classmethod
    def of(cls, operand: Operand, policy: ClusterPolicy, held_back: HeldBack) -> Self:
        if not operand.enabled(policy):
            return cls(operand, None, None)
        refusal = operand.refusal(policy) or held_back.get(operand.name)
        return cls(operand, operand.flavour(policy), refusal)

    @property
    def runs_original(self) -> bool:
        return self.flavour is Flavour.ORIGINAL

    def runs_own(self, labels: Mapping[str, str], *, is_there: bool) -> bool:
        """A refusal keeps ours from starting; one that `is_there` is left as it is."""
        if self.flavour is not Flavour.OWN or labels.get(self.operand.deploy_label) != "true":
            return False
        return self.refusal is None or is_there


@dataclass(frozen=True)
class Asked:
    """
    driver_version   in the driver image's tag, "" = no particular one
    proves_cuda      a program may be run on GPUs
    """

    policy: ClusterPolicy
    driver_version: str
    plugin: OperandAsked
    toolkit: OperandAsked
    feature_discovery: OperandAsked
    validator: OperandAsked
    proves_cuda: bool

    @classmethod
    def of(cls, policy: ClusterPolicy, held_back: HeldBack) -> Self:
        return cls(
            policy,
            asked_version(policy),
            plugin=OperandAsked.of(DEVICE_PLUGIN, policy, held_back),
            toolkit=OperandAsked.of(TOOLKIT, policy, held_back),
            feature_discovery=OperandAsked.of(FEATURE_DISCOVERY, policy, held_back),
            validator=OperandAsked.of(VALIDATOR, policy, held_back),
            proves_cuda=proves_cuda(policy),
        )
