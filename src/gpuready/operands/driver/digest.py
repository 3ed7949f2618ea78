"""What of the driver's pod makes the driver install itself anew. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gpuready import names
from gpuready.operands.contract import KubeObject
from gpuready.operands.driver.startup_probe import VOLUME as PROBE_VOLUME
from gpuready.operands.original.scripts import in_our_words
from gpuready.operands.site import CA_DIR, CA_VOLUME

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
    return _hash_of({"containers": decisive, "files": files})


def shown_config(pod: Mapping[str, Any]) -> str:
    """What a pod's spec shows of the way in which it installs its driver; for those without a mark of ours.

    Two specs that install alike show the same, whoever has written them: a pod of the original that was taken
    over, and the template by which its successor will be made. Never equal to a mark of ours.

    A site's mirror and certificates, and where the host's root is, are laid over finished containers,
    sometimes by an admission controller: another registry with the same image and tag shows the same.
    """
    containers = {each["name"]: _shown(_untold(each)) for each in pod.get("containers") or ()}
    files = {
        each["name"]: _file(each)
        for each in pod.get("volumes") or ()
        if each["name"] not in (PROBE_VOLUME, CA_VOLUME) and ("configMap" in each or "secret" in each)
    }
    return _SHOWN + _hash_of({"containers": containers, "files": files})


def config_beside(mark: str, template: Mapping[str, Any]) -> str:
    """What a DaemonSet's pod template holds against the mark of one of its pods; "" = not known."""
    if mark.startswith(_SHOWN):
        return shown_config(template.get("spec") or {})
    labels = (template.get("metadata") or {}).get("labels") or {}
    return str(labels.get(names.DRIVER_CONFIG_LABEL) or "")


def mark_of(pod: Mapping[str, Any]) -> str:
    """How this pod installed its driver: as our label says, or as it shows itself."""
    labels = pod["metadata"].get("labels") or {}
    return str(labels.get(names.DRIVER_CONFIG_LABEL) or "") or shown_config(pod.get("spec") or {})


_SHOWN = "shown-"


def _shown(container: Mapping[str, Any]) -> KubeObject:
    """Releases before 25.3 have one variable for open modules, and none for the driver image's own choice."""
    decisive = _decisive(container)
    env = {
        name: value
        for name, value in decisive["env"]
        if name != "HOST_ROOT" and not value.startswith(f"{CA_DIR}/")
    }
    if env.pop("OPEN_KERNEL_MODULES_ENABLED", "") == "true":
        env.setdefault("KERNEL_MODULE_TYPE", "open")
    if env.get("KERNEL_MODULE_TYPE") == "auto":
        del env["KERNEL_MODULE_TYPE"]
    args = [in_our_words(each) for each in container.get("args") or ()]
    image = decisive.get("image", "").rpartition("/")[2]
    return {**decisive, "image": image, "args": args, "env": sorted(env.items())}


def _hash_of(decisive: KubeObject) -> str:
    text = msgspec.json.encode(decisive, order="deterministic")
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
