"""Pods that cannot be, one field after the other: their volumes, and where and how they run."""

from __future__ import annotations

from typing import Any

from ..transcript import Ask, Scenario
from .words import DAEMON_SETS, DEPLOYMENTS, PODS, deployment, patch, pod, post


def _pod(*containers: dict[str, Any], **spec: Any) -> Ask:
    return post(PODS, pod("p", *containers, **spec), dryRun="All")


def _contained(**container: Any) -> Ask:
    return _pod({"name": "c", "image": "i", **container})


def _deployment_lasting(seconds: int) -> Ask:
    made = deployment("c", replicas=0)
    made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = seconds
    return post(DEPLOYMENTS, made, dryRun="All")


def _annotated(annotations: dict[str, str]) -> Ask:
    return post(PODS, pod("p", meta={"annotations": annotations}), dryRun="All")


def _term(key: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "Exists"}]}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TWICE = {"name": "c", "image": "i", "ports": [{"containerPort": 80}] * 2}

SCENARIOS = [
    Scenario(
        "volumes of a pod that cannot be",
        [
            _pod(volumes=[{}]),
            _pod(volumes=[{"name": "v"}, {"name": "v", "emptyDir": {}}]),
            _pod(volumes=[{"name": "Bad_", "emptyDir": {}}]),
            _pod(volumes=[{"name": "v", "hostPath": {"path": ""}}]),
            _pod(volumes=[{"name": "v", "hostPath": {"path": "/a/../b"}}]),
            _pod(volumes=[{"name": "v", "hostPath": {"path": "/a", "type": "Odd"}}]),
            _pod(volumes=[{"name": "v", "configMap": {}}]),
            _pod(volumes=[{"name": "v", "configMap": {"name": "a", "defaultMode": 1000}}]),
            _pod(volumes=[{"name": "v", "configMap": {"name": "a", "items": [{"key": "", "path": ""}]}}]),
            _pod(
                volumes=[{"name": "v", "configMap": {"name": "a", "items": [{"key": "k", "path": "../x"}]}}]
            ),
            _pod(volumes=[{"name": "v", "secret": {}}]),
            _pod(volumes=[{"name": "v", "secret": {"secretName": "a", "defaultMode": -1}}]),
            _pod(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "-1"}}]),
            _pod(volumes=[{"name": "v", "downwardAPI": {"items": [{"path": "x"}]}}]),
            _pod(
                volumes=[
                    {
                        "name": "v",
                        "downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "status.podIP"}}]},
                    }
                ]
            ),
            _pod(volumes=[{"name": "v", "projected": {"sources": [{"secret": {"name": ""}}]}}]),
            _pod(
                volumes=[
                    {
                        "name": "v",
                        "projected": {
                            "sources": [{"serviceAccountToken": {"path": "", "expirationSeconds": 5}}]
                        },
                    }
                ]
            ),
            _pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": ""}}]),
            _pod(volumes=[{"name": "v", "hostPath": {"path": "/a"}, "emptyDir": {}}]),
            _pod(volumes=[{"name": "v", "csi": {"driver": ""}}]),
            _pod(volumes=[{"name": "v", "nfs": {"server": "", "path": ""}}]),
            _pod(volumes=[{"name": "v", "image": {"reference": ""}}]),
            _pod(volumes=[{"name": "v", "ephemeral": {}}]),
        ],
    ),
    Scenario(
        "where and how a pod cannot run",
        [
            _pod(restartPolicy="Odd"),
            _pod(dnsPolicy="Odd"),
            _pod(dnsPolicy="None"),
            _pod(dnsConfig={"nameservers": ["x"]}),
            _pod(dnsConfig={"nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"]}),
            _pod(hostAliases=[{"ip": "x", "hostnames": ["a b"]}]),
            _pod(hostname="a.b"),
            _pod(subdomain="A"),
            _pod(activeDeadlineSeconds=0),
            _pod(activeDeadlineSeconds=-1),
            _pod(serviceAccountName="Bad_"),
            _pod(nodeName="Bad_"),
            _pod(nodeSelector={"a b": "c"}),
            _pod(nodeSelector={"a": "c d"}),
            _pod(imagePullSecrets=[{"name": "a"}, {"name": "a"}]),
            _pod(priority=5),
            _pod(priorityClassName="system-node-critical"),
            _pod(preemptionPolicy="Odd"),
            _pod(preemptionPolicy="Never"),
            _pod(runtimeClassName="nvidia"),
            _pod(runtimeClassName="Bad_"),
            _pod(overhead={"cpu": "1"}),
            _pod(hostPID=True, shareProcessNamespace=True),
            _pod(os={"name": "odd"}),
            _pod(readinessGates=[{"conditionType": "a b"}]),
            _pod(schedulingGates=[{"name": "a b"}]),
            _pod(schedulingGates=[{"name": "a"}, {"name": "a"}]),
            _pod(topologySpreadConstraints=[{}]),
            _pod(
                topologySpreadConstraints=[
                    {"maxSkew": 1, "topologyKey": "a b", "whenUnsatisfiable": "Odd", "labelSelector": {}}
                ]
            ),
            _pod(ephemeralContainers=[{"name": "e", "image": "x"}]),
            _pod(tolerations=[{"operator": "Odd"}]),
            _pod(tolerations=[{"key": "a b"}]),
            _pod(tolerations=[{"key": "a", "effect": "Odd"}]),
            _pod(tolerations=[{"key": "a", "tolerationSeconds": 5}]),
            _pod(tolerations=[{"key": "a", "value": "b c", "effect": "NoExecute"}]),
            _pod(tolerations=[{}]),
            _pod(tolerations=[{"key": "a", "operator": "Gt", "value": "x"}]),
            _pod(securityContext={"fsGroup": -1}),
            _pod(securityContext={"runAsUser": -1, "runAsGroup": -1}),
            _pod(securityContext={"supplementalGroups": [-1]}),
            _pod(securityContext={"sysctls": [{"name": "", "value": "x"}]}),
            _pod(securityContext={"fsGroupChangePolicy": "Odd"}),
            _pod(securityContext={"seccompProfile": {"type": "Localhost"}}),
            _pod(securityContext={"supplementalGroupsPolicy": "Odd"}),
            _pod(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
                    }
                }
            ),
            _pod(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "a b", "operator": "In", "values": []}]}
                            ]
                        }
                    }
                }
            ),
            _pod(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Odd"}]}]
                        }
                    }
                }
            ),
            _pod(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}
                            ]
                        }
                    }
                }
            ),
            _pod(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x", "y"]}]}
                            ]
                        }
                    }
                }
            ),
            _pod(
                affinity={
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}]
                    }
                }
            ),
            _pod(resourceClaims=[{"name": "a"}]),
            _pod(
                resourceClaims=[
                    {"name": "a", "resourceClaimName": "x"},
                    {"name": "a", "resourceClaimName": "x"},
                ]
            ),
            _pod(
                resourceClaims=[{"name": "Bad_", "resourceClaimName": "x", "resourceClaimTemplateName": "y"}]
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "resources": {"claims": [{"name": "a", "request": "r"}, {"name": "a", "request": "r"}]},
                },
                resourceClaims=[{"name": "a", "resourceClaimName": "x"}],
            ),
        ],
    ),
    Scenario(
        "what is taken of a pod, but not without a word",
        [
            post(PODS, pod("a.b", {"name": "c", "image": "i"}), dryRun="All"),
            _pod(nodeSelector={"beta.kubernetes.io/os": "linux", "a": "b"}),
            _pod(
                affinity={
                    "nodeAffinity": {
                        _REQUIRED: {"nodeSelectorTerms": [_term("node-role.kubernetes.io/master")]},
                        _PREFERRED: [{"weight": 1, "preference": _term("beta.kubernetes.io/arch")}],
                    }
                }
            ),
            _pod(affinity={"podAffinity": {_REQUIRED: [{"topologyKey": "a"}]}}),
            _pod(
                affinity={
                    "podAntiAffinity": {
                        _PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "a"}}],
                    }
                }
            ),
            _pod(
                topologySpreadConstraints=[
                    {
                        "maxSkew": 1,
                        "topologyKey": "failure-domain.beta.kubernetes.io/zone",
                        "whenUnsatisfiable": "DoNotSchedule",
                    }
                ]
            ),
            _annotated({"scheduler.alpha.kubernetes.io/critical-pod": ""}),
            _pod(volumes=[{"name": "v", "gitRepo": {"repository": "r"}}]),
            _pod(hostAliases=[{"ip": "1.2.3.4", "hostnames": ["a"]}, {"ip": "1.2.3.4", "hostnames": ["b"]}]),
            _pod(imagePullSecrets=[{}, {"name": "a"}, {"name": "a"}]),
            _pod(terminationGracePeriodSeconds=-1),
            _contained(resources={"limits": {"memory": "1500m", "ephemeral-storage": "0.5"}}),
            _contained(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]),
            _contained(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)"}]),
            _contained(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
            _contained(
                env=[
                    {"name": "A", "value": "1"},
                    {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ]
            ),
            _contained(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]),
            _contained(ports=[{"containerPort": 80}, {"containerPort": 80}]),
            _contained(ports=[{"containerPort": 80, "hostPort": 81}, {"containerPort": 80}]),
            _contained(
                ports=[
                    {"containerPort": 80, "hostPort": 81},
                    {"containerPort": 80, "hostPort": 81, "hostIP": "1.2.3.4"},
                ]
            ),
            _contained(ports=[{"containerPort": 80, "hostIP": "1.2.3.4"}]),
            _pod(
                {"name": "a", "image": "i", "ports": [{"containerPort": 80, "name": "http"}]},
                {"name": "b", "image": "i", "ports": [{"containerPort": 81, "name": "http"}]},
            ),
        ],
    ),
    Scenario(
        "of a template the server speaks when it is made, and whenever the specification changes",
        [
            post(DEPLOYMENTS, deployment("a.b", _TWICE, replicas=0)),
            patch("merge", f"{DEPLOYMENTS}/a.b", {"metadata": {"labels": {"a": "b"}}}),
            patch("merge", f"{DEPLOYMENTS}/a.b", {"spec": {"paused": True}}),
            patch("merge", f"{DEPLOYMENTS}/a.b/scale", {"spec": {"replicas": 2}}, dryRun="All"),
            _deployment_lasting(-1),
            post(DAEMON_SETS, {**deployment("a.b", _TWICE), "kind": "DaemonSet"}),
            patch("merge", f"{DAEMON_SETS}/a.b", {"spec": {"minReadySeconds": 5}}),
            patch(
                "merge", f"{DAEMON_SETS}/a.b", {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
            ),
        ],
    ),
]
