"""Does the driver container of a node bring the driver that the policy asks for, and if not: why. Pure.

The node itself sees only what is loaded. An earlier driver works on while its successor's pod fails, or has
not been made because nobody has deleted the old pod (OnDelete): that is told to the node in GPUNode.spec.

Texts are the same at every look while nothing changes, however often a container restarts meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpuready import names
from gpuready.api import images
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.chain.driver import OUTDATED, POD_FAILING
from gpuready.chain.reporting import STUCK
from gpuready.controller.nodes.summary import DriverSummary
from gpuready.kube.trimmed import ContainerStatus, Pod
from gpuready.operands.driver.digest import config_beside

Row = dict[str, Any]
_VERSION = re.compile(r":(\d+\.\d+(?:\.\d+)?)(?:-|$)")
_PULLING = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName")
_CONTAINER = "container"
_PAUSED = "paused-for-driver-upgrade"


def asked_version(policy: ClusterPolicy) -> str:
    """The driver version in the image's tag; "" for a digest, a branch, or where no driver is wanted."""
    if not policy.spec.driver.enabled:
        return ""
    match = _VERSION.search(images.external_image(policy, "driver"))
    return match.group(1) if match else ""


def config_of(daemonset: Mapping[str, Any] | None) -> str:
    """What of a driver DaemonSet decides how its pods install the driver, as a digest; "" = not known."""
    labels = (daemonset or {}).get("spec", {}).get("template", {}).get("metadata", {}).get("labels", {})
    return str(labels.get(names.DRIVER_CONFIG_LABEL) or "")


def config_for(pods: Iterable[Pod], find_daemonset: Callable[[str], Mapping[str, Any] | None]) -> str:
    """What their DaemonSet holds against the mark of the newest; "" = not known.

    It is the one that controls them, whatever labels it shares with others.
    """
    known = list(pods)
    sets = {pod.controller for pod in known}
    daemonset = find_daemonset(sets.pop()) if len(sets) == 1 else None
    newest = _newest(known)
    if daemonset is None or newest is None:
        return config_of(daemonset)
    return config_beside(_mark_of(newest), daemonset["spec"].get("template") or {})


def driver_trouble(
    node: str,
    pods: Iterable[Pod],
    running: DriverSummary,
    *,
    version: str,
    config: str,
    before: Mapping[str, Any] | None,
) -> Row | None:
    """{reason, message, nextStep}, None when nothing is wrong or the driver is not a container's.

    pods       the driver's on this node
    running    what the node says of its driver
    version    that the policy asks for, "" = no particular one
    config     see `config_for`
    before     what was told last: a pod that failed is not well again while it is only being tried anew
    """
    pod = _newest(pods)
    had = _mark_of(pod) if pod else ""
    is_older = bool(config and had and had != config)
    if pod is not None and (why := _failure_of(pod, before)):
        return _older_failing(node, pod, why) if is_older else _failing(node, pod, running, why)
    if running.owner != _CONTAINER or not running.version:
        return None
    if version and version != running.version:
        return _outdated(node, pod, f"{node} runs {running.version}, the policy asks for {version}")
    if is_older:
        return _outdated(
            node, pod, f"{node} runs {running.version} as an earlier policy had it installed, not as this one"
        )
    return None


def _newest(pods: Iterable[Pod]) -> Pod | None:
    living = (pod for pod in pods if not pod.metadata.deleting)
    return max(living, key=lambda pod: pod.metadata.creation_timestamp, default=None)


def _mark_of(pod: Pod) -> str:
    return pod.metadata.labels.get(names.DRIVER_CONFIG_LABEL, "")


def _failure_of(pod: Pod, before: Mapping[str, Any] | None) -> str:
    """One clause, "" for a pod that works or is on its way."""
    if pod.ready:
        return ""
    for container in (*pod.init_containers, *pod.containers):
        if container.state == "waiting" and container.reason in STUCK:
            return _clause(container)
    tried_anew = any(container.restart_count for container in pod.containers)
    named = str((before or {}).get("message") or "")
    if tried_anew and (before or {}).get("reason") == POD_FAILING and pod.metadata.name in named:
        return _said_of(named, pod.metadata.name)
    return f"{pod.phase} ({pod.reason or 'no reason given'})" if pod.phase == "Failed" else ""


def _clause(container: ContainerStatus) -> str:
    if container.reason in _PULLING:
        return f"ImagePullBackOff, its image {container.image} cannot be pulled"
    ended = f", its last run ended with {container.last_reason}" if container.last_reason else ""
    return f"{container.reason}{ended}"


def _said_of(message: str, pod: str) -> str:
    """The clause of an earlier message, see `_failing`."""
    return message.partition(f"{pod} fails: ")[2].partition("; ")[0]


def _failing(node: str, pod: Pod, running: DriverSummary, why: str) -> Row:
    name, namespace = pod.metadata.name, pod.metadata.namespace
    kept = f"; {running.version} stays loaded" if running.version else ""
    step = f"kubectl logs -n {namespace} {name} --all-containers, and kubectl describe pod"
    if running.version:
        step += f"; when it says that the driver is in use: {_let_go(node)}"
    return {
        "reason": POD_FAILING,
        "message": f"on {node} the driver pod {name} fails: {why}{kept}",
        "nextStep": step,
    }


def _older_failing(node: str, pod: Pod, why: str) -> Row:
    """What it would install is not asked for any more: helping it leads to the wrong driver."""
    name, namespace = pod.metadata.name, pod.metadata.namespace
    return {
        "reason": POD_FAILING,
        "message": f"on {node} the driver pod {name} fails: {why}; "
        "this pod is of an older text of the policy",
        "nextStep": f"delete it, then the one that the policy asks for comes: "
        f"kubectl delete pod -n {namespace} {name}",
    }


def _outdated(node: str, pod: Pod | None, said: str) -> Row:
    whom = f"the pod {pod.metadata.name}" if pod else "the driver's pod"
    return {
        "reason": OUTDATED,
        "message": said,
        "nextStep": f"when the GPUs of {node} are free: {_let_go(node)}, delete {whom}, and label the node "
        "true again (this version does not roll drivers by itself)",
    }


def _let_go(node: str) -> str:
    """The device plugin holds the driver too: without this the kernel module cannot be unloaded."""
    return f"kubectl label node {node} {names.DEPLOY_DEVICE_PLUGIN}={_PAUSED} --overwrite"
