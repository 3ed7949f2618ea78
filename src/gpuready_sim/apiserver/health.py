"""/healthz, /livez and /readyz: all checks, one of them, some left out, in words.

The checks are those of the real server's whose subject exists here; none of them can fail: who is answered at
all is answered by a server that is well.

Source: kubernetes, apiserver/pkg/server/healthz/healthz.go.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from gpuready_sim.apiserver.requests import Reply

_HOOKS: Final = (
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
)
CHECKS: Final = {
    "healthz": ("ping", "log", "etcd", *_HOOKS),
    "livez": ("ping", "log", "etcd", *_HOOKS),
    "readyz": ("ping", "log", "etcd", "etcd-readiness", "informer-sync", *_HOOKS, "shutdown"),
}


def answer(path: str, query_text: str) -> Reply | None:
    """None for a path that is none of these, or that names no check."""
    kind, _, one = path.removeprefix("/").partition("/")
    checks = CHECKS.get(kind)
    if checks is None or (one and one not in checks) or path.endswith("/"):
        return None
    query = parse_qsl(query_text, keep_blank_values=True)
    if one or not any(key == "verbose" for key, _ in query):
        return _text("ok")
    excluded = [value for key, value in query if key == "exclude"]
    lines = [f"[+]{name} {'excluded: ok' if name in excluded else 'ok'}" for name in checks]
    if unknown := [name for name in dict.fromkeys(excluded) if name not in checks]:
        named = ",".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {named}")
    return _text("\n".join([*lines, f"{kind} check passed", ""]))


def paths() -> list[str]:
    return [f"/{kind}{one}" for kind in CHECKS for one in ("", *(f"/{name}" for name in CHECKS[kind]))]


def _text(text: str) -> Reply:
    return Reply(200, text.encode(), "text/plain; charset=utf-8")
