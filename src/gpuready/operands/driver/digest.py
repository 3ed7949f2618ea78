"""What of the driver's pod makes the driver install itself anew. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gpuready.operands.contract import KubeObject

DIGEST_ENV = "DRIVER_CONFIG_DIGEST"


def config_digest(containers: Sequence[KubeObject], volumes: Sequence[KubeObject] = ()) -> str:
    """Differs where another driver, or the same in another way, would be installed, and nowhere else.

    A driver container that starts anew with the digest of the loaded driver keeps the modules: it could not
    unload them while a pod holds the GPU, and would fail for ever. The driver manager asks the same, so it is
    left out itself: another manager installs no other driver.

    Source: gpu-operator v26.3.3, internal/state/driver.go (DRIVER_CONFIG_DIGEST); node-chain.md §2. The
    original's value is another hash of much the same.
    """
    decisive = [_decisive(each) for each in containers]
    files = sorted((volume for volume in volumes if "hostPath" not in volume), key=lambda each: each["name"])
    text = msgspec.json.encode({"containers": decisive, "files": files}, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:16]


def digest_of(pod: Mapping[str, Any]) -> str:
    """What a pod's containers are told; "" for a pod that installs no driver."""
    rows = (row for container in pod.get("containers") or () for row in container.get("env") or ())
    return next((str(row.get("value") or "") for row in rows if row["name"] == DIGEST_ENV), "")


def installs_alike(pod: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two pods' specs install the same driver, whoever has written them."""
    return _install_of(pod) == _install_of(other)


def _install_of(pod: Mapping[str, Any]) -> tuple[Any, Any]:
    containers = {each["name"]: _decisive(_untold(each)) for each in pod.get("containers") or ()}
    files = {each["name"]: _file(each) for each in pod.get("volumes") or () if "hostPath" not in each}
    return containers, files


def _file(volume: Mapping[str, Any]) -> KubeObject:
    """Without the mode that the API server fills in."""
    bare = {"name": volume["name"]}
    for kind in ("configMap", "secret"):
        if source := volume.get(kind):
            bare[kind] = {
                key: value for key, value in source.items() if (key, value) != ("defaultMode", 0o644)
            }
    return bare


def _untold(container: Mapping[str, Any]) -> KubeObject:
    env = [row for row in container.get("env") or () if row["name"] != DIGEST_ENV]
    return {**container, "env": env}


def told(digest: str, container: KubeObject) -> KubeObject:
    """The container with the digest in its environment, whatever the policy's env says."""
    bare = _untold(container)
    return {**bare, "env": [*bare["env"], {"name": DIGEST_ENV, "value": digest}]}


def _decisive(container: Mapping[str, Any]) -> KubeObject:
    literal = sorted((row["name"], row["value"]) for row in container.get("env", ()) if row.get("value"))
    decisive = ("name", "image", "command", "args", "envFrom")
    return {**{key: container[key] for key in decisive if key in container}, "env": literal}
