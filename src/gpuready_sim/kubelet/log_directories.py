"""/var/log/pods of a node: one directory a pod, by which programs on the node learn the pod's uid.

The logs themselves lie beside the machine, in `<node>/logs`, where they outlive their pods.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def make(node_root: Path, pod: Mapping[str, Any], container: str) -> None:
    (_of(node_root, pod) / container).mkdir(parents=True, exist_ok=True)


def remove(node_root: Path, pod: Mapping[str, Any]) -> None:
    shutil.rmtree(_of(node_root, pod), ignore_errors=True)


def _of(node_root: Path, pod: Mapping[str, Any]) -> Path:
    """Source: kubernetes, pkg/kubelet/kuberuntime/helpers.go (BuildPodLogsDirectory)."""
    meta = pod["metadata"]
    return node_root / "var/log/pods" / f"{meta['namespace']}_{meta['name']}_{meta['uid']}"
