"""python -m tests.e2e.serve DIRECTORY: a control plane and a node without GPUs, until standard input ends."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from gpuready_sim.cluster.places import Place
from gpuready_sim.hardware import machine
from gpuready_sim.kubernetes.control_plane import KubernetesControlPlane
from gpuready_sim.kubernetes.node.node import RealNode


async def main(directory: Path) -> None:
    place = Place(directory / "cluster")
    place.clean()
    control_plane = KubernetesControlPlane(place, node_grace_s=40)
    node = RealNode(directory / "node", control_plane, machine.MachineSpec("node-1"))
    try:
        await control_plane.start()
        await node.start()
        sys.stdout.write(f"{node.address}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)
    finally:
        await node.stop()
        await control_plane.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
