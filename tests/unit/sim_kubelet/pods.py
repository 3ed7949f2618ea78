"""Builders of pods; every argument has a default."""

from __future__ import annotations

import itertools
from typing import Any

_numbers = itertools.count()


def container(
    name: str = "main", *, image: str = "gpuready:test", gpus: int = 0, **more: Any
) -> dict[str, Any]:
    limits = more.pop("limits", {}) | ({"nvidia.com/gpu": gpus} if gpus else {})
    return {"name": name, "image": image, "resources": {"limits": limits}, **more}


def pod(
    name: str = "",
    *,
    namespace: str = "default",
    gpus: int = 0,
    containers: list[dict[str, Any]] | None = None,
    init: list[dict[str, Any]] | None = None,
    node: str = "",
    **spec: Any,
) -> dict[str, Any]:
    number = next(_numbers)
    name = name or f"pod-{number}"
    body: dict[str, Any] = {
        "containers": containers if containers is not None else [container(gpus=gpus)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 5,
        **spec,
    }
    if init:
        body["initContainers"] = init
    if node:
        body["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{number}"},
        "spec": body,
    }
