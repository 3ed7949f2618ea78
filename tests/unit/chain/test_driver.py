"""The driver link, as the tables of node-chain.md §1.7 and case C26 ask for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gpuready.chain import driver
from gpuready.chain.device_plugin import Problem
from gpuready.chain.driver import (
    DriverClass,
    DriverFacts,
    DriverTree,
    ListedGpu,
    NvmlAnswer,
    Owner,
    Probe,
)
from gpuready.chain.kept_away import kept_away
from gpuready.chain.verdict import State

SEARCHED = ("/usr/lib64", "/usr/lib/x86_64-linux-gnu")


def tree(root: str = "/", version: str = "570.86.10", **changes: Any) -> DriverTree:
    whole = DriverTree(
        root=root,
        library=f"{root.rstrip('/')}/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}",
        version=version,
        smi=f"{root.rstrip('/')}/usr/bin/nvidia-smi",
        searched=SEARCHED,
    )
    return dataclasses.replace(whole, **changes)


def no_tree(root: str = "/") -> DriverTree:
    return DriverTree(root=root, searched=SEARCHED)


def address_of(index: int) -> str:
    return f"0000:{0x1A + index:02x}:00.0"


def listed(count: int, **problems: Any) -> tuple[ListedGpu, ...]:
    return tuple(ListedGpu(index, f"GPU-{index}", address_of(index), **problems) for index in range(count))


def answered(*gpus: ListedGpu) -> NvmlAnswer:
    return NvmlAnswer(Probe.ANSWERED, gpus=gpus)


def failed(code: int, text: str = "some words of NVML") -> NvmlAnswer:
    return NvmlAnswer(Probe.FAILED, code=code, text=text)


def facts(gpus: int = 4, **changes: Any) -> DriverFacts:
    """A whole host driver; a test states what differs."""
    whole = DriverFacts(
        pci_addresses=tuple(address_of(index) for index in range(gpus)),
        module_loaded=True,
        module_version="570.86.10",
        host=tree(),
        container=no_tree("/run/nvidia/driver"),
        nvml=answered(*listed(gpus)),
    )
    return dataclasses.replace(whole, **changes)


def in_container(**changes: Any) -> DriverFacts:
    base = facts(
        host=no_tree(), container=tree("/run/nvidia/driver"), container_finished=True, driver_wanted=True
    )
    return dataclasses.replace(base, **changes)


BARE: dict[str, Any] = {"host": no_tree(), "module_loaded": False, "module_version": "", "nvml": NvmlAnswer()}


@pytest.mark.parametrize(
    ("given", "owner"),
    [
        pytest.param(facts(), Owner.HOST, id="a whole host driver"),
        pytest.param(
            facts(nvml=failed(18)), Owner.HOST, id="a host driver of two versions is still the host's"
        ),
        pytest.param(
            facts(module_loaded=False, nvml=failed(9), driver_wanted=True),
            Owner.HOST,
            id="a host driver whose module is not loaded",
        ),
        pytest.param(
            facts(host=tree(library="", version=""), driver_wanted=True),
            Owner.HOST,
            id="only nvidia-smi is there",
        ),
        pytest.param(
            facts(container=tree("/run/nvidia/driver")),
            Owner.HOST,
            id="a host driver beside a container's files",
        ),
        pytest.param(in_container(), Owner.CONTAINER, id="a container driver"),
        pytest.param(
            in_container(
                container=no_tree("/run/nvidia/driver"), container_evidence=("/run/nvidia/nvidia-driver.pid",)
            ),
            Owner.CONTAINER,
            id="a container driver that installs",
        ),
        pytest.param(
            in_container(container=no_tree("/run/nvidia/driver")), Owner.HOST, id="a module without any file"
        ),
        pytest.param(
            facts(**BARE, driver_wanted=True), Owner.CONTAINER, id="nothing there, the policy wants one"
        ),
        pytest.param(
            facts(**BARE, driver_wanted=False), Owner.NONE, id="nothing there, the policy wants none"
        ),
        pytest.param(facts(**BARE), Owner.NONE, id="nothing there, no GPUNode yet"),
    ],
)
def test_the_host_driver_comes_first_even_when_broken(given: DriverFacts, owner: Owner) -> None:
    assert driver.owner_of(given) is owner


@pytest.mark.parametrize(
    ("given", "state", "reason", "must_mention"),
    [
        pytest.param(facts(), State.OK, "DriverReady", ["570.86.10", "4 GPUs"], id="whole"),
        pytest.param(facts(gpus=0), State.NOT_CHECKED, "NoGpus", [], id="a node without GPUs"),
        pytest.param(
            facts(module_version="570.81", nvml=failed(18)),
            State.BROKEN,
            "DriverLibraryMismatch",
            ["library 570.86.10", "module 570.81"],
            id="NVML answers 18: both versions are named",
        ),
        pytest.param(
            facts(module_version="570.81", nvml=NvmlAnswer()),
            State.BROKEN,
            "DriverLibraryMismatch",
            ["library 570.86.10", "module 570.81"],
            id="the files differ before NVML was asked",
        ),
        pytest.param(
            facts(module_loaded=False, module_version="", nvml=failed(9)),
            State.BROKEN,
            "DriverNotLoaded",
            ["570.86.10", "not loaded", "modprobe"],
            id="libraries without a module",
        ),
        pytest.param(
            facts(nvml=failed(9)),
            State.BROKEN,
            "DriverNotLoaded",
            ["does not serve"],
            id="exit 9 with a module",
        ),
        pytest.param(
            facts(**BARE, driver_wanted=False),
            State.BROKEN,
            "DriverMissing",
            ["/usr/lib/x86_64-linux-gnu", "driver.enabled"],
            id="no driver and none wanted: the searched paths",
        ),
        pytest.param(
            facts(**BARE), State.WAITING, "DriverUndecided", ["not said"], id="no driver, no GPUNode"
        ),
        pytest.param(
            facts(**BARE, driver_wanted=False, container_evidence=("/run/nvidia/nvidia-driver.pid",)),
            State.BROKEN,
            "DriverMissing",
            [],
            id="traces of a container that nobody wants any more",
        ),
        pytest.param(
            facts(host=tree(library="", version="")),
            State.BROKEN,
            "LibraryMissing",
            ["/usr/bin/nvidia-smi", "/usr/lib64", "/usr/lib/x86_64-linux-gnu"],
            id="exit 127: a program without libraries lists the searched paths",
        ),
        pytest.param(
            facts(nvml=NvmlAnswer(Probe.TIMED_OUT, waited_s=10.0)),
            State.BROKEN,
            "NvmlTimeout",
            ["hanging", "10 s", "kernel log"],
            id="NVML hangs",
        ),
        pytest.param(
            facts(nvml=failed(999, "Unknown Error")),
            State.BROKEN,
            "NvmlFailed",
            ["Unknown Error", "999"],
            id="NVML refuses for a reason of its own",
        ),
        pytest.param(facts(nvml=NvmlAnswer()), State.WAITING, "DriverProbing", [], id="not asked yet"),
        pytest.param(
            facts(nvml=answered(*listed(3))),
            State.DEGRADED,
            "GpuMissing",
            [address_of(3), "3 of 4"],
            id="3 of 4: the missing PCI address",
        ),
        pytest.param(
            facts(nvml=answered()),
            State.BROKEN,
            "NoDevices",
            [address_of(0), address_of(3)],
            id="none listed",
        ),
        pytest.param(
            facts(
                nvml=answered(
                    *listed(2), ListedGpu(2, "GPU-2", address_of(2), info_rom_corrupt=True), listed(4)[3]
                )
            ),
            State.DEGRADED,
            "InfoRomCorrupted",
            ["infoROM", "GPU 2", "GPU-2", "4 of 4"],
            id="exit 14: a corrupted infoROM names its GPU",
        ),
        pytest.param(
            facts(
                nvml=answered(
                    *listed(3), ListedGpu(3, "GPU-3", address_of(3), problem="GPU is lost", answers=False)
                )
            ),
            State.DEGRADED,
            "GpuNotAnswering",
            ["GPU 3", "GPU is lost", "3 of 4"],
            id="exit 255: the answers of the single GPUs decide",
        ),
        pytest.param(
            facts(nvml=answered(*listed(4, problem="GPU is lost", answers=False))),
            State.BROKEN,
            "NoDevices",
            ["none of 4 GPUs answers", "GPU is lost"],
            id="not one GPU answers",
        ),
        pytest.param(in_container(), State.OK, "DriverReady", ["570.86.10"], id="a container driver"),
        pytest.param(
            in_container(container_finished=False),
            State.OK,
            "DriverReady",
            [],
            id="NVML's answer counts, not .driver-ctr-ready",
        ),
        pytest.param(
            facts(**BARE, driver_wanted=True),
            State.WAITING,
            "DriverInstalling",
            ["/run/nvidia/driver"],
            id="the driver container has not begun",
        ),
        pytest.param(
            in_container(
                module_loaded=False, module_version="", container_finished=False, nvml=failed(9, "not loaded")
            ),
            State.WAITING,
            "DriverInstalling",
            ["module is not loaded yet"],
            id="the driver container has its libraries but no module yet",
        ),
        pytest.param(
            in_container(module_loaded=False, module_version="", nvml=failed(9)),
            State.BROKEN,
            "DriverNotLoaded",
            ["/run/nvidia/driver"],
            id="the module of a finished driver container has gone",
        ),
        pytest.param(
            in_container(module_version="570.81", nvml=failed(18)),
            State.BROKEN,
            "DriverLibraryMismatch",
            ["570.81"],
            id="a finished container driver of two versions",
        ),
    ],
)
def test_every_way_a_driver_can_be(
    given: DriverFacts, state: State, reason: str, must_mention: list[str]
) -> None:
    verdict = driver.judge(given)

    told = " ".join([verdict.message, *verdict.evidence, verdict.next_step])
    assert (verdict.state, verdict.reason) == (state, reason), told
    assert [words for words in must_mention if words not in told] == []


def test_a_broken_link_always_says_what_to_do() -> None:
    for given in (facts(nvml=failed(18)), facts(nvml=failed(4)), facts(nvml=answered())):
        assert driver.judge(given).next_step


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(facts(**BARE), DriverClass.ABSENT, id="nothing at all"),
        pytest.param(facts(), DriverClass.OK, id="whole"),
        pytest.param(facts(module_loaded=False, nvml=failed(9)), DriverClass.NOT_LOADED, id="no module"),
        pytest.param(facts(nvml=answered(*listed(3))), DriverClass.WARN, id="works, with a remark"),
        pytest.param(facts(nvml=failed(18)), DriverClass.BROKEN, id="mismatch"),
    ],
)
def test_only_an_absent_driver_counts_as_absent(given: DriverFacts, expected: DriverClass) -> None:
    assert driver.class_of(given) is expected


def test_several_remarks_are_all_told_and_the_first_gives_the_reason() -> None:
    gpus = (*listed(2), ListedGpu(2, "GPU-2", address_of(2), info_rom_corrupt=True))

    verdict = driver.judge(facts(nvml=answered(*gpus)))

    assert verdict.reason == "GpuMissing"
    assert "infoROM of GPU 2" in verdict.message
    assert address_of(3) in verdict.message


@pytest.mark.parametrize(
    ("code", "step"),
    [
        pytest.param(driver.NVML_GPU_IS_LOST, "reboot the node: GPU 3 comes back only so", id="lost"),
        pytest.param(
            driver.NVML_RESET_REQUIRED,
            "reset GPU 3 once nothing uses it (nvidia-smi --gpu-reset -i 3)",
            id="reset required",
        ),
    ],
)
def test_a_silent_gpu_gets_the_same_advice_as_from_the_health_engine(code: int, step: str) -> None:
    silent = ListedGpu(3, "GPU-3", address_of(3), problem="GPU is lost", code=code, answers=False)

    verdict = driver.judge(facts(nvml=answered(*listed(3), silent)))

    assert (verdict.reason, verdict.next_step) == ("GpuNotAnswering", step)


@pytest.mark.parametrize("nvml", [answered(*listed(4)), failed(9)], ids=["NVML answers", "NVML refuses"])
def test_a_library_whose_name_tells_no_version_is_no_working_driver(nvml: NvmlAnswer) -> None:
    odd = tree(version="", library="/usr/lib64/libnvidia-ml.so.5.x")

    verdict = driver.judge(facts(host=odd, nvml=nvml))

    assert (verdict.state, verdict.reason) == (State.BROKEN, "LibraryVersionUnknown")
    assert "/usr/lib64/libnvidia-ml.so.5.x" in verdict.message
    assert "libnvidia-ml.so.570.86.10" in verdict.next_step


OUTDATED = Problem(
    "DriverOutdated",
    "a100 runs 570.86.10, the policy asks for 570.124.06",
    "delete the pod nvidia-driver-daemonset-x on a100 when its GPUs are free",
)
FAILING = Problem("DriverPodFailing", "on a100 the driver pod x fails: CrashLoopBackOff", "kubectl logs x")


def test_a_driver_that_is_not_the_one_asked_for_works_and_is_remarked() -> None:
    verdict = driver.judge(in_container(trouble=OUTDATED))

    assert (verdict.state, verdict.reason) == (State.DEGRADED, "DriverOutdated")
    assert OUTDATED.message in verdict.message
    assert verdict.next_step == OUTDATED.next_step


def test_what_the_policy_asks_of_containers_is_nothing_to_a_hosts_driver() -> None:
    assert driver.judge(facts(trouble=OUTDATED)).state is State.OK


def test_a_driver_pod_that_fails_is_no_driver_that_is_being_installed() -> None:
    verdict = driver.judge(in_container(**{**BARE, "container_finished": False}, trouble=FAILING))

    assert (verdict.state, verdict.reason) == (State.BROKEN, "DriverPodFailing")
    assert (verdict.message, verdict.next_step) == (FAILING.message, FAILING.next_step)


def test_a_driver_whose_pod_a_taint_keeps_away_is_broken_with_the_toleration() -> None:
    kept = kept_away("driver", "nvidia-driver-daemonset", ["team=ml:NoSchedule"])

    verdict = driver.judge(in_container(**{**BARE, "container_finished": False}, kept_away=kept))

    assert (verdict.state, verdict.reason) == (State.BROKEN, "OperandKeptAway")
    assert "nvidia-driver-daemonset does not tolerate team=ml:NoSchedule" in verdict.message
    assert '{key: team, operator: Equal, value: "ml", effect: NoSchedule}' in verdict.next_step
    assert driver.judge(in_container(kept_away=kept)).state is State.OK, "one that works stays"
    assert driver.judge(facts(kept_away=kept)).state is State.OK, "a host's driver needs no pod"
