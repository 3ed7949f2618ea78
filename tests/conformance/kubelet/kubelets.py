"""A simulated node beside the embedded API server, and a real node of a real control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest

from gpuready_sim.client import SimClient
from gpuready_sim.cluster.control_plane import EmbeddedControlPlane
from gpuready_sim.cluster.places import Place, claim_addresses
from gpuready_sim.cluster.processes import ensure_native
from gpuready_sim.hardware import machine
from gpuready_sim.kubelet.identity import NodeIdentity, Timing
from gpuready_sim.kubelet.kubelet import Kubelet
from gpuready_sim.kubernetes.control_plane import KubernetesControlPlane
from gpuready_sim.kubernetes.node import images
from gpuready_sim.kubernetes.node.node import RealNode
from gpuready_sim.kubernetes.node.requirements import MissingRequirement

KUBELETS = ("simulated", "real")
NAME = "node-1"
# The controllers that a pod needs before a kubelet sees it, and the one that takes its objects away.
_CONTROLLERS = "garbage-collector-controller,namespace-controller,serviceaccount-controller"


class RunningKubelet(Protocol):
    """kind        one of KUBELETS
    client      an administrator of its API server
    image       one with sleep, printenv, true and false
    """

    kind: str
    client: SimClient
    image: str

    @property
    def plugin_dir(self) -> Path: ...
    @property
    def pod_resources_dir(self) -> Path: ...
    def host(self, path: str) -> Path:
        """A path of the node, as it can be opened from here."""

    async def restart(self) -> None:
        """The kubelet's process ends and starts again; returns when its sockets are served."""


@asynccontextmanager
async def running(kind: str, directory: Path) -> AsyncIterator[RunningKubelet]:
    ensure_native()
    place = Place(directory / "cluster")
    place.clean()
    start = _simulated if kind == "simulated" else _real
    async with start(place, directory / "node") as kubelet:
        yield kubelet


class Simulated:
    kind = "simulated"
    image = "busybox"

    def __init__(self, kubelet: Kubelet, directory: Path, client: SimClient) -> None:
        self._kubelet = kubelet
        self._root = directory / "root"
        self.client = client

    @property
    def plugin_dir(self) -> Path:
        return self._root / "var/lib/kubelet/device-plugins"

    @property
    def pod_resources_dir(self) -> Path:
        return self._root / "var/lib/kubelet/pod-resources"

    def host(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    async def restart(self) -> None:
        await self._kubelet.restart()


@asynccontextmanager
async def _simulated(place: Place, directory: Path) -> AsyncIterator[RunningKubelet]:
    control_plane = EmbeddedControlPlane(place)
    await control_plane.start()
    claim = claim_addresses("conformance")
    try:
        async with SimClient(control_plane.access) as client:
            machine.build_node_root(directory, machine.MachineSpec(NAME))
            identity = NodeIdentity(name=NAME, address=claim.address(0))
            timing = Timing(status_interval_s=1, backoff_base_s=0.2)
            kubelet = Kubelet(identity, node_dir=directory, client=client, timing=timing)
            await kubelet.start()
            try:
                yield Simulated(kubelet, directory, client)
            finally:
                await kubelet.stop()
    finally:
        claim.close()
        await control_plane.stop()


class Real:
    kind = "real"
    image = images.BUSYBOX_IMAGE

    def __init__(self, node: RealNode, client: SimClient) -> None:
        self._node = node
        self.client = client

    @property
    def plugin_dir(self) -> Path:
        return self._node.plugin_dir

    @property
    def pod_resources_dir(self) -> Path:
        return self._node.pod_resources_dir

    def host(self, path: str) -> Path:
        return self._node.path(path)

    async def restart(self) -> None:
        await self._node.restart_kubelet()


@asynccontextmanager
async def _real(place: Place, directory: Path) -> AsyncIterator[RunningKubelet]:
    try:
        control_plane = KubernetesControlPlane(place, node_grace_s=40, controllers=_CONTROLLERS)
        node = RealNode(directory, control_plane, machine.MachineSpec(NAME))
    except MissingRequirement as exc:
        pytest.skip(str(exc))
    try:
        await control_plane.start()
        await node.start()
        async with SimClient(control_plane.access) as client:
            yield Real(node, client)
    finally:
        await node.stop()
        await control_plane.stop()
