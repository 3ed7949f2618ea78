"""python -m tests.conformance.serve embedded|kubernetes DIRECTORY: one API server with garbage collection.

Prints "ready" when DIRECTORY/kubeconfig can be used; ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from gpuready_sim.client import SimClient
from gpuready_sim.cluster.control_plane import EmbeddedControlPlane
from gpuready_sim.cluster.places import Place
from gpuready_sim.controllers.garbage.graph import Graph
from gpuready_sim.controllers.garbage.loop import GarbageCollector
from gpuready_sim.kubernetes.control_plane import KubernetesControlPlane

# What belongs to the API's own behaviour; nobody who would change a test's Deployment or pod.
CONTROLLERS = (
    "clusterrole-aggregation-controller,garbage-collector-controller,namespace-controller,"
    "root-ca-certificate-publisher-controller,serviceaccount-controller"
)


async def main(kind: str, directory: Path) -> None:
    place = Place(directory)
    place.clean()
    if kind == "kubernetes":
        await _serve(KubernetesControlPlane(place, node_grace_s=40, controllers=CONTROLLERS))
    else:
        await _serve(EmbeddedControlPlane(place))


async def _serve(control_plane: EmbeddedControlPlane | KubernetesControlPlane) -> None:
    try:
        await control_plane.start()
        async with SimClient(control_plane.access) as client:
            collector = GarbageCollector(client, Graph())
            task = None if control_plane.has_controllers else asyncio.create_task(collector.run())
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            await asyncio.to_thread(sys.stdin.read)
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
    finally:
        await control_plane.stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
