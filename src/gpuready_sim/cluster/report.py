"""What `gpuready-sim status`, `list` and `requests` print."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table

from gpuready_sim import control, request_log
from gpuready_sim.client import NODES, PODS, ApiStatus, SimClient, Unreachable
from gpuready_sim.cluster.places import Place, State, cluster_names

WIDE = 500


def print_status(name: str, *, as_json: bool) -> int:
    """Exit code: 0 when all is well, 1 when something is not."""
    place = Place.of(name)
    state = control.ask(place, "status")
    asyncio.run(_add_kubernetes_view(place, state))
    if as_json:
        print(json.dumps(state, indent=2))  # noqa: T201
    else:
        _print_tables(state)
    return 0 if all(_is_well(node) for node in state["nodes"]) else 1


async def _add_kubernetes_view(place: Place, state: dict[str, Any]) -> None:
    """Ready, taints and pod counts of each node; absent while the API server does not answer."""
    try:
        async with SimClient.from_kubeconfig(place.kubeconfig, user_agent="gpuready-sim") as client:
            nodes = {n["metadata"]["name"]: n for n in (await client.list(NODES))[0]}
            pods = (await client.list(PODS))[0]
    except (ApiStatus, Unreachable, OSError):
        state["api"] = "no answer"
        return
    state["api"] = "ok"
    counts = Counter(pod["spec"].get("nodeName") for pod in pods)
    for node in state["nodes"]:
        known = nodes.get(node["name"])
        node["ready"] = _ready_of(known) if known else "Deleted"
        node["pods"] = counts[node["name"]]
        node["allocatable"] = ((known or {}).get("status") or {}).get("allocatable") or {}
    state["unscheduledPods"] = counts[None]


def _ready_of(node: Mapping[str, Any]) -> str:
    conditions = (node.get("status") or {}).get("conditions") or []
    return next((c["status"] for c in conditions if c["type"] == "Ready"), "Unknown")


def _is_well(node: Mapping[str, Any]) -> bool:
    faulty = any(gpu["lost"] or gpu["lastXid"] or gpu["inforomCorrupt"] for gpu in node["gpus"])
    return node.get("ready") == "True" and not faulty and not node["nvmlHangSeconds"]


def _print_tables(state: Mapping[str, Any]) -> None:
    console = _console()
    table = _table("NODE", "READY", "GPUS", "DRIVER", "KUBELET", "PODS", "FAULTS")
    for node in state["nodes"]:
        models = Counter(gpu["model"] for gpu in node["gpus"])
        table.add_row(
            node["name"],
            {"True": "yes", "False": "no"}.get(node.get("ready", ""), node.get("ready", "-")),
            ", ".join(f"{count} x {model}" for model, count in models.items()) or "-",
            _driver_text(node["driver"]),
            node["kubelet"],
            str(node.get("pods", "-")),
            ", ".join(_faults(node)) or "-",
        )
    console.print(table)
    console.print()
    processes = _table("PROCESS", "PID", "METRICS")
    for process in state["processes"]:
        port = process.get("metricsPort")
        metrics = f"http://127.0.0.1:{port}/metrics" if port else "-"
        processes.add_row(process["name"], str(process["pid"] or "not running"), metrics)
    console.print(processes)
    print(f"\nkubeconfig: {state['kubeconfig']}")  # noqa: T201
    print(f"API server: {state['server']} ({state['api']})")  # noqa: T201


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDE  # a file or a pipe has no right edge: nothing is cut or folded
    return console


def _driver_text(driver: Mapping[str, str | None]) -> str:
    installed, loaded = driver["installed"], driver["loaded"]
    if not installed:
        return "-"
    if installed == loaded:
        return f"{driver['where']} {installed}"
    return f"{driver['where']} {installed}, module {loaded or 'not loaded'}"


def _faults(node: Mapping[str, Any]) -> Iterable[str]:
    if node["nvmlHangSeconds"]:
        yield "NVML hangs"
    for gpu in node["gpus"]:
        words = ["lost"] if gpu["lost"] else []
        words += [f"XID {gpu['lastXid']}"] if gpu["lastXid"] else []
        words += ["infoROM"] if gpu["inforomCorrupt"] else []
        if words:
            yield f"{gpu['index']}: {' '.join(words)}"


def _table(*columns: str) -> Table:
    table = Table(*columns, box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for column in table.columns:
        column.overflow = "fold"
    return table


def print_clusters(*, as_json: bool) -> int:
    clusters = [_cluster_row(Place.of(name)) for name in cluster_names()]
    if as_json:
        print(json.dumps(clusters, indent=2))  # noqa: T201
    elif not clusters:
        print("no clusters; start one with `gpuready-sim up --detach`", file=sys.stderr)  # noqa: T201
    else:
        rows = [
            (c["name"], c["state"], ", ".join(c["nodes"]) or "-", c["kubeconfig"] or "-") for c in clusters
        ]
        print(_aligned(("NAME", "STATE", "NODES", "KUBECONFIG"), *rows))  # noqa: T201
    return 0


def _aligned(*rows: Sequence[str]) -> str:
    """Columns as wide as their longest cell, never folded: a path stays one that can be copied."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("   ".join(map(str.ljust, row, widths)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _cluster_row(place: Place) -> dict[str, Any]:
    kubeconfig = str(place.kubeconfig) if place.state is State.RUNNING else None
    nodes = place.directory / "nodes"
    names = sorted(path.name for path in nodes.iterdir()) if nodes.is_dir() else []
    return {
        "name": place.name,
        "state": str(place.state),
        "nodes": names,
        "kubeconfig": kubeconfig,
        "directory": str(place.directory),
    }


def print_requests(name: str, wanted: request_log.Filter, *, as_json: bool) -> int:
    place = Place.of(name)
    if not place.requests.exists():
        raise control.not_running(place)
    leases, clients = 0, set()
    with_leases = replace(wanted, leases=True)
    for line in request_log.read(place.requests):
        clients.add(line.client)
        if wanted.takes(line):
            print(json.dumps(line.fields) if as_json else _request_text(line))  # noqa: T201
        elif with_leases.takes(line):
            leases += 1
    if wanted.client and wanted.client not in clients:
        print(f"no client {wanted.client}; there are {', '.join(sorted(clients))}", file=sys.stderr)  # noqa: T201
    if leases:
        those = "1 write of a lease is" if leases == 1 else f"{leases} writes of leases are"
        print(f"{those} left out; --leases shows them", file=sys.stderr)  # noqa: T201
    return 0


def _request_text(line: request_log.RequestLine) -> str:
    fields = line.fields
    columns = ((fields["client"], 20), (fields["verb"], 16), (line.what, 36), (line.name or "-", 52))
    text = " ".join(str(value).ljust(width) for value, width in columns)
    return f"{fields['time']} {text} {fields['code']}"
