"""From a bare machine to the labels that the rest of the world reads."""

from __future__ import annotations

from typing import Any

import pytest

from gpuready import names
from gpuready.node.links.discovery import Machine, PciGpu
from gpuready.operands.node_agent import discovery
from gpuready.operands.node_agent.settings import LabelSource

UBUNTU = {"ID": "ubuntu", "VERSION_ID": "22.04"}
A100 = PciGpu("0000:1a:00.0")
NFD = names.NFD_PREFIX


def machine(**changes: Any) -> Machine:
    return Machine(**{"gpus": (A100,), "kernel": "5.15.0-116-generic", "os_release": UBUNTU, **changes})


def test_a_gpu_machine_earns_pci_kernel_and_os_labels() -> None:
    assert discovery.labels_of(machine()) == {
        f"{NFD}pci-10de.present": "true",
        f"{NFD}kernel-version.full": "5.15.0-116-generic",
        f"{NFD}kernel-version.major": "5",
        f"{NFD}kernel-version.minor": "15",
        f"{NFD}kernel-version.revision": "0",
        f"{NFD}system-os_release.ID": "ubuntu",
        f"{NFD}system-os_release.VERSION_ID": "22.04",
        f"{NFD}system-os_release.VERSION_ID.major": "22",
        f"{NFD}system-os_release.VERSION_ID.minor": "04",
    }


def test_a_machine_without_gpus_stays_untouched() -> None:
    assert discovery.labels_of(machine(gpus=())) == {}


def test_a_card_that_belongs_to_a_virtual_machine_is_no_gpu_for_containers() -> None:
    passed = PciGpu("0000:1a:00.0", passed_through=True)

    assert discovery.labels_of(machine(gpus=(passed,))) == {}


@pytest.mark.parametrize(
    ("kernel", "full", "revision"),
    [
        pytest.param("6.8.0-71+custom~1", "6.8.0-71_custom_1", "0", id="characters that a label cannot hold"),
        pytest.param("6.12", "6.12", None, id="no revision"),
        pytest.param("5.4.0-" + "x" * 80, "5.4.0-" + "x" * 57, "0", id="longer than a label value may be"),
    ],
)
def test_kernel_names_become_label_values(kernel: str, full: str, revision: str | None) -> None:
    found = discovery.labels_of(machine(kernel=kernel))

    assert found[f"{NFD}kernel-version.full"] == full
    assert found.get(f"{NFD}kernel-version.revision") == revision


@pytest.mark.parametrize(
    ("setting", "listed", "source"),
    [
        pytest.param(LabelSource.AUTO, "", LabelSource.AGENT, id="nobody else"),
        pytest.param(
            LabelSource.AUTO, "cpu-x,pci-10de.present", LabelSource.NFD, id="NFD lists the PCI label"
        ),
        pytest.param(
            LabelSource.AUTO, "pci-0302_10de.present", LabelSource.NFD, id="NFD with class and vendor"
        ),
        pytest.param(LabelSource.AUTO, "cpu-x", LabelSource.AGENT, id="NFD without PCI labels"),
        pytest.param(LabelSource.NFD, "", LabelSource.NFD, id="the environment says NFD"),
        pytest.param(
            LabelSource.AGENT, "pci-10de.present", LabelSource.AGENT, id="the environment says agent"
        ),
    ],
)
def test_there_is_never_a_second_label_source(setting: LabelSource, listed: str, source: LabelSource) -> None:
    assert discovery.source_of(setting, {names.NFD_OWNED_ANNOTATION: listed}) is source
