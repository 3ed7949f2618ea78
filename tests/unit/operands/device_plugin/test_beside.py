"""What a container gets beside its GPUs: GDS, GDRCopy, RDMA devices, IMEX channels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.api.policies import policy
from tests.unit.gpu.cdi.trees import node, touch

from gpuready.api.policy import parse_policy
from gpuready.chain.device_plugin import Desired, Offered, PluginFacts, PluginRecord, judge
from gpuready.chain.device_plugin import DeviceHealth as Health
from gpuready.chain.verdict import Link, State, Verdict
from gpuready.errors import AllocationError, PolicyError
from gpuready.gpu.topology.preferred import Topology
from gpuready.gpu.tree import Tree
from gpuready.operands.device_plugin.allocation import Beside, Rules, Target, allocate
from gpuready.operands.device_plugin.beside import refresh_beside
from gpuready.operands.device_plugin.config import Effective, effective_of
from gpuready.operands.device_plugin.manifest import settings_of
from gpuready.operands.device_plugin.offers import offers_of
from gpuready.operands.device_plugin.resources import Card, resources_of
from gpuready.operands.device_plugin.settings import Settings

VENDOR = "k8s.device-plugin.nvidia.com"
CDI = ("cdi-annotations", "cdi-cri")
TARGETS = {"GPU-a": Target("GPU-a", 0, 0)}


class Node:
    def __init__(self, root: Path) -> None:
        self.root, self.tree = root, Tree(root)
        self.folder = root / "run/cdi"
        self.folder.mkdir(parents=True)

    def with_everything(self) -> None:
        nodes = ("nvidia-fs0", "nvidia-fs1", "gdrdrv", "infiniband/uverbs0", "infiniband/rdma_cm")
        for minor, name in enumerate((*nodes, "nvidia-caps-imex-channels/channel0")):
            node(self.root, f"/dev/{name}", 240, minor)
        touch(self.root, "/etc/cufile.json", "{}")

    def refresh(self, *, cdi: bool = True, **asked: Any) -> Beside:
        return refresh_beside(self.tree, self.folder, Effective(**asked), "/", cdi=cdi)

    def spec(self, class_: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / f"{VENDOR}-{class_}.json").read_text())
        return found

    def files(self) -> list[str]:
        return sorted(path.name.removeprefix(f"{VENDOR}-") for path in self.folder.iterdir())


@pytest.fixture
def host(tmp_path: Path) -> Node:
    return Node(tmp_path)


ALL = {"gds": True, "mofed": True, "gdrcopy": True, "imex_channels": (0,)}


def test_each_class_that_is_asked_for_has_a_spec_and_a_name(host: Node) -> None:
    host.with_everything()

    found = host.refresh(**ALL)

    assert found.cdi == tuple(
        f"{VENDOR}/{x}" for x in ("imex-channel=0", "gds=all", "mofed=all", "gdrcopy=all")
    )
    assert host.files() == ["gdrcopy.json", "gds.json", "imex-channel.json", "mofed.json"]
    [gds] = host.spec("gds")["devices"]
    assert [each["path"] for each in gds["containerEdits"]["deviceNodes"]] == [
        "/dev/nvidia-fs0",
        "/dev/nvidia-fs1",
    ]
    assert [each["hostPath"] for each in gds["containerEdits"]["mounts"]] == ["/etc/cufile.json"]
    [mofed] = host.spec("mofed")["devices"]
    assert len(mofed["containerEdits"]["deviceNodes"]) == 2
    assert (found.absent, found.refusal) == ((), "")


def test_a_class_without_its_nodes_is_no_name_that_would_stop_every_container(host: Node) -> None:
    found = host.refresh(gds=True, mofed=True, gdrcopy=True)

    assert (found.classes, found.cdi) == ((), ())
    assert host.files() == []
    assert found.absent == ("gds (/dev/nvidia-fs*)", "gdrcopy (/dev/gdrdrv)")


def test_a_class_that_vanishes_or_is_wanted_no_more_takes_its_spec_along(host: Node) -> None:
    host.with_everything()
    host.refresh(**ALL)
    (host.root / "dev/gdrdrv").unlink()

    host.refresh(**{**ALL, "gds": False})

    assert host.files() == ["imex-channel.json", "mofed.json"]
    host.refresh(**ALL, cdi=False)
    assert host.files() == []


def test_where_nobody_has_said_a_loaded_module_is_a_wish(host: Node) -> None:
    host.with_everything()
    assert host.refresh().classes == ()

    (host.root / "sys/module/gdrdrv").mkdir(parents=True)
    assert host.refresh().classes == ("gdrcopy",)
    (host.root / "sys/module/nvidia_fs").mkdir()
    assert set(host.refresh().classes) == {"gds", "mofed", "gdrcopy"}
    assert host.refresh(gds=False, mofed=False).classes == ("gdrcopy",)
    assert host.refresh().absent == (), "and nothing that was not asked for is missed"


def test_a_spec_that_cannot_be_written_is_told(host: Node) -> None:
    host.with_everything()
    (host.folder / f"{VENDOR}-gds.json").mkdir()

    assert host.refresh(gds=True).error.startswith(f"cannot write /var/run/cdi/{VENDOR}-gds.json: ")


EVERYTHING = Beside(("gds", "mofed"), (f"{VENDOR}/imex-channel=0", f"{VENDOR}/gds=all"), (0,))


def answer(*strategies: str, beside: Beside = EVERYTHING, **more: Any) -> Any:
    return allocate(["GPU-a"], "nvidia.com/gpu", TARGETS, Rules(strategies, beside=beside, **more))


def test_by_cdi_a_container_is_told_all_names_and_the_words_that_programs_look_for():
    given = answer(*CDI)

    assert given.cdi_devices == (f"{VENDOR}/gpu=GPU-a", *EVERYTHING.cdi)
    assert list(given.annotations.values()) == [",".join(given.cdi_devices)]
    assert given.envs == {"NVIDIA_GDS": "enabled", "NVIDIA_MOFED": "enabled"}


def test_by_environment_and_by_volume_mounts_channels_come_in_their_way():
    assert answer("envvar").envs["NVIDIA_IMEX_CHANNELS"] == "0"
    assert answer("envvar").envs["NVIDIA_GDS"] == "enabled"
    mounted = [mount.container_path for mount in answer("volume-mounts").mounts]
    assert mounted[-1] == "/var/run/nvidia-container-devices/imex/0"
    passed = answer("envvar", device_specs={}).devices
    assert passed[-1].container_path == "/dev/nvidia-caps-imex-channels/channel0"


def test_every_resource_that_is_offered_brings_them(host: Node) -> None:
    resource = resources_of([Card("GPU-a", 0, 0, "L4", 1)], {}, Effective(strategies=CDI))[0]

    offers = offers_of([resource], Effective(strategies=CDI), Topology([], []), {}, beside=EVERYTHING)

    assert offers[resource.name].allocate(["GPU-a"]).cdi_devices[1:] == EVERYTHING.cdi


def test_what_the_policy_wants_reaches_the_daemon():
    """GDS brings RDMA devices, as the original has it."""
    plain = settings_of(parse_policy(policy()))
    asked = settings_of(parse_policy(policy(gds={"enabled": True}, gdrcopy={"enabled": True})))

    assert (plain.gds, plain.mofed, plain.gdrcopy) == (None, None, None)
    assert (asked.gds, asked.mofed, asked.gdrcopy) == (True, True, True)


def test_a_channel_that_is_required_and_not_there_starts_no_container(host: Node) -> None:
    found = host.refresh(imex_channels=(0,), imex_required=True)

    with pytest.raises(AllocationError, match="IMEX channel 0 is required") as refused:
        answer(*CDI, beside=found)
    assert "NVreg_CreateImexChannel0" in refused.value.next_step
    assert answer(*CDI, beside=host.refresh(imex_channels=(0,))).cdi_devices == (f"{VENDOR}/gpu=GPU-a",)


def test_environment_and_configuration_ask_for_them_by_the_originals_names():
    config = {
        "flags": {"gdsEnabled": True, "mofedEnabled": False},
        "imex": {"channelIDs": [0], "required": True},
    }

    said = effective_of(Settings.from_env({"GDRCOPY_ENABLED": "true"}), config)

    assert (said.gds, said.mofed, said.gdrcopy) == (True, False, True)
    assert (said.imex_channels, said.imex_required) == ((0,), True)
    assert effective_of(Settings.from_env({"IMEX_CHANNEL_IDS": "0"}), {}).imex_channels == (0,)
    with pytest.raises(PolicyError, match=r"imex\.channelIDs"):
        effective_of(Settings(), {"imex": {"channelIDs": [7]}})


def test_what_was_asked_for_and_is_not_there_is_in_the_links_verdict():
    record = PluginRecord(
        True,
        (Offered("nvidia.com/gpu", 1, 1),),
        (Health("GPU-a", 0, True),),
        absent=("gds (/dev/nvidia-fs*)",),
    )
    whole = Verdict(Link.DRIVER, State.OK, "DriverReady", "")

    found = judge(
        PluginFacts(
            driver=whole,
            desired=Desired(),
            record=record,
            deploy_label="true",
            allocatable={"nvidia.com/gpu": 1},
        )
    )

    assert (found.state, found.reason) == (State.DEGRADED, "DeviceClassAbsent")
    assert "containers start without gds (/dev/nvidia-fs*)" in found.message
    assert found.next_step.startswith("load the kernel module")
