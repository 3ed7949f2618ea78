"""Reading a machine's PCI bus, kernel and distribution from files."""

from __future__ import annotations

from pathlib import Path

from gpuready.node.links import discovery
from gpuready.node.root import Root


def add_pci(root: Path, address: str, *, vendor: str = "0x10de", class_code: str = "0x030200") -> Path:
    """A device as sysfs shows it: an entry of the bus is a link into the device tree."""
    device = root / "sys/devices/pci0000:00" / address
    device.mkdir(parents=True)
    for name, text in {"vendor": vendor, "class": class_code, "device": "0x20b0"}.items():
        (device / name).write_text(f"{text}\n")
    bus = root / "sys/bus/pci/devices"
    bus.mkdir(parents=True, exist_ok=True)
    (bus / address).symlink_to(f"../../../devices/pci0000:00/{address}")
    return device


def test_only_nvidia_display_controllers_are_gpus(tmp_path: Path) -> None:
    add_pci(tmp_path, "0000:3b:00.0")
    add_pci(tmp_path, "0000:1a:00.0", class_code="0x030000")
    add_pci(tmp_path, "0000:1a:00.1", class_code="0x040300")  # the card's audio function
    add_pci(tmp_path, "0000:05:00.0", class_code="0x068000")  # an NVSwitch
    add_pci(tmp_path, "0000:00:02.0", vendor="0x8086", class_code="0x030000")

    found = discovery.gather(Root(tmp_path))

    assert found.pci_addresses == ("0000:1a:00.0", "0000:3b:00.0")


def test_a_card_bound_to_vfio_is_seen_but_not_offered(tmp_path: Path) -> None:
    device = add_pci(tmp_path, "0000:3b:00.0")
    (device / "driver").symlink_to("../../../bus/pci/drivers/vfio-pci")

    found = discovery.gather(Root(tmp_path))

    assert found.gpus[0].passed_through
    assert found.pci_addresses == ()


def test_kernel_and_os_release_are_read_and_unquoted(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('# comment\nNAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\n')
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text("5.15.0-116-generic\n")

    found = discovery.gather(Root(tmp_path))

    assert found.kernel == "5.15.0-116-generic"
    assert found.os_release == {"NAME": "Ubuntu", "VERSION_ID": "22.04", "ID": "ubuntu"}


def test_a_machine_that_shows_nothing_has_nothing(tmp_path: Path) -> None:
    assert discovery.gather(Root(tmp_path)) == discovery.Machine()
