"""What `FaultyProxy` can do to a call: wrong answers, broken connections, spoiled watches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web
from tests.sim.faulty_proxy import Exchange, Fault

# --- faults: what the server or something in between answers ----------------------------------------------


def refuses(
    status: int,
    reason: str = "",
    message: str = "",
    *,
    retry_after: float | None = None,
    details: Mapping[str, Any] | None = None,
) -> Fault:
    """A Status of the API server; the call does not reach it."""

    async def refuse(exchange: Exchange) -> web.StreamResponse:
        text = message or f"no {exchange.call.verb} now: {reason or status}"
        return web.json_response(
            status_body(status, reason, text, details),
            status=status,
            headers={"Retry-After": f"{retry_after:g}"} if retry_after is not None else {},
        )

    return refuse


def status_body(
    status: int, reason: str, message: str, details: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": dict(details or {}),
        "code": status,
    }


def forbids() -> Fault:
    """What the real server says to an account without the rule.

    Source: kubernetes, staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go.
    """

    async def forbid(exchange: Exchange) -> web.StreamResponse:
        call = exchange.call
        qualified = f"{call.resource}.{call.group}" if call.group else call.resource
        where = f'in the namespace "{call.namespace}"' if call.namespace else "at the cluster scope"
        named = f'{qualified} "{call.name}"' if call.name else qualified
        message = (
            f'{named} is forbidden: User "system:serviceaccount:gpu-operator:{call.client}" cannot '
            f'{call.rbac_verb} resource "{call.resource}" in API group "{call.group}" {where}'
        )
        return web.json_response(status_body(403, "Forbidden", message), status=403)

    return forbid


def invalid(field_path: str) -> Fault:
    """422 that names a field."""

    async def refuse(exchange: Exchange) -> web.StreamResponse:
        call = exchange.call
        message = f'{call.resource} "{call.name}" is invalid: {field_path}: Invalid value: "x": not here'
        cause = {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: "x": not here',
            "field": field_path,
        }
        return web.json_response(
            status_body(422, "Invalid", message, {"name": call.name, "causes": [cause]}), status=422
        )

    return refuse


def answers(body: bytes, *, status: int = 200, content_type: str = "application/json") -> Fault:
    """Something else than the API server answers."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers={"Content-Type": content_type})

    return answer


def redirects(to: str = "https://login.example/") -> Fault:
    async def redirect(exchange: Exchange) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": to})

    return redirect


def huge(mebibytes: int = 200) -> Fault:
    """An answer that does not end."""

    async def flood(exchange: Exchange) -> web.StreamResponse:
        response = await exchange.begun()
        await response.write(b'{"kind":"')
        for _ in range(mebibytes):
            await response.write(b"x" * (1 << 20))
        return response

    return flood


# --- faults: what happens to the connection ---------------------------------------------------------------


def hangs() -> Fault:
    """Nothing comes until the client goes."""

    async def hang(exchange: Exchange) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    return hang


def delayed(seconds: float) -> Fault:
    async def delay(exchange: Exchange) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await exchange.passed()

    return delay


def cut_before() -> Fault:
    """The call never arrives."""

    async def cut(exchange: Exchange) -> web.StreamResponse:
        return exchange.cut()

    return cut


def cut_after() -> Fault:
    """The call arrives, its answer is lost."""

    async def lose_answer(exchange: Exchange) -> web.StreamResponse:
        await exchange.forward()
        return exchange.cut()

    return lose_answer


def cut_in_answer() -> Fault:
    """The answer ends in its middle, with the connection."""

    async def cut_short(exchange: Exchange) -> web.StreamResponse:
        status, headers, body = await exchange.forward()
        response = web.StreamResponse(status=status, headers={**headers, "Content-Length": str(len(body))})
        await response.prepare(exchange.request)
        await response.write(body[: len(body) // 2])
        await asyncio.sleep(0)
        exchange.cut()
        return response

    return cut_short


def half_json() -> Fault:
    """Half of the answer, as if that were all."""

    async def halve(exchange: Exchange) -> web.StreamResponse:
        status, headers, body = await exchange.forward()
        return web.Response(status=status, headers=headers, body=body[: len(body) // 2])

    return halve


def closes_after() -> Fault:
    """The connection is closed behind the answer, though nothing in it said so."""

    async def close_later(exchange: Exchange) -> web.StreamResponse:
        status, headers, body = await exchange.forward()
        response = web.Response(status=status, headers=headers, body=body)
        await response.prepare(exchange.request)
        await response.write_eof()  # all of it is out before the clock starts
        transport = exchange.request.transport
        if transport is not None:
            asyncio.get_running_loop().call_later(0.01, transport.close)
        return response

    return close_later


def drips(seconds: float = 2.0, pieces: int = 20) -> Fault:
    """The answer comes in small pieces."""

    async def drip(exchange: Exchange) -> web.StreamResponse:
        status, headers, body = await exchange.forward()
        response = await exchange.begun(status, **headers)
        size = max(1, len(body) // pieces)
        for start in range(0, len(body), size):
            await response.write(body[start : start + size])
            await asyncio.sleep(seconds / pieces)
        return response

    return drip


def doubled() -> Fault:
    """Somebody in between sends the call twice; the client sees the second answer."""

    async def double(exchange: Exchange) -> web.StreamResponse:
        await exchange.forward()
        exchange.done.version = ""
        return await exchange.passed()

    return double


# --- faults of watches ------------------------------------------------------------------------------------


def silent() -> Fault:
    """Accepted, and then nothing comes, not even a bookmark."""

    async def stay_silent(exchange: Exchange) -> web.StreamResponse:
        await exchange.begun()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    return stay_silent


def deaf_after(lines: int) -> Fault:
    """So many lines come through, then nothing more."""
    return _spoiled_watch("deaf_after", lines, _stay)


def cut_line(lines: int) -> Fault:
    """So many lines come through, half of the next one, and the connection ends."""
    return _spoiled_watch("cut_line", lines, _half_and_cut)


def garbage_line(lines: int = 0) -> Fault:
    return _spoiled_watch("garbage_line", lines, _garbage)


def doubled_lines() -> Fault:
    async def double_lines(exchange: Exchange) -> web.StreamResponse:
        async with exchange.opened() as answer:
            response = await exchange.begun(answer.status)
            async for line in answer.content:
                await response.write(line + line)
            return response

    return double_lines


def error_line(code: int, reason: str) -> Fault:
    async def say_error(exchange: Exchange) -> web.StreamResponse:
        response = await exchange.begun()
        event = {"type": "ERROR", "object": status_body(code, reason, f"{reason}: too old resource version")}
        await response.write(json.dumps(event).encode() + b"\n")
        return response

    return say_error


def _spoiled_watch(
    name: str, lines: int, then: Callable[[Exchange, web.StreamResponse, bytes], Awaitable[None]]
) -> Fault:
    async def spoil(exchange: Exchange) -> web.StreamResponse:
        async with exchange.opened() as answer:
            response = await exchange.begun(answer.status)
            left = lines
            async for line in answer.content:
                if left == 0:
                    await then(exchange, response, line)
                    return response
                left -= 1
                await response.write(line)
            return response

    spoil.__qualname__ = name
    return spoil


async def _stay(exchange: Exchange, response: web.StreamResponse, line: bytes) -> None:
    await asyncio.Event().wait()


async def _half_and_cut(exchange: Exchange, response: web.StreamResponse, line: bytes) -> None:
    await response.write(line[: len(line) // 2])
    await asyncio.sleep(0)
    exchange.cut()


async def _garbage(exchange: Exchange, response: web.StreamResponse, line: bytes) -> None:
    await response.write(b"\x00\xff{{{\n" + line)
