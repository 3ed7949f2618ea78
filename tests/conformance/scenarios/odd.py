"""What random requests found: amounts, words and versions that few clients get wrong, and servers must."""

from __future__ import annotations

from typing import Any

from ..transcript import Scenario
from .words import (
    DAEMON_SETS,
    LEASES,
    MAPS,
    PODS,
    POLICIES,
    SERVICES,
    apply,
    config_map,
    delete,
    deployment,
    get,
    patch,
    pod,
    policy,
    post,
    put,
)

BUDGETS = "/apis/policy/v1/namespaces/$NS/poddisruptionbudgets"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


def _runtime_class(handler: str = "nvidia", **meta: Any) -> dict[str, Any]:
    head = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
    return {**head, "metadata": {"name": "$NS", **meta}, "handler": handler}


def _lease(seconds: int = 1) -> dict[str, Any]:
    head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    return {**head, "spec": {"leaseDurationSeconds": seconds}}


def _budget(available: int = 1) -> dict[str, Any]:
    head = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    return {**head, "spec": {"minAvailable": available, "selector": {"matchLabels": {"a": "b"}}}}


def _daemon_set(unavailable: object = 1, **rolling: object) -> dict[str, Any]:
    made = deployment("d")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, **rolling}}
    return {**made, "kind": "DaemonSet", "spec": {**made["spec"], "updateStrategy": strategy}}


def _probed(**probe: object) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "livenessProbe": {"exec": {"command": ["true"]}, **probe}}
    return pod("p", container)


def _service(**spec: object) -> dict[str, Any]:
    head = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    return {**head, "spec": {"ports": [{"port": 80}], **spec}}


SCENARIOS = [
    Scenario(
        "a runtime class is replaced only at a version that is given",
        [
            post(RUNTIME_CLASSES, _runtime_class()),
            put(f"{RUNTIME_CLASSES}/$NS", _runtime_class(labels={"a": "b"})),
            put(f"{RUNTIME_CLASSES}/$NS", _runtime_class(handler="other")),
            put(f"{RUNTIME_CLASSES}/$NS", _runtime_class(resourceVersion="")),
            put(f"{RUNTIME_CLASSES}/$NS-none", _runtime_class()),
            patch("merge", f"{RUNTIME_CLASSES}/$NS", {"metadata": {"labels": {"a": "b"}}}),
            patch("merge", f"{RUNTIME_CLASSES}/$NS", {"handler": "other"}),
            delete(f"{RUNTIME_CLASSES}/$NS"),
            post(LEASES, _lease()),
            put(f"{LEASES}/l", _lease(2)),
            post(BUDGETS, _budget()),
            put(f"{BUDGETS}/b", _budget(2)),
        ],
    ),
    Scenario(
        "an amount of a daemon set fits into its type",
        [
            *(
                post(DAEMON_SETS, _daemon_set(amount))
                for amount in (2147483648, -1, 0, "0%", "101%", "-1%", "x", "1.5%", 1.5, True)
            ),
            post(DAEMON_SETS, _daemon_set(0, maxSurge=2147483648)),
            post(DAEMON_SETS, _daemon_set(1, maxSurge=1)),
            post(DAEMON_SETS, _daemon_set("100%")),
        ],
    ),
    Scenario(
        "a probe that cannot be",
        [
            *(
                post(PODS, _probed(**{field: -1}))
                for field in (
                    "initialDelaySeconds",
                    "timeoutSeconds",
                    "periodSeconds",
                    "successThreshold",
                    "failureThreshold",
                    "terminationGracePeriodSeconds",
                )
            ),
            post(PODS, _probed(successThreshold=2)),
            post(PODS, _probed(initialDelaySeconds=2147483648)),
            post(PODS, _probed(exec=None)),
            post(PODS, _probed(tcpSocket={"port": 80})),
            post(PODS, _probed(exec=None, httpGet={"port": 0, "path": "/"})),
            post(PODS, _probed(exec=None, httpGet={"port": "not_a_port", "path": ""})),
        ],
    ),
    Scenario(
        "a service whose words mean nothing",
        [
            post(SERVICES, _service(internalTrafficPolicy="Nonsense")),
            post(SERVICES, _service(internalTrafficPolicy="")),
            post(SERVICES, _service(externalTrafficPolicy="Local")),
            post(SERVICES, _service(type="Nonsense")),
            post(SERVICES, _service(type="NodePort", externalTrafficPolicy="Nonsense")),
            post(SERVICES, _service(sessionAffinity="Nonsense")),
            post(SERVICES, _service(ports=[{"port": 0}])),
            post(SERVICES, _service(ports=[{"port": 80, "protocol": "Nonsense"}])),
            post(SERVICES, _service(ports=[{"port": 80}, {"port": 81}])),
        ],
    ),
    Scenario(
        "a custom resource without its kind or its version",
        [
            post(POLICIES, {"spec": {"driver": {}}, "metadata": {"name": "$NS"}}),
            post(POLICIES, {"apiVersion": "nvidia.com/v1", "metadata": {"name": "$NS"}, "spec": {}}),
            post(POLICIES, {"kind": "ClusterPolicy", "metadata": {"name": "$NS"}, "spec": {}}),
            post(POLICIES, {**policy(), "kind": ""}),
            post(POLICIES, policy()),
            put(f"{POLICIES}/$NS", {"spec": {"driver": {}}, "metadata": {"name": "$NS"}}),
            patch("merge", f"{POLICIES}/$NS", {"kind": None}),
            apply(f"{POLICIES}/$NS", {"metadata": {"name": "$NS"}, "spec": {}}),
            delete(f"{POLICIES}/$NS"),
        ],
    ),
    Scenario(
        "the first apply of what is being deleted",
        [
            post(MAPS, config_map("a", {"k": "1"}, finalizers=["example.com/f"])),
            patch("merge", f"{MAPS}/a", {"metadata": {"managedFields": [{}]}}),
            delete(f"{MAPS}/a"),
            apply(f"{MAPS}/a", config_map("a", {"k": "2"}), force="true"),
            get(f"{MAPS}/a"),
            patch("merge", f"{MAPS}/a", {"metadata": {"finalizers": None}}),
            post(PODS, pod("p", nodeName="$NS-n", automountServiceAccountToken=False)),
            patch("merge", f"{PODS}/p", {"metadata": {"managedFields": [{}]}}),
            delete(f"{PODS}/p", gracePeriodSeconds="30"),
            apply(f"{PODS}/p", {**pod("p"), "metadata": {"name": "p", "labels": {"a": "b"}}}, force="true"),
            delete(f"{PODS}/p", gracePeriodSeconds="0"),
        ],
    ),
]
