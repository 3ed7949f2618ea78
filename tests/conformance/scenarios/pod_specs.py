"""Pods that cannot be, one field after the other: their volumes, and where and how they run."""

from __future__ import annotations

from typing import Any

from ..transcript import Ask, Scenario
from .words import PODS, pod, post


def _pod(*containers: dict[str, Any], **spec: Any) -> Ask:
    return post(PODS, pod("p", *containers, **spec), dryRun="All")


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
]
