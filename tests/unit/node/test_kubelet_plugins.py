"""Serving device plugins to a kubelet that restarts, forgets us and refuses."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from grpclib.client import Channel
from grpclib.exceptions import GRPCError
from grpclib.server import Stream

from gpuready.errors import AllocationError
from gpuready.node.kubelet.model import ContainerAnswer, Device, Offer
from gpuready.node.kubelet.plugin_server import PluginServer
from gpuready.node.kubelet.plugins import Plugins, socket_name_of
from gpuready.node.kubelet.sockets import Directory, identity_of
from gpuready.protos.deviceplugin.v1beta1 import api_grpc, api_pb2
from gpuready_sim.kubelet.device_manager import DeviceManager

RESOURCE = "nvidia.com/gpu"
DEADLINE_S = 30.0


def offer(*ids: str, healthy: bool = True) -> Offer:
    def allocate(asked: Sequence[str]) -> ContainerAnswer:
        if "bad" in asked:
            raise AllocationError("größer", why="tests")
        return ContainerAnswer(envs={"ASKED": ",".join(asked)}, cdi_devices=("a/b=c",))

    return Offer(
        tuple(Device(i, healthy, 1) for i in ids), allocate, lambda free, must, size: sorted(free)[:size]
    )


class Node:
    """A kubelet's device manager and our plugins, in one process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.changed = asyncio.Event()
        self.kubelet = DeviceManager(folder, on_change=self.changed.set)
        self.plugins = Plugins(folder / "kubelet.sock", self.changed.set)
        self.task = asyncio.create_task(self.plugins.run())

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self.changed.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.changed.wait(), 0.05)

    async def until_allocatable(self, count: int) -> None:
        await self.until(lambda: self.kubelet.allocatable().get(RESOURCE) == count)

    async def end(self) -> None:
        self.task.cancel()
        await self.plugins.close()
        await self.kubelet.stop()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    node = Node(folder)
    await node.kubelet.start()
    yield node
    await node.end()


async def test_an_offer_reaches_the_kubelet(node: Node) -> None:
    node.plugins.set({RESOURCE: offer("a", "b")})
    await node.until_allocatable(2)

    assert node.kubelet.numa_of(RESOURCE, "a") == (1,)
    await node.until(lambda: node.plugins.status(RESOURCE).registered)


async def test_a_changed_list_is_pushed_without_registering_again(node: Node) -> None:
    node.plugins.set({RESOURCE: offer("a", "b")})
    await node.until_allocatable(2)
    node.plugins.set({RESOURCE: offer("a", "b", healthy=False)})
    await node.until_allocatable(0)
    node.plugins.set({RESOURCE: offer("a::0", "a::1", "b::0", "b::1")})
    await node.until_allocatable(4)

    assert node.kubelet.registrations == {RESOURCE: 1}


async def test_only_the_resource_that_changes_is_touched(node: Node) -> None:
    node.plugins.set({RESOURCE: offer("a"), "nvidia.com/gpu.shared": offer("b::0", "b::1")})
    await node.until(lambda: node.kubelet.allocatable() == {RESOURCE: 1, "nvidia.com/gpu.shared": 2})
    node.plugins.set({RESOURCE: offer("a")})
    await node.until(lambda: node.kubelet.allocatable()["nvidia.com/gpu.shared"] == 0)

    assert node.kubelet.registrations[RESOURCE] == 1
    assert not (node.folder / "nvidia-gpu.shared.sock").exists()


async def test_a_kubelet_restart_is_survived(node: Node) -> None:
    node.plugins.set({RESOURCE: offer("a")})
    await node.until_allocatable(1)
    for _ in range(3):
        await node.kubelet.stop()
        node.kubelet = DeviceManager(node.folder, on_change=node.changed.set)
        await node.kubelet.start()
        await node.until_allocatable(1)


async def test_a_kubelet_that_comes_back_late_is_followed_at_once(node: Node) -> None:
    """Its old socket's file stays while it is away: neither that nor the sweep at its start may cost time."""
    node.plugins.set({RESOURCE: offer("a")})
    await node.until_allocatable(1)
    await node.kubelet.stop()
    await node.until(lambda: not node.plugins.status(RESOURCE).registered)
    node.kubelet = DeviceManager(node.folder, on_change=node.changed.set)
    await node.kubelet.start()
    async with asyncio.timeout(30):
        await node.until_allocatable(1)
    assert node.kubelet.registrations == {RESOURCE: 1}


async def test_the_kubelets_sweep_during_a_registration_is_survived(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watchdog registers with a socket nobody listens on; then the kubelet starts."""
    monkeypatch.setattr("gpuready.node.kubelet.plugins.WATCHDOG_S", 0.05)
    node.plugins.set({RESOURCE: offer("a")})
    await node.until_allocatable(1)
    before = identity_of(node.folder / "nvidia-gpu.sock")
    await node.kubelet.stop()
    # A new socket: the watchdog has begun to try the dead kubelet.
    await node.until(lambda: identity_of(node.folder / "nvidia-gpu.sock") not in (before, None))
    node.kubelet = DeviceManager(node.folder, on_change=node.changed.set)
    await node.kubelet.start()
    async with asyncio.timeout(30):
        await node.until_allocatable(1)


async def test_a_socket_removed_by_hand_is_made_again(node: Node) -> None:
    node.plugins.set({RESOURCE: offer("a")})
    await node.until_allocatable(1)
    (node.folder / "nvidia-gpu.sock").unlink()
    await node.until(lambda: node.kubelet.registrations[RESOURCE] == 2)
    await node.until_allocatable(1)

    assert (node.folder / "nvidia-gpu.sock").is_socket()


async def test_the_kubelet_may_come_later(tmp_path: Path) -> None:
    node = Node(tmp_path / "not/yet")
    node.plugins.set({RESOURCE: offer("a")})
    await asyncio.sleep(0)
    await node.kubelet.start()
    await node.until_allocatable(1)
    await node.end()


async def test_closing_tells_the_kubelet_and_removes_the_socket(node: Node) -> None:
    node.plugins.set({RESOURCE: offer("a")})
    await node.until_allocatable(1)
    node.task.cancel()
    async with asyncio.timeout(30):
        await node.plugins.close()
    await node.until_allocatable(0)

    assert node.kubelet.capacity() == {RESOURCE: 1}
    assert not (node.folder / "nvidia-gpu.sock").exists()


async def test_a_lost_stream_is_noticed_and_registered_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet that takes the registration and never follows the list, as after the race of two streams."""
    monkeypatch.setattr("gpuready.node.kubelet.plugins.WATCHDOG_S", 0.2)
    seen: list[str] = []
    twice = asyncio.Event()

    class DeafKubelet(api_grpc.RegistrationBase):
        async def Register(self, stream: Stream[api_pb2.RegisterRequest, api_pb2.Empty]) -> None:
            request = await stream.recv_message()
            assert request is not None
            seen.append(request.endpoint)
            if len(seen) > 1:
                twice.set()
            await stream.send_message(api_pb2.Empty())

    from grpclib.server import Server

    server = Server([DeafKubelet()])
    with Directory(tmp_path) as directory:
        await server.start(sock=directory.listen("kubelet.sock"))
    plugins = Plugins(tmp_path / "kubelet.sock")
    plugins.set({RESOURCE: offer("a")})
    task = asyncio.create_task(plugins.run())
    async with asyncio.timeout(DEADLINE_S):
        await twice.wait()
    assert not plugins.status(RESOURCE).registered
    task.cancel()
    await plugins.close()
    server.close()


async def test_a_refusal_carries_its_text_to_the_pod(tmp_path: Path) -> None:
    server = PluginServer(tmp_path / "x.sock", offer("a"))
    await server.start()
    with Directory(tmp_path) as directory:
        channel = Channel(path=directory.short("x.sock"))
        stub = api_grpc.DevicePluginStub(channel)
        request = api_pb2.AllocateRequest(
            container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=["bad"])]
        )
        with pytest.raises(Exception, match="größer; because tests"):
            await stub.Allocate(request)
        answer = await stub.GetDevicePluginOptions(api_pb2.Empty())
        channel.close()
    assert answer.get_preferred_allocation_available
    assert (tmp_path / "x.sock").stat().st_mode & 0o777 == 0o700
    await server.close()


async def test_a_client_that_stays_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuready.node.kubelet.plugin_server._HANG_UP_S", 0.1)
    server = PluginServer(tmp_path / "x.sock", offer("a"))
    await server.start()
    with Directory(tmp_path) as directory:
        channel = Channel(path=directory.short("x.sock"))
        await api_grpc.DevicePluginStub(channel).GetDevicePluginOptions(api_pb2.Empty())
        async with asyncio.timeout(30):
            await server.close()
        channel.close()


async def test_a_blocked_socket_path_costs_nothing_and_says_why(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = node.folder / "nvidia-gpu.sock"
    (blocked / "full").mkdir(parents=True)
    open_before, turns = len(os.listdir("/proc/self/fd")), 0

    def daemon_turn() -> None:
        nonlocal turns
        turns += 1
        node.plugins.set({RESOURCE: offer("a")})

    node.plugins.on_change = daemon_turn
    node.plugins.set({RESOURCE: offer("a")})
    await node.until(lambda: node.plugins.status(RESOURCE).problem != "")
    await asyncio.sleep(1.3)

    assert node.plugins.status(RESOURCE).problem == f"{blocked} is a directory; next: remove it"
    assert turns < 8
    assert len(os.listdir("/proc/self/fd")) <= open_before
    assert caplog.text.count("plugin not served") == 1

    (blocked / "full").rmdir()
    blocked.rmdir()
    async with asyncio.timeout(0.5):
        await node.until_allocatable(1)
    assert node.plugins.status(RESOURCE).problem == ""


async def test_the_pauses_between_tries_double_up_to_the_longest(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuready.node.kubelet.plugins.FIRST_RETRY_S", 0.05)
    monkeypatch.setattr("gpuready.node.kubelet.plugins.LONGEST_RETRY_S", 0.2)
    tries: list[float] = []

    def refuse(self: Directory, name: str) -> None:
        tries.append(asyncio.get_running_loop().time())
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Directory, "listen", refuse)
    node.plugins.set({RESOURCE: offer("a")})
    await node.until(lambda: len(tries) == 5)

    pauses = [later - earlier for earlier, later in pairwise(tries)]
    for pause, wanted in zip(pauses, (0.05, 0.1, 0.2, 0.2), strict=True):
        assert wanted <= pause < wanted + 0.1
    assert node.plugins.status(RESOURCE).problem.endswith("nvidia-gpu.sock: No space left on device")


async def test_a_server_that_cannot_listen_leaves_neither_file_nor_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = PluginServer(tmp_path / "x.sock", offer("a"))

    async def fail(**_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(server._server, "start", fail)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(OSError, match="Too many open files"):
            await server.start()

    assert len(os.listdir("/proc/self/fd")) == before
    assert not (tmp_path / "x.sock").exists()
    await server.close()


async def test_one_resource_that_is_blocked_does_not_hold_up_another(node: Node) -> None:
    (node.folder / "nvidia-gpu.sock" / "full").mkdir(parents=True)
    node.plugins.set({RESOURCE: offer("a"), "nvidia.com/gpu.shared": offer("b")})
    await node.until(lambda: node.kubelet.allocatable() == {"nvidia.com/gpu.shared": 1})
    node.plugins.set({"nvidia.com/gpu.shared": offer("b")})
    await node.until(lambda: node.plugins.status(RESOURCE).problem == "")


@pytest.mark.parametrize(
    ("text", "says"),
    [("x" * 3_000_000, "xxx…"), ("😀" * 500_000, "😀…")],
    ids=["ascii", "percent-encoded"],
)
async def test_a_refusal_that_quotes_megabytes_is_cut_and_the_next_call_is_answered(
    tmp_path: Path, text: str, says: str
) -> None:
    """The text goes as a header: one too large ends the connection for every call on it."""

    def allocate(asked: Sequence[str]) -> ContainerAnswer:
        if len(asked[0]) > 1:
            raise AllocationError(f"unknown device {asked[0]}")
        return ContainerAnswer()

    server = PluginServer(tmp_path / "x.sock", Offer(offer("a").devices, allocate))
    await server.start()
    with Directory(tmp_path) as directory:
        channel = Channel(path=directory.short("x.sock"))
        stub = api_grpc.DevicePluginStub(channel)
        for _ in range(3):
            with pytest.raises(GRPCError) as refused:
                await stub.Allocate(_request(text), timeout=DEADLINE_S)
            assert (refused.value.message or "").endswith(says)
            assert len(refused.value.message or "") <= 1000
            await stub.Allocate(_request("a"), timeout=DEADLINE_S)
        channel.close()
    await server.close()


async def test_a_call_that_fails_inside_does_not_block_the_next(tmp_path: Path) -> None:
    def allocate(asked: Sequence[str]) -> ContainerAnswer:
        if asked[0] != "a":
            raise ValueError(asked[0])
        return ContainerAnswer()

    server = PluginServer(tmp_path / "x.sock", Offer(offer("a").devices, allocate))
    await server.start()
    with Directory(tmp_path) as directory:
        channel = Channel(path=directory.short("x.sock"))
        stub = api_grpc.DevicePluginStub(channel)
        with pytest.raises(GRPCError, match="Internal Server Error"):
            await stub.Allocate(_request("x" * 3_000_000), timeout=DEADLINE_S)
        await stub.Allocate(_request("a"), timeout=DEADLINE_S)
        channel.close()
    await server.close()


def _request(device_id: str) -> api_pb2.AllocateRequest:
    return api_pb2.AllocateRequest(
        container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=[device_id])]
    )


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        ("nvidia.com/gpu", "nvidia-gpu.sock"),
        ("nvidia.com/gpu.shared", "nvidia-gpu.shared.sock"),
        ("nvidia.com/mig-1g.5gb", "nvidia-mig-1g.5gb.sock"),
    ],
)
def test_socket_names_are_the_original_ones(resource: str, name: str) -> None:
    assert socket_name_of(resource) == name
