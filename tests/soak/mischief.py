"""What befalls a cluster in a soak: one function each, told where by the `chance` that it is given."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from random import Random

from tests.conformance.test_api_faults import OF_CALLS, OF_WATCHES
from tests.sim.fault_cluster import KINDS
from tests.sim.node_cluster import CDI_FILE, GATES
from tests.sim.operator_cluster import DEPLOY, GPU_NODES, NAMESPACE, processes

from gpuready_sim.client import DAEMON_SETS, NODES, PODS, ApiStatus
from gpuready_sim.control import Refused

from .scene import ROLES, Scene

Mischief = Callable[[Scene, Random], Awaitable[str]]  # returns what it did, for the story
PROGRAM_XIDS = (13, 31, 43, 94)
RESET_XIDS = (48, 109)
TOO_SLOW = ("huge",)
PLUGIN_SOCKET = "var/lib/kubelet/device-plugins/nvidia-gpu.sock"


async def kill_the_operator(scene: Scene, chance: Random) -> str:
    away_s = chance.choice((0.0, 0.0, chance.uniform(0, 3)))
    async with scene.one_at_a_time:
        await scene.operator.kill()
        await asyncio.sleep(away_s)
        await scene.operator.start()
    return f"operator killed, back after {away_s:.1f} s"


async def kill_a_daemon(scene: Scene, chance: Random) -> str:
    node, role = chance.choice(scene.nodes), chance.choice(ROLES)
    return f"{role} on {node} killed: {_kill(processes(scene.cluster, node, role))}"


async def kill_all_daemons_of_a_node(scene: Scene, chance: Random) -> str:
    node = chance.choice(scene.nodes)
    pids = [pid for role in ROLES for pid in processes(scene.cluster, node, role)]
    return f"all daemons on {node} killed: {_kill(pids)}"


def _kill(pids: list[int]) -> list[int]:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


async def spoil_api_calls(scene: Scene, chance: Random) -> str:
    client, verb, resource = chance.choice(KINDS)
    faults = OF_WATCHES if verb == "watch" else OF_CALLS
    name = chance.choice([name for name in faults if name not in TOO_SLOW])
    times = chance.choice((1, 1, 2, 3))
    scene.proxy.add(faults[name], client=client, verb=verb, resource=resource, times=times)
    return f"{name}, {times} times, for {client} {verb} {resource}"


async def lose_the_way_to_the_api_server(scene: Scene, chance: Random) -> str:
    away_s = chance.uniform(0.2, 3)
    async with scene.one_at_a_time:
        await scene.proxy.restart(away_s)
    return f"no way to the API server for {away_s:.1f} s"


async def stop_the_api_server(scene: Scene, chance: Random) -> str:
    away_s = chance.uniform(0.5, 3)
    await scene.cluster.fault("api-stop", seconds=away_s)
    return f"API server away for {away_s:.1f} s"


async def restart_a_kubelet(scene: Scene, chance: Random) -> str:
    node = chance.choice(scene.nodes)
    await scene.cluster.fault("kubelet-restart", node=node)
    return f"kubelet of {node} restarted"


async def reboot_a_node(scene: Scene, chance: Random) -> str:
    node = chance.choice(scene.nodes)
    await scene.cluster.reboot(node)
    return f"{node} rebooted"


async def raise_the_xid_of_a_program(scene: Scene, chance: Random) -> str:
    node, code = chance.choice(scene.nodes), chance.choice(PROGRAM_XIDS)
    return await _raise(scene, f"{node}/{chance.randrange(2)}", code)


async def raise_an_xid_and_reset(scene: Scene, chance: Random) -> str:
    target = f"{chance.choice(scene.nodes)}/{chance.randrange(2)}"
    said = await _raise(scene, target, chance.choice(RESET_XIDS))
    await asyncio.sleep(chance.uniform(0, 2))
    with contextlib.suppress(Refused):
        await scene.cluster.fault("reset", target=target)
    return f"{said}, then reset"


async def _raise(scene: Scene, target: str, code: int) -> str:
    try:
        await scene.cluster.fault("xid", target=target, code=code)
    except Refused as exc:  # no driver is loaded there yet
        return f"no XID on {target}: {exc}"
    return f"XID {code} on {target}"


async def remove_a_file(scene: Scene, chance: Random) -> str:
    gates = [f"{GATES}/{name}" for name in ("driver-ready", "plugin-ready", "toolkit-ready", "cuda-ready")]
    node, path = chance.choice(scene.nodes), chance.choice([PLUGIN_SOCKET, CDI_FILE, *gates])
    (scene.cluster.node_root(node) / path).unlink(missing_ok=True)
    return f"/{path} of {node} removed"


async def remove_labels(scene: Scene, chance: Random) -> str:
    node = chance.choice(scene.nodes)
    keys = (f"{DEPLOY}device-plugin", "nvidia.com/gpu.present", "nvidia.com/gpu.product")
    gone = {"metadata": {"labels": dict.fromkeys(keys)}}
    return await _do(f"labels of {node} removed", scene.cluster.client.merge_patch(NODES, node, gone))


async def delete_a_gpu_node(scene: Scene, chance: Random) -> str:
    node = chance.choice(scene.nodes)
    return await _do(f"GPUNode {node} deleted", scene.cluster.client.delete(GPU_NODES, node))


async def delete_a_daemon_set(scene: Scene, chance: Random) -> str:
    sets, _ = await scene.cluster.client.list(DAEMON_SETS, NAMESPACE)
    names = sorted(each["metadata"]["name"] for each in sets if "driver" not in each["metadata"]["name"])
    if not names:
        return "no DaemonSet to delete"
    name = chance.choice(names)
    return await _do(f"DaemonSet {name} deleted", scene.cluster.client.delete(DAEMON_SETS, name, NAMESPACE))


async def delete_pods(scene: Scene, chance: Random) -> str:
    role = chance.choice(("node-agent", "device-plugin", "toolkit", "dcgm-exporter"))
    pods, _ = await scene.cluster.client.list(PODS, NAMESPACE, label_selector=f"gpuready.dev/operand={role}")
    for pod in pods:
        await _do("", scene.cluster.client.delete(PODS, pod["metadata"]["name"], NAMESPACE))
    return f"{len(pods)} pods of {role} deleted"


async def _do(said: str, call: Awaitable[object]) -> str:
    try:
        await call
    except (ApiStatus, OSError) as exc:
        return f"not {said}: {exc}"
    return said


OFTEN: tuple[Mischief, ...] = (
    kill_the_operator,
    kill_a_daemon,
    kill_all_daemons_of_a_node,
    spoil_api_calls,
)
SELDOM: tuple[Mischief, ...] = (
    lose_the_way_to_the_api_server,
    stop_the_api_server,
    restart_a_kubelet,
    reboot_a_node,
    raise_the_xid_of_a_program,
    raise_an_xid_and_reset,
    remove_a_file,
    remove_labels,
    delete_a_gpu_node,
    delete_a_daemon_set,
    delete_pods,
)


def drawn(chance: Random) -> Mischief:
    return chance.choice(chance.choice((OFTEN, OFTEN, SELDOM)))
