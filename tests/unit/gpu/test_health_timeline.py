"""A GPU's health under a virtual clock: case C13 and its neighbours."""

from __future__ import annotations

import pytest

from gpuready.gpu.health import Health, Probe, after_probe, after_reenumeration, after_xid
from gpuready.gpu.xid import RULES, Policy, Recovery, policy_from_env

CLEAN = Probe(recovery_action=0, remap_pending=False, energy_mj=5_000)
WANTS_RESET = Probe(recovery_action=1, remap_pending=False, energy_mj=5_000)
REMAP_PENDING = Probe(recovery_action=1, remap_pending=True, energy_mj=5_000)
LOST = Probe(error="GpuIsLost", lost=True)


class Clock:
    """One GPU whose facts come at given seconds; `spans` is its health over time."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy(clean_probes=60)
        self.health = Health()
        self.changes: list[tuple[float, bool, Health]] = []

    def xid(self, now: float, code: int) -> None:
        self._set(now, after_xid(self.health, code, now, self.policy))

    def probe(self, now: float, probe: Probe = CLEAN) -> None:
        self._set(now, after_probe(self.health, probe, now, self.policy))

    def probes(self, start: int, end: int, probe: Probe = CLEAN) -> None:
        for second in range(start, end):
            self.probe(float(second), probe)

    def reboot(self, now: float) -> None:
        self._set(now, after_reenumeration(self.health, now))

    def _set(self, now: float, health: Health) -> None:
        if health.healthy != self.health.healthy:
            self.changes.append((now, health.healthy, health))
        self.health = health


def test_c13_the_default_policy_gives_exactly_this_timeline() -> None:
    clock = Clock()
    for second, code in ((10, 43), (20, 31), (30, 94), (40, 13)):
        clock.xid(second, code)
    clock.xid(60, 109)
    clock.probes(61, 90, WANTS_RESET)
    clock.probe(90)  # reset done
    clock.xid(120, 999)
    clock.probes(130, 200)
    clock.xid(200, 48)
    clock.probes(201, 300, REMAP_PENDING)
    clock.probes(300, 303)  # reset, nothing pending
    clock.xid(400, 79)
    clock.probes(401, 500, LOST)
    clock.reboot(500)

    assert [(now, healthy) for now, healthy, _ in clock.changes] == [
        (60, False),
        (90, True),
        (120, False),
        (189, True),
        (200, False),
        (300, True),
        (400, False),
        (500, True),
    ]


def test_c13_each_change_says_xid_time_and_action() -> None:
    clock = Clock()
    for second, code in ((60, 109), (120, 999), (200, 48), (400, 79)):
        clock.xid(second, code)

        xid = clock.health.last_xid
        assert xid is not None
        assert (xid.code, xid.time) == (code, second)
        assert str(code) in clock.health.message
        clock.reboot(second + 1)
    clock.xid(500, 109)
    assert (clock.health.reason, clock.health.last_xid.action) == ("GpuResetRequired", "ResetGpu")  # type: ignore[union-attr]


@pytest.mark.parametrize("code", [13, 31, 43, 45, 94, 63])
def test_an_application_error_leaves_the_gpu_healthy_and_is_remembered(code: int) -> None:
    clock = Clock()
    clock.xid(1, code)

    assert clock.health.healthy
    assert clock.health.last_xid is not None
    assert clock.health.last_xid.code == code


def test_79_survives_a_reset_and_ends_with_a_reboot() -> None:
    clock = Clock()
    clock.xid(1, 79)
    clock.probes(2, 5, LOST)
    clock.probes(5, 500, CLEAN)
    assert not clock.health.healthy
    assert clock.health.recovery is Recovery.REBOOT

    clock.reboot(600)
    assert clock.health.healthy


def test_48_stays_while_a_remap_is_pending_after_the_reset() -> None:
    clock = Clock()
    clock.xid(1, 48)
    clock.probe(2, REMAP_PENDING)
    clock.probes(3, 100, Probe(recovery_action=0, remap_pending=True, energy_mj=10))
    assert not clock.health.healthy

    clock.probe(100, CLEAN)
    assert clock.health.healthy


@pytest.mark.parametrize(
    "probes",
    [
        pytest.param([WANTS_RESET, CLEAN], id="the driver asked for it and is content now"),
        pytest.param([Probe(energy_mj=900), Probe(energy_mj=3)], id="the energy counter went back"),
        pytest.param([Probe(error="NotFound"), Probe()], id="it was away for a moment"),
        pytest.param([CLEAN] * 5, id="the reset was over before the first probe"),
    ],
)
def test_a_reset_is_recognised(probes: list[Probe]) -> None:
    clock = Clock()
    clock.xid(0, 109)
    for second, probe in enumerate(probes, start=1):
        assert not clock.health.healthy
        clock.probe(second, probe)

    assert clock.health.healthy


def test_without_a_word_of_the_driver_only_a_reset_helps() -> None:
    clock = Clock()
    clock.xid(0, 109)
    clock.probes(1, 500, Probe(energy_mj=7))

    assert not clock.health.healthy


def test_a_new_trouble_starts_the_trial_anew() -> None:
    clock = Clock(Policy(clean_probes=10))
    clock.xid(0, 999)
    clock.probes(1, 9)
    clock.xid(9, 998)
    clock.probes(10, 19)
    assert not clock.health.healthy

    clock.probe(19)
    assert clock.health.healthy


def test_the_graver_trouble_gives_the_reason() -> None:
    clock = Clock()
    clock.xid(0, 79)
    clock.xid(1, 109)
    assert clock.health.reason == "FallenOffBus"

    other = Clock()
    other.xid(0, 999)
    other.xid(1, 109)
    assert other.health.reason == "GpuResetRequired"


@pytest.mark.parametrize(
    ("probe", "reason", "recovery"),
    [
        pytest.param(LOST, "GpuLost", Recovery.REBOOT, id="lost"),
        pytest.param(WANTS_RESET, "GpuResetRequired", Recovery.RESET, id="reset wanted, its XID was missed"),
        pytest.param(Probe(recovery_action=2), "RebootRequired", Recovery.REBOOT, id="reboot wanted"),
        pytest.param(Probe(remap_failed=True), "RowRemapFailed", Recovery.REMAP, id="remap failed"),
        pytest.param(Probe(error="Unknown"), "GpuNotAnswering", Recovery.CLEAN_PROBES, id="no answer"),
    ],
)
def test_a_probe_alone_can_find_trouble(probe: Probe, reason: str, recovery: Recovery) -> None:
    clock = Clock()
    clock.probe(1, probe)

    assert (clock.health.healthy, clock.health.reason, clock.health.recovery) == (False, reason, recovery)


@pytest.mark.parametrize(
    ("env", "code", "healthy"),
    [
        pytest.param({"DP_DISABLE_HEALTHCHECKS": "94,109"}, 109, True, id="109 is ignored"),
        pytest.param({"DP_DISABLE_HEALTHCHECKS": " 94, 109 "}, 79, False, id="79 is not"),
        pytest.param({"DP_DISABLE_HEALTHCHECKS": "all"}, 79, True, id="all off"),
        pytest.param({"DP_DISABLE_HEALTHCHECKS": "xids"}, 48, True, id="xids off"),
        pytest.param({"DP_ENABLE_HEALTHCHECKS": "94"}, 94, False, id="94 is heeded"),
        pytest.param({"DP_ENABLE_HEALTHCHECKS": "all"}, 13, False, id="even application errors are heeded"),
        pytest.param(
            {"DP_DISABLE_HEALTHCHECKS": "109", "DP_ENABLE_HEALTHCHECKS": "109"}, 109, False, id="on wins"
        ),
        pytest.param(
            {"DP_DISABLE_HEALTHCHECKS": "all", "DP_ENABLE_HEALTHCHECKS": "48"}, 48, False, id="all but 48"
        ),
        pytest.param({"DP_DISABLE_HEALTHCHECKS": "nonsense"}, 109, False, id="nonsense changes nothing"),
    ],
)
def test_the_original_variables_are_understood(env: dict[str, str], code: int, healthy: bool) -> None:
    clock = Clock(policy_from_env(env))
    clock.xid(1, code)

    assert clock.health.healthy is healthy


def test_every_rule_that_takes_a_gpu_away_has_a_reason_and_a_way_back() -> None:
    for code, rule in RULES.items():
        if not rule.is_healthy:
            assert rule.reason, code
            assert rule.recovery is not Recovery.NONE, code
