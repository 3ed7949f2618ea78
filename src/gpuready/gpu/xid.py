"""What an XID error means, as a table: whether the GPU may still be handed out and what brings it back.

The default policy follows the immediate action of NVIDIA's XID catalogue; `policy_from_env` adds the two
variables by which users of the original plugin override it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Class(StrEnum):
    APPLICATION = "application"  # the program's fault, or contained to it
    RESTART = "restart-application"
    RESET = "reset"
    REMAP = "reset-and-remap"
    REBOOT = "reboot"
    NOTICE = "notice"  # says something, asks for nothing by itself
    UNKNOWN = "unknown"


class Recovery(StrEnum):
    """What must be seen before an unhealthy GPU is healthy again; later ones outweigh earlier ones."""

    NONE = "none"
    CLEAN_PROBES = "clean-probes"
    RESET = "reset"
    REMAP = "reset-and-no-pending-remap"
    REBOOT = "reboot"


@dataclass(frozen=True)
class Rule:
    """action  what a person does about it, as shown in records, conditions and Events."""

    meaning: str
    kind: Class
    reason: str = ""

    @property
    def is_healthy(self) -> bool:
        return self.kind in (Class.APPLICATION, Class.RESTART, Class.NOTICE)

    @property
    def recovery(self) -> Recovery:
        return _RECOVERIES[self.kind]

    @property
    def action(self) -> str:
        return _ACTIONS[self.kind]


_RECOVERIES = {
    Class.APPLICATION: Recovery.NONE,
    Class.RESTART: Recovery.NONE,
    Class.NOTICE: Recovery.NONE,
    Class.UNKNOWN: Recovery.CLEAN_PROBES,
    Class.RESET: Recovery.RESET,
    Class.REMAP: Recovery.REMAP,
    Class.REBOOT: Recovery.REBOOT,
}
_ACTIONS = {
    Class.APPLICATION: "CheckApplication",
    Class.RESTART: "RestartApplication",
    Class.NOTICE: "None",
    Class.UNKNOWN: "Observe",
    Class.RESET: "ResetGpu",
    Class.REMAP: "ResetGpu",
    Class.REBOOT: "RebootNode",
}

_WITHDRAWING = frozenset(
    _ACTIONS[kind] for kind, recovery in _RECOVERIES.items() if recovery != Recovery.NONE
)


def withdraws(action: str) -> bool:
    """Whether an XID with this action made its GPU unhealthy, if only for a moment."""
    return action in _WITHDRAWING


ACTIONS = tuple(dict.fromkeys(_ACTIONS.values()))


def meaning_of(code: int) -> str:
    return RULES.get(code, UNKNOWN).meaning


def action_of(code: int) -> str:
    """One of ACTIONS, by the default policy."""
    return RULES.get(code, UNKNOWN).action


def _application(meaning: str) -> Rule:
    return Rule(meaning, Class.APPLICATION)


def _reset(meaning: str) -> Rule:
    return Rule(meaning, Class.RESET, "GpuResetRequired")


RULES: Mapping[int, Rule] = {
    13: _application("graphics engine exception"),
    31: _application("GPU memory page fault"),
    32: _application("invalid or corrupted push buffer stream"),
    43: _application("GPU stopped processing for one program"),
    45: _application("preemptive clean-up after an earlier error"),
    48: Rule("double-bit ECC error", Class.REMAP, "UncorrectableEcc"),
    61: _reset("internal micro-controller breakpoint"),
    62: _reset("internal micro-controller halt"),
    63: Rule("memory row remapped or page retired", Class.NOTICE),
    64: Rule("row remapping failed", Class.REMAP, "RowRemapFailed"),
    66: _application("illegal access by driver"),
    68: _application("video processor exception"),
    69: _application("graphics engine class error"),
    74: _reset("NVLink error"),
    79: Rule("GPU has fallen off the bus", Class.REBOOT, "FallenOffBus"),
    92: Rule("high rate of single-bit ECC errors", Class.NOTICE),
    94: Rule("contained ECC error", Class.RESTART),
    95: _reset("uncontained ECC error"),
    109: _reset("context switch timeout"),
    110: Rule("security fault", Class.REBOOT, "SecurityFault"),
    119: _reset("GSP call timeout"),
    120: _reset("GSP error"),
    121: Rule("corrected C2C link error", Class.NOTICE),
    122: _reset("SPI call failure"),
    123: _reset("SPI write failure"),
    126: _application("global memory access error of an application"),
    136: _reset("link training failed"),
    137: _application("NVLink peer memory access error"),
    140: Rule("unrecovered ECC error", Class.REMAP, "UncorrectableEcc"),
    143: _reset("GPU initialisation error"),
    154: Rule("GPU recovery action changed", Class.NOTICE),
    155: _reset("NVLink software-defined error"),
    156: Rule("resource retirement event", Class.NOTICE),
    157: _reset("resource retirement failure"),
}
UNKNOWN = Rule("unknown XID", Class.UNKNOWN, "UnknownXid")


@dataclass(frozen=True)
class Policy:
    """Which XIDs are taken out of, or put on, the table's default.

    checks_off   nothing makes a GPU unhealthy by an XID
    disabled     XIDs that never make it unhealthy
    enabled      XIDs that do although the table says otherwise; wins over `disabled`
    enable_all   every XID does
    clean_probes how many clean probes in a row end an unknown trouble
    """

    checks_off: bool = False
    disabled: frozenset[int] = frozenset()
    enabled: frozenset[int] = frozenset()
    enable_all: bool = False
    clean_probes: int = 60

    def rule_of(self, code: int) -> Rule:
        rule = RULES.get(code, UNKNOWN)
        if self.enable_all or code in self.enabled:
            return rule if not rule.is_healthy else Rule(rule.meaning, Class.UNKNOWN, "XidEnabledByUser")
        if self.checks_off or code in self.disabled:
            return Rule(rule.meaning, Class.NOTICE)
        return rule


def policy_from_env(env: Mapping[str, str], clean_probes: int = 60) -> Policy:
    """DP_DISABLE_HEALTHCHECKS lists XIDs to ignore, DP_ENABLE_HEALTHCHECKS XIDs to heed; both know `all`.

    Source: k8s-device-plugin v0.19.3, internal/rm/health.go (newHealthCheckXIDs).
    """
    off_words, off_codes = _split(env.get("DP_DISABLE_HEALTHCHECKS", ""))
    on_words, on_codes = _split(env.get("DP_ENABLE_HEALTHCHECKS", ""))
    return Policy(
        checks_off=bool(off_words & {"all", "xids"}),
        disabled=off_codes,
        enabled=on_codes,
        enable_all="all" in on_words,
        clean_probes=clean_probes,
    )


def _split(text: str) -> tuple[set[str], frozenset[int]]:
    items = [item.strip().lower() for item in text.split(",") if item.strip()]
    return {i for i in items if not i.isdigit()}, frozenset(int(i) for i in items if i.isdigit())
