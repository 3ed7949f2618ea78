"""What CDI edits do to a simulated container: variables, links for device nodes and mounts, hooks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from gpuready_sim.runtime.errors import CreateError, StartError
from gpuready_sim.runtime.roots import ContainerRoot

Json = Mapping[str, Any]
HOOK_TIMEOUT_S = 10


def variables(edits: Iterable[Json]) -> dict[str, str]:
    """Later ones replace earlier ones of the same name."""
    found: dict[str, str] = {}
    for edit in edits:
        for entry in edit.get("env") or []:
            name, _, value = entry.partition("=")
            found[name] = value
    return found


def inject_device_nodes(edits: Iterable[Json], root: ContainerRoot) -> None:
    """Link each device node; raises CreateError when the node has none and the spec does not describe it."""
    for edit in edits:
        for node in edit.get("deviceNodes") or []:
            host = root.host_path(node.get("hostPath") or node["path"])
            if not os.path.lexists(host):
                if not (node.get("type") and node.get("major")):
                    raise CreateError(
                        "failed to create containerd container: CDI device injection failed: failed to "
                        "inject devices: failed to stat CDI host device "
                        f'"{node.get("hostPath") or node["path"]}": no such file or directory'
                    )
                host = _described_node(root, node["path"])
            root.mount_file(node["path"], host)


def inject_mounts(edits: Iterable[Json], root: ContainerRoot) -> None:
    """Link each mount, outer ones first; raises StartError, as runc does, when the source is missing."""
    mounts = [mount for edit in edits for mount in edit.get("mounts") or []]
    for mount in sorted(mounts, key=lambda m: len(PurePosixPath(m["containerPath"]).parts)):
        source = root.host_path(mount["hostPath"])
        if not source.exists():
            raise StartError(
                "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
                "runc create failed: unable to start container process: error during container init: "
                f'error mounting "{mount["hostPath"]}" to rootfs at "{mount["containerPath"]}": '
                "no such file or directory: unknown"
            )
        root.mount_file(mount["containerPath"], source)


def run_create_hooks(edits: Iterable[Json], root: ContainerRoot, container_id: str) -> None:
    """Run createContainer hooks that exist on the node; a missing or failing one ends the container."""
    hooks = [hook for edit in edits for hook in edit.get("hooks") or []]
    for number, hook in enumerate(h for h in hooks if h["hookName"] == "createContainer"):
        path = root.host_path(hook["path"])
        if not path.exists():
            raise StartError(_hook_text(number, f"fork/exec {hook['path']}: no such file or directory"))
        _run_hook(number, hook, path, root, container_id)


def _run_hook(number: int, hook: Json, path: Path, root: ContainerRoot, container_id: str) -> None:
    bundle = root.path.parent
    (bundle / "config.json").write_text(json.dumps({"ociVersion": "1.2.0", "root": {"path": str(root.path)}}))
    state = {"ociVersion": "1.2.0", "id": container_id, "status": "creating", "bundle": str(bundle)}
    arguments = [str(path), *(hook.get("args") or [])[1:]]
    env = dict(entry.split("=", 1) for entry in hook.get("env") or [])
    env |= {"GPUREADY_ROOT": str(root.host_path("/")), "PATH": "/usr/bin:/bin"}
    try:
        done = subprocess.run(
            arguments,
            input=json.dumps(state).encode(),
            env=env,
            capture_output=True,
            timeout=hook.get("timeout") or HOOK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise StartError(_hook_text(number, str(exc))) from exc
    if done.returncode:
        output = f"{done.stdout.decode(errors='replace')}{done.stderr.decode(errors='replace')}"
        raise StartError(_hook_text(number, f"exit status {done.returncode}, stdout: {output}"))


def _described_node(root: ContainerRoot, path: str) -> Path:
    """A node that the spec describes in full and the host lacks: made in the container alone."""
    made = root.path.parent / "devices" / PurePosixPath(path).name
    made.parent.mkdir(exist_ok=True)
    made.touch()
    return made


def _hook_text(number: int, cause: str) -> str:
    return (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
        "runc create failed: unable to start container process: error during container init: "
        f"error running createContainer hook #{number}: {cause}: unknown"
    )
