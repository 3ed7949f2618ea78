"""The operator: wiring only. Caches feed three loops; each loop reconciles one kind of key."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Iterable, Mapping
from typing import Any

from gpuready import names
from gpuready.controller import http
from gpuready.controller.caches import Caches
from gpuready.controller.current import CurrentPolicy
from gpuready.controller.election import Leadership, identity
from gpuready.controller.labelling.loop import LabellingLoop
from gpuready.controller.loop import Loop
from gpuready.controller.metrics import CONTENT_TYPE, Metrics
from gpuready.controller.nodes.loop import SILENCE_S, NodesLoop
from gpuready.controller.nodes.uninstall import PATIENCE_S, Uninstaller
from gpuready.controller.policy.loop import PolicyLoop
from gpuready.controller.schemas import ServedSchemas
from gpuready.errors import UsageError
from gpuready.kube.cache import WatchCache
from gpuready.kube.client import KubeClient
from gpuready.kube.events import EventRecorder
from gpuready.kube.fence import Fence
from gpuready.kube.lease import Timing
from gpuready.log import get_logger
from gpuready.loop_errors import LoopErrors

PATIENCE_ENV = "GPUREADY_UNINSTALL_PATIENCE_S"
SILENCE_ENV = "GPUREADY_SILENCE_S"
SECRETS_ENV = "GPUREADY_CHECK_SECRETS"
USER_AGENT = f"gpuready-operator/{names.VERSION}"
Listeners = tuple[socket.socket | None, socket.socket | None]  # for metrics, for health
log = get_logger("operator")


def main(env: Mapping[str, str], kubeconfig: str | None = None, election: Timing | None = None) -> int:
    """Run until SIGTERM or SIGINT. 0 after a clean stop. Without `election` it leads without asking."""
    return asyncio.run(_run(env, kubeconfig, election))


async def _run(env: Mapping[str, str], kubeconfig: str | None, election: Timing | None) -> int:
    asyncio.get_running_loop().set_exception_handler(LoopErrors(log, tracebacks=True))
    namespace = env.get("OPERATOR_NAMESPACE", "")
    if not namespace:
        raise UsageError(
            "OPERATOR_NAMESPACE is not set",
            why="the operator must know the namespace that holds its operands",
            next_step=f"set it, usually to {names.OPERATOR_NAMESPACE}",
        )
    listeners = _listeners(env)
    client = KubeClient.auto(kubeconfig, user_agent=USER_AGENT)
    stopped = _stop_event()
    work = asyncio.create_task(_operate(client, namespace, env, listeners, election))
    waiter = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({work, waiter}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()  # a loop that ends is a mistake: let it be seen
    finally:
        for task in (work, waiter):
            task.cancel()
        await asyncio.gather(work, waiter, return_exceptions=True)
        await client.close()
    log.info("operator stopped")
    return 0


async def _operate(
    own: KubeClient,
    namespace: str,
    env: Mapping[str, str],
    listeners: Listeners,
    election: Timing | None,
) -> None:
    """`own` is for what must be said whoever leads: the Lease, and Events about it."""
    fence = Fence()
    client = own if election is None else KubeClient(own.access, user_agent=USER_AGENT, fence=fence)
    image = env.get("GPUREADY_IMAGE") or f"{names.OWN_IMAGE}:{names.VERSION}"
    caches = Caches.of(client, namespace, asks_for_secrets=env.get(SECRETS_ENV) != "false")
    schemas = ServedSchemas(client)
    current = CurrentPolicy(caches.policies, schemas)
    labelling = LabellingLoop(client, caches, current)
    events = EventRecorder(client, "gpuready-operator")
    uninstaller = Uninstaller(client, caches, events, patience_s=_number(env, PATIENCE_ENV, PATIENCE_S))
    silence_s = _number(env, SILENCE_ENV, SILENCE_S)
    nodes = NodesLoop(client, caches, current, uninstaller, silence_s=silence_s, labels=labelling.round)
    others = (labelling, nodes)
    policy = PolicyLoop(client, caches, current, nodes, events, image, env, others=others)
    loops = (labelling, nodes, policy)
    metrics = Metrics(client, caches, current, policy, loops)
    own.observer = client.observer
    leadership = (
        Leadership(own, client, fence, namespace, election, current, identity(env)) if election else None
    )
    async with client, asyncio.TaskGroup() as group:
        group.create_task(_serve(listeners, caches, metrics, leadership))
        group.create_task(caches.run())
        group.create_task(schemas.run())
        # Decisions on half-known caches would take labels away, so the loops start when all is listed; and
        # who cannot see must not keep the Lease from who can. But what the server keeps from every replica
        # must not keep us from the rest: who needs it, waits for it.
        await caches.wait_answered()
        await schemas.wait_known()
        # What is there now stays: modules and caches. A collection in a round of thousands need not visit it.
        gc.collect()
        gc.freeze()
        log.info("operator started", namespace=namespace, nodes=len(caches.nodes), image=image)
        for cache in caches.all:
            if not cache.synced:
                group.create_task(_look_again_when_listed(cache, loops))
        if leadership is None:
            await _lead(loops, metrics)
        else:
            metrics.leader = False
            await leadership.run(lambda: _lead(loops, metrics))


async def _look_again_when_listed(cache: WatchCache[Any], loops: Iterable[Loop]) -> None:
    await cache.wait_synced()
    for loop in loops:
        loop.look_again()


async def _lead(loops: Iterable[Loop], metrics: Metrics) -> None:
    """All loops, until cancelled."""
    metrics.leader = True
    try:
        async with asyncio.TaskGroup() as term:
            for loop in loops:
                term.create_task(loop.run())
    finally:
        metrics.leader = False


def _listeners(env: Mapping[str, str]) -> Listeners:
    host = env.get("GPUREADY_BIND_ADDRESS", "0.0.0.0")
    metrics_port = int(_number(env, "GPUREADY_METRICS_PORT", names.OPERATOR_METRICS_PORT))
    health_port = int(_number(env, "GPUREADY_HEALTH_PORT", names.OPERATOR_HEALTH_PORT))
    return http.listen(host, metrics_port), http.listen(host, health_port)


async def _serve(
    listeners: Listeners, caches: Caches, metrics: Metrics, leadership: Leadership | None
) -> None:
    def health() -> http.Answer:
        return 200, http.TEXT, b"ok\n"

    def ready() -> http.Answer:
        waiting = [cache for cache in caches.needed if not cache.synced]
        if waiting:
            listed = ", ".join(cache.resource.plural for cache in waiting)
            why = [f"{cache.trouble}\n" for cache in waiting if cache.trouble]
            return 503, http.TEXT, "".join([f"waiting for the first list of {listed}\n", *why]).encode()
        is_ready, text = leadership.readiness() if leadership else (True, "ok")
        return 200 if is_ready else 503, http.TEXT, f"{text}\n".encode()

    def exposition() -> http.Answer:
        return 200, CONTENT_TYPE, metrics.exposition()

    for_metrics, for_checks = listeners
    page = http.kept_for(_PAGE_KEPT_S, exposition)
    checks = http.Application({"/healthz": health, "/readyz": ready})
    async with asyncio.TaskGroup() as group:
        group.create_task(http.serve(http.Application({"/metrics": page}), for_metrics))
        group.create_task(http.serve(checks, for_checks))


_PAGE_KEPT_S = 0.5  # whoever asks more often than that is shown the same page


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(env.get(name) or default)
    except ValueError as exc:
        raise UsageError(
            f"{name}={env[name]} is no number", next_step=f"leave it out for {default:g}"
        ) from exc


def _stop_event() -> asyncio.Event:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    return stopped
