"""Which taints of a node keep a pod away. Pure, on plain objects.

The rules are the scheduler's and the DaemonSet controller's; only hard ones count.

Source: kubernetes, component-helpers/scheduling/corev1 (tolerations), pkg/controller/daemon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuready.kube.trimmed import Taint

Object = Mapping[str, Any]
_KEEPS_AWAY = ("NoSchedule", "NoExecute")
# The DaemonSet controller gives each of its pods these.
_DAEMON_TOLERATIONS: tuple[Object, ...] = tuple(
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists"}
    for name in (
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
    )
)
# And this to those that use the node's own network.
_WITHOUT_NETWORK: Object = {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists"}


def taints_against(taints: Iterable[Object], tolerations: Sequence[Object]) -> list[str]:
    """Those that keep a pod with these tolerations away, as "key=value:Effect"."""
    hard = [taint for taint in taints if taint.get("effect") in _KEEPS_AWAY]
    return [_text_of(taint) for taint in hard if not any(_tolerates(item, taint) for item in tolerations)]


def taints_against_daemonset(taints: Iterable[Object], daemonset: Object) -> list[str]:
    spec = daemonset["spec"]["template"]["spec"]
    given = (*_DAEMON_TOLERATIONS, _WITHOUT_NETWORK) if spec.get("hostNetwork") else _DAEMON_TOLERATIONS
    return taints_against(taints, [*(spec.get("tolerations") or ()), *given])


def taints_of(taints: Iterable[Taint]) -> list[Object]:
    """As the API writes them."""
    return [{"key": each.key, "value": each.value, "effect": each.effect} for each in taints]


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    same_value = (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(toleration.get("key")) and same_value


def _text_of(taint: Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"
