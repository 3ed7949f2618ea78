"""Startup, readiness and liveness probes of one running container."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuready_sim.lean_http import aiohttp
from gpuready_sim.runtime.container import Container

USER_AGENT = "kube-probe/1.36"


@dataclass(frozen=True)
class Outcome:
    ok: bool
    text: str = ""


@dataclass(frozen=True)
class Rules:
    """How often to ask and how many answers in a row count."""

    delay_s: float
    period_s: float
    timeout_s: float
    successes: int
    failures: int

    @classmethod
    def of(cls, probe: Mapping[str, Any], scale: float) -> Rules:
        return cls(
            delay_s=(probe.get("initialDelaySeconds") or 0) * scale,
            period_s=(probe.get("periodSeconds") or 10) * scale,
            timeout_s=probe.get("timeoutSeconds") or 1,
            successes=probe.get("successThreshold") or 1,
            failures=probe.get("failureThreshold") or 3,
        )


class Tally:
    """Turns answers into verdicts: True or False once enough agree, None in between. Pure."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._last: bool | None = None
        self._count = 0

    def take(self, ok: bool) -> bool | None:
        self._count = self._count + 1 if ok == self._last else 1
        self._last = ok
        needed = self._rules.successes if ok else self._rules.failures
        return ok if self._count >= needed else None


class Prober:
    """Asks one container; one HTTP session serves all probes of a node."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._address = address

    async def ask(self, probe: Mapping[str, Any], container: Container, ports: Mapping[str, int]) -> Outcome:
        timeout_s = probe.get("timeoutSeconds") or 1
        if "exec" in probe:
            return await _ask_exec(probe["exec"]["command"], container, timeout_s)
        if "httpGet" in probe:
            return await self._ask_http(probe["httpGet"], ports, timeout_s)
        if "tcpSocket" in probe:
            return await self._ask_tcp(probe["tcpSocket"], ports, timeout_s)
        return Outcome(False, f"the simulator has no probe of kind {sorted(probe)}")

    async def _ask_http(
        self, wanted: Mapping[str, Any], ports: Mapping[str, int], timeout_s: float
    ) -> Outcome:
        host = wanted.get("host") or self._address
        port = _port_of(wanted["port"], ports)
        scheme = (wanted.get("scheme") or "HTTP").lower()
        url = f"{scheme}://{host}:{port}/{(wanted.get('path') or '/').lstrip('/')}"
        headers = {"User-Agent": USER_AGENT, "Connection": "close"}
        headers |= {header["name"]: header["value"] for header in wanted.get("httpHeaders") or []}
        limit = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with self._session.get(
                url, headers=headers, timeout=limit, ssl=False, allow_redirects=False
            ) as answer:
                await answer.read()
                if 200 <= answer.status < 400:
                    return Outcome(True)
                return Outcome(False, f"HTTP probe failed with statuscode: {answer.status}")
        except TimeoutError:
            return Outcome(
                False,
                f'Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
            )
        except (aiohttp.ClientError, OSError):
            return Outcome(False, f'Get "{url}": dial tcp {host}:{port}: connect: connection refused')

    async def _ask_tcp(
        self, wanted: Mapping[str, Any], ports: Mapping[str, int], timeout_s: float
    ) -> Outcome:
        host, port = wanted.get("host") or self._address, _port_of(wanted["port"], ports)
        try:
            async with asyncio.timeout(timeout_s):
                _, writer = await asyncio.open_connection(host, port)
            writer.close()
            return Outcome(True)
        except (TimeoutError, OSError):
            return Outcome(False, f"dial tcp {host}:{port}: connect: connection refused")


async def watch(
    rules: Rules,
    ask: Callable[[], Awaitable[Outcome]],
    decide: Callable[[bool, str], bool],
    failed: Callable[[str], None],
) -> None:
    """Ask again and again; `decide(verdict, text)` at each verdict ends the watch by answering True.

    failed  called with the text of every single failure
    """
    tally = Tally(rules)
    await asyncio.sleep(rules.delay_s)
    while True:
        outcome = await ask()
        if not outcome.ok:
            failed(outcome.text)
        verdict = tally.take(outcome.ok)
        if verdict is not None and decide(verdict, outcome.text):
            return
        await asyncio.sleep(rules.period_s)


async def _ask_exec(command: list[str], container: Container, timeout_s: float) -> Outcome:
    try:
        code, output = await container.exec(command, timeout_s)
    except TimeoutError:
        return Outcome(False, f"command timed out: {command!r} timed out after {timeout_s}s")
    return Outcome(code == 0, output.strip())


def _port_of(port: int | str, ports: Mapping[str, int]) -> int:
    return ports[port] if isinstance(port, str) and port in ports else int(port)
