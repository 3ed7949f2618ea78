"""One node in one line."""

from __future__ import annotations

from gpuready.chain import summary
from gpuready.chain.verdict import Link, State, Verdict


def verdict(link: Link, state: State = State.OK, reason: str = "Fine", message: str = "fine") -> Verdict:
    return Verdict(link, state, reason, message)


def chain(*changed: Verdict) -> list[Verdict]:
    by_link = {
        Link.DISCOVERY: verdict(Link.DISCOVERY),
        Link.DRIVER: verdict(Link.DRIVER),
        Link.TOOLKIT: verdict(Link.TOOLKIT, State.NOT_CHECKED),
        Link.DEVICE_PLUGIN: verdict(Link.DEVICE_PLUGIN),
        Link.CUDA: verdict(Link.CUDA, State.NOT_CHECKED),
    }
    return list({**by_link, **{item.link: item for item in changed}}.values())


def test_the_first_link_that_holds_up_explains_the_rest() -> None:
    broken = verdict(Link.DRIVER, State.BROKEN, "DriverLibraryMismatch", "two versions")
    waiting = verdict(Link.DEVICE_PLUGIN, State.WAITING, "WaitingForDriver", "for driver")

    given = [waiting, *chain(broken)]

    assert summary.first_broken(given) == broken
    assert summary.reason(given) == "DriverLibraryMismatch"
    assert summary.readiness(given) == summary.Readiness(
        "False", "DriverLibraryMismatch", "driver: two versions"
    )


def test_links_that_are_not_checked_hold_nothing_up_and_show_a_dash() -> None:
    assert summary.first_broken(chain()) is None
    assert summary.columns(chain()) == {"driver": "ok", "runtime": "-", "plugin": "ok", "cuda": "-"}
    assert summary.readiness(chain()).status == "True"
    assert summary.reason(chain()) == ""


def test_a_degraded_link_is_whole_and_shows_its_reason() -> None:
    given = chain(verdict(Link.DRIVER, State.DEGRADED, "GpuMissing", "3 of 4"))

    assert summary.readiness(given) == summary.Readiness("True", "GpuMissing", "driver: 3 of 4")
    assert summary.columns(given)["driver"] == "degraded"


def test_all_degraded_links_are_told_and_the_first_gives_the_reason() -> None:
    given = chain(
        verdict(Link.DEVICE_PLUGIN, State.DEGRADED, "UnhealthyDevices", "XID 79"),
        verdict(Link.DRIVER, State.DEGRADED, "GpuNotAnswering", "GPU 3 does not answer"),
    )

    assert summary.readiness(given) == summary.Readiness(
        "True", "GpuNotAnswering", "driver: GPU 3 does not answer; device-plugin: XID 79"
    )


def test_a_node_whose_gpus_nobody_is_to_offer_is_not_called_ready() -> None:
    given = chain(
        verdict(Link.DEVICE_PLUGIN, State.NOT_CHECKED, "Disabled", "the policy does not want a device plugin")
    )

    assert summary.readiness(given) == summary.Readiness(
        "False", "Disabled", "this node offers no GPU: the policy does not want a device plugin"
    )
    assert summary.reason(given) == "Disabled"


def test_nothing_judged_yet_is_unknown() -> None:
    assert summary.readiness([]).status == "Unknown"
