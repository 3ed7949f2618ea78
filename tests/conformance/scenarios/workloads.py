"""Workloads and services that cannot be, one field after the other."""

from __future__ import annotations

from typing import Any

from ..transcript import Ask, Scenario
from .words import DAEMON_SETS, DEPLOYMENTS, SERVICES, delete, deployment, patch, post

JOBS = "/apis/batch/v1/namespaces/$NS/jobs"
_ONCE = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "x"}]}


def _deployment(**spec: Any) -> Ask:
    return post(DEPLOYMENTS, deployment("d", **spec), dryRun="All")


def _daemon_set(**spec: Any) -> Ask:
    return post(DAEMON_SETS, {**deployment("d", **spec), "kind": "DaemonSet"}, dryRun="All")


def _job(pod: Any = _ONCE, **spec: Any) -> Ask:
    return post(JOBS, {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}, **spec}}, dryRun="All")


def _service(name: str = "s", **spec: Any) -> Ask:
    return post(
        SERVICES, {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}, dryRun="All"
    )


SCENARIOS = [
    Scenario(
        "numbers, selectors and strategies of workloads that cannot be",
        [
            _deployment(replicas=-1),
            _deployment(minReadySeconds=-1),
            _deployment(revisionHistoryLimit=-1),
            _deployment(progressDeadlineSeconds=-1),
            _deployment(progressDeadlineSeconds=5, minReadySeconds=5),
            _deployment(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
            _deployment(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
            _deployment(strategy={"rollingUpdate": {"maxUnavailable": "101%"}}),
            _deployment(strategy={"rollingUpdate": {"maxSurge": "x"}}),
            _deployment(strategy={"rollingUpdate": {"maxSurge": -1}}),
            _deployment(selector={}),
            _deployment(selector={"matchLabels": {"a b": "c"}}),
            _deployment(selector={"matchExpressions": [{"key": "app", "operator": "In"}]}),
            _deployment(selector={"matchExpressions": [{"key": "app", "operator": "Odd"}]}),
            _deployment(selector=None),
            _deployment(template={}),
            _deployment(paused=True),
            _daemon_set(minReadySeconds=-1),
            _daemon_set(revisionHistoryLimit=-1),
            _daemon_set(updateStrategy={"type": "Odd"}),
            _daemon_set(selector={}),
            _daemon_set(selector=None),
            _daemon_set(template={}),
            _daemon_set(updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
            _daemon_set(updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
            _job(parallelism=-1),
            _job(completions=-1),
            _job(backoffLimit=-1),
            _job(activeDeadlineSeconds=-1),
            _job(ttlSecondsAfterFinished=-1),
            _job(completionMode="Odd"),
            _job({"restartPolicy": "Always", "containers": [{"name": "a", "image": "x"}]}),
            _job({"restartPolicy": "Never", "containers": []}),
            _job(podReplacementPolicy="Odd"),
        ],
    ),
    Scenario(
        "services that cannot be",
        [
            _service("a.b"),
            _service("S"),
            _service("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
            _service("-a"),
            _service(clusterIP="x"),
            _service(clusterIP="None"),
            _service(clusterIP="None", type="NodePort"),
            _service(ports=[], clusterIP="None"),
            _service(type="ExternalName"),
            _service(type="ExternalName", externalName="a_b"),
            _service(type="ExternalName", externalName="a.b"),
            _service(type="ExternalName", externalName="a.b", clusterIP="None"),
            _service(type="Odd"),
            _service(externalIPs=["x"]),
            _service(externalIPs=["127.0.0.1"]),
            _service(externalTrafficPolicy="Local"),
            _service(externalTrafficPolicy="Odd", type="NodePort"),
            _service(ports=[{"port": 80, "nodePort": 30080}], type="ClusterIP"),
            _service(type="LoadBalancer", healthCheckNodePort=30000),
            _service(healthCheckNodePort=30000),
            _service(allocateLoadBalancerNodePorts=True),
            _service(loadBalancerClass="a"),
            _service(loadBalancerSourceRanges=["x"]),
            _service(type="LoadBalancer", loadBalancerSourceRanges=["x"]),
            _service(sessionAffinity="Odd"),
            _service(sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 0}}),
            _service(selector={"a b": "c"}),
            _service(ports=[{"port": 80}, {"port": 80}]),
            _service(ports=[{"name": "a", "port": 80}, {"name": "a", "port": 81}]),
            _service(ports=[{"name": "a", "port": 80}, {"name": "b", "port": 80}]),
            _service(ports=[{"name": "A_", "port": 80}]),
            _service(
                ports=[
                    {"name": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "port": 80}
                ]
            ),
            _service(ports=[{"port": 0}]),
            _service(ports=[{"port": 80, "targetPort": "x_"}]),
            _service(ports=[{"port": 80, "protocol": "Odd"}]),
            _service(ports=[{"port": 80, "appProtocol": "a b"}]),
            _service(internalTrafficPolicy="Odd"),
            _service(trafficDistribution="Odd"),
            post(
                SERVICES,
                {"metadata": {"name": "s"}, "spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 80}]}},
            ),
            patch(
                "merge",
                "/api/v1/namespaces/$NS/services/s/status",
                {"status": {"loadBalancer": {"ingress": [{"ip": "x"}]}}},
            ),
            patch(
                "merge",
                "/api/v1/namespaces/$NS/services/s/status",
                {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}},
            ),
            patch("merge", "/api/v1/namespaces/$NS/services/s", {"spec": {"clusterIP": "10.0.0.5"}}),
            post(
                SERVICES,
                {
                    "metadata": {"name": "np"},
                    "spec": {
                        "type": "NodePort",
                        "clusterIP": "10.96.0.8",
                        "ports": [{"port": 80, "nodePort": 30123}],
                    },
                },
            ),
            post(
                SERVICES,
                {
                    "metadata": {"name": "np2"},
                    "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30123}]},
                },
            ),
            patch("merge", f"{SERVICES}/np", {"spec": {"type": "ClusterIP"}}),
            patch("merge", f"{SERVICES}/s", {"spec": {"type": "ExternalName", "externalName": "a.b"}}),
            delete(f"{SERVICES}/np"),
        ],
    ),
]
