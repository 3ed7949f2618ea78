"""Pods that cannot be, one field after the other: their containers."""

from __future__ import annotations

from typing import Any

from ..transcript import Ask, Scenario
from .words import PODS, pod, post


def _pod(*containers: dict[str, Any], **spec: Any) -> Ask:
    return post(PODS, pod("p", *containers, **spec), dryRun="All")


SCENARIOS = [
    Scenario(
        "names, ports, restarts and variables of containers that cannot be",
        [
            _pod({"image": "x"}),
            _pod({"name": "a", "image": "x"}, {"name": "a", "image": "x"}),
            _pod({"name": "a"}),
            _pod({"name": "a", "image": ""}),
            _pod({"name": "a", "image": " x"}),
            _pod({}),
            _pod({"name": "A_b", "image": "x"}),
            _pod({"name": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "image": "x"}),
            _pod({"name": "a", "image": "x"}, initContainers=[{"image": "x"}]),
            _pod({"name": "a", "image": "x"}, initContainers=[{"name": "a", "image": "x"}]),
            _pod(
                {"name": "a", "image": "x"},
                initContainers=[
                    {
                        "name": "i",
                        "image": "x",
                        "lifecycle": {"preStop": {"exec": {"command": ["x"]}}},
                        "livenessProbe": {"exec": {"command": ["x"]}},
                    }
                ],
            ),
            _pod(
                {"name": "a", "image": "x"},
                initContainers=[
                    {
                        "name": "i",
                        "image": "x",
                        "restartPolicy": "Always",
                        "readinessProbe": {"exec": {"command": ["x"]}},
                    }
                ],
            ),
            _pod(
                {"name": "a", "image": "x"},
                initContainers=[{"name": "i", "image": "x", "restartPolicy": "Never"}],
            ),
            _pod({"name": "a", "image": "x", "restartPolicy": "Always"}),
            _pod({"name": "a", "image": "x", "restartPolicy": "Odd"}),
            _pod({"name": "a", "image": "x", "ports": [{"containerPort": 0}]}),
            _pod({"name": "a", "image": "x", "ports": [{"name": "Bad_", "containerPort": 80}]}),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "ports": [{"name": "a", "containerPort": 80}, {"name": "a", "containerPort": 81}],
                }
            ),
            _pod({"name": "a", "image": "x", "ports": [{"containerPort": 80, "hostPort": 70000}]}),
            _pod({"name": "a", "image": "x", "ports": [{"containerPort": 80, "protocol": "Odd"}]}),
            _pod(
                {"name": "a", "image": "x", "ports": [{"containerPort": 80, "hostPort": 81}]},
                hostNetwork=True,
            ),
            _pod(
                {"name": "a", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80}]},
                {"name": "b", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80}]},
            ),
            _pod(
                {"name": "a", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "x"}]}
            ),
            _pod({"name": "a", "image": "x", "env": [{"name": ""}]}),
            _pod({"name": "a", "image": "x", "env": [{"name": "a=b"}]}),
            _pod({"name": "a", "image": "x", "env": [{"name": "a b.c-d"}]}),
            _pod({"name": "a", "image": "x", "env": [{"name": "x", "valueFrom": {}}]}),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "env": [{"name": "x", "valueFrom": {"configMapKeyRef": {"name": "", "key": ""}}}],
                }
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "env": [{"name": "x", "valueFrom": {"secretKeyRef": {"name": "Bad_", "key": "a b"}}}],
                }
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "env": [
                        {
                            "name": "x",
                            "valueFrom": {
                                "fieldRef": {"fieldPath": "metadata.name"},
                                "secretKeyRef": {"name": "a", "key": "b"},
                            },
                        }
                    ],
                }
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "env": [{"name": "x", "valueFrom": {"resourceFieldRef": {"resource": "limits.odd"}}}],
                }
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "env": [{"name": "x", "valueFrom": {"resourceFieldRef": {"resource": ""}}}],
                }
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "env": [
                        {"name": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a b']"}}}
                    ],
                }
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "env": [
                        {
                            "name": "x",
                            "valueFrom": {"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}},
                        }
                    ],
                }
            ),
            _pod({"name": "a", "image": "x", "envFrom": [{}]}),
            _pod({"name": "a", "image": "x", "envFrom": [{"prefix": "1=", "configMapRef": {"name": "a"}}]}),
            _pod({"name": "a", "image": "x", "envFrom": [{"configMapRef": {"name": ""}}]}),
        ],
    ),
]
