"""Audit events as lines of requests.jsonl."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from gpuready_sim.kubernetes.request_log import follow, request_of


def event(**changes: Any) -> dict[str, Any]:
    return {
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/nodes/n?x=y",
        "verb": "patch",
        "user": {"username": "system:serviceaccount:gpu-operator:agent"},
        "userAgent": "gpuready-node-agent/0.1 (linux)",
        "objectRef": {"resource": "nodes", "name": "n", "subresource": "status"},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "2026-11-05T10:00:00.100000Z",
        "stageTimestamp": "2026-11-05T10:00:00.112000Z",
        **changes,
    }


def test_an_event_becomes_the_same_line_as_that_of_the_embedded_server() -> None:
    assert request_of(event()) == {
        "time": "2026-11-05T10:00:00.112000Z",
        "client": "gpuready-node-agent",
        "user": "system:serviceaccount:gpu-operator:agent",
        "verb": "patch",
        "resource": "nodes",
        "subresource": "status",
        "namespace": "",
        "name": "n",
        "code": 200,
        "ms": 12.0,
    }


def test_a_watch_is_written_when_it_starts_and_everything_else_when_it_ends() -> None:
    assert request_of(event(verb="watch", stage="ResponseStarted")) is not None
    assert request_of(event(verb="watch", stage="ResponseComplete")) is None
    assert request_of(event(stage="ResponseStarted")) is None


def test_a_request_for_no_resource_is_named_by_its_path() -> None:
    line = request_of(event(objectRef=None, requestURI="/readyz?verbose", verb="get"))
    assert line is not None
    assert line["resource"] == "/readyz"


async def test_lines_are_followed_and_the_last_ones_are_there_when_it_ends(tmp_path: Path) -> None:
    log, requests = tmp_path / "audit.log", tmp_path / "requests.jsonl"
    task = asyncio.create_task(follow(log, requests))
    await asyncio.sleep(0)
    text = json.dumps(event()) + "\n"
    log.write_text(text + text[:40])  # the second line is still being written
    with log.open("a") as file:
        file.write(text[40:])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(requests.read_text().splitlines()) == 2
