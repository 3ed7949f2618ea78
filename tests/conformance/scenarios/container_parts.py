"""Pods that cannot be, one field after the other: mounts, probes, rights."""

from __future__ import annotations

from typing import Any

from ..transcript import Ask, Scenario
from .words import PODS, pod, post


def _pod(*containers: dict[str, Any], **spec: Any) -> Ask:
    return post(PODS, pod("p", *containers, **spec), dryRun="All")


SCENARIOS = [
    Scenario(
        "mounts, probes, rights and resources of containers that cannot be",
        [
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "envFrom": [{"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}],
                }
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}],
                },
                volumes=[{"name": "v", "emptyDir": {}}],
            ),
            _pod({"name": "a", "image": "x", "volumeMounts": [{"name": "", "mountPath": ""}]}),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "/x"}],
                },
                volumes=[{"name": "v", "emptyDir": {}}],
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "../x"}],
                },
                volumes=[{"name": "v", "emptyDir": {}}],
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "volumeMounts": [{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}],
                },
                volumes=[{"name": "v", "emptyDir": {}}],
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "volumeMounts": [{"name": "v", "mountPath": "/a", "mountPropagation": "Odd"}],
                },
                volumes=[{"name": "v", "emptyDir": {}}],
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "x", "subPathExpr": "y"}],
                },
                volumes=[{"name": "v", "emptyDir": {}}],
            ),
            _pod(
                {"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "a:b"}]},
                volumes=[{"name": "v", "emptyDir": {}}],
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "volumeMounts": [{"name": "v", "mountPath": "/a", "recursiveReadOnly": "Enabled"}],
                },
                volumes=[{"name": "v", "emptyDir": {}}],
            ),
            _pod({"name": "a", "image": "x", "volumeDevices": [{"name": "v", "devicePath": "/x"}]}),
            _pod({"name": "a", "image": "x", "lifecycle": {"preStop": {}}}),
            _pod({"name": "a", "image": "x", "lifecycle": {"postStart": {"exec": {}}}}),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "lifecycle": {"preStop": {"exec": {"command": ["a"]}, "sleep": {"seconds": 1}}},
                }
            ),
            _pod({"name": "a", "image": "x", "lifecycle": {"preStop": {"sleep": {"seconds": -1}}}}),
            _pod(
                {"name": "a", "image": "x", "lifecycle": {"preStop": {"httpGet": {"path": "", "port": 80}}}}
            ),
            _pod({"name": "a", "image": "x", "livenessProbe": {"exec": {}}}),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "livenessProbe": {"httpGet": {"path": "", "port": "abcdefghijklmnopqrst"}},
                }
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "livenessProbe": {"httpGet": {"path": "/", "port": 80, "scheme": "odd"}},
                }
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "livenessProbe": {
                        "httpGet": {"path": "/", "port": 80, "httpHeaders": [{"name": "a b", "value": ""}]}
                    },
                }
            ),
            _pod({"name": "a", "image": "x", "livenessProbe": {"grpc": {"port": 0}}}),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "startupProbe": {"tcpSocket": {"port": 0}, "exec": {"command": ["a"]}},
                }
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "readinessProbe": {"exec": {"command": ["a"]}, "terminationGracePeriodSeconds": 5},
                }
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "startupProbe": {"exec": {"command": ["a"]}, "successThreshold": 2},
                }
            ),
            _pod({"name": "a", "image": "x", "terminationMessagePolicy": "Odd"}),
            _pod(
                {"name": "a", "image": "x", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "Odd"}]}
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "resizePolicy": [{"resourceName": "odd", "restartPolicy": "NotRequired"}],
                }
            ),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "securityContext": {"privileged": True, "allowPrivilegeEscalation": False},
                }
            ),
            _pod({"name": "a", "image": "x", "securityContext": {"runAsUser": -1}}),
            _pod({"name": "a", "image": "x", "securityContext": {"procMount": "Odd"}}),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "securityContext": {
                        "capabilities": {"add": ["CAP_SYS_ADMIN"]},
                        "allowPrivilegeEscalation": False,
                    },
                }
            ),
            _pod({"name": "a", "image": "x", "securityContext": {"seccompProfile": {"type": "Odd"}}}),
            _pod({"name": "a", "image": "x", "securityContext": {"seccompProfile": {"type": "Localhost"}}}),
            _pod({"name": "a", "image": "x", "securityContext": {"appArmorProfile": {"type": "Localhost"}}}),
            _pod({"name": "a", "image": "x", "resources": {"limits": {"cpu": "-1"}}}),
            _pod({"name": "a", "image": "x", "resources": {"limits": {"odd": "1"}}}),
            _pod(
                {"name": "a", "image": "x", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
            ),
            _pod({"name": "a", "image": "x", "resources": {"requests": {"memory": "1.5"}}}),
            _pod({"name": "a", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "-1"}}}),
            _pod(
                {
                    "name": "a",
                    "image": "x",
                    "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "0"}},
                }
            ),
            _pod({"name": "a", "image": "x", "resources": {"limits": {"hugepages-2Mi": "4Mi"}}}),
            _pod({"name": "a", "image": "x", "resources": {"claims": [{"name": "x"}]}}),
            _pod({"name": "a", "image": "x", "resources": {"limits": {"bad key/x": "1"}}}),
            _pod({"name": "a", "image": "x", "resources": {"limits": {"/x": "1"}}}),
            _pod({"name": "a", "image": "x", "resources": {"limits": {"kubernetes.io/x": "1"}}}),
            _pod({"name": "a", "image": "x", "resources": {"limits": {"requests.nvidia.com/gpu": "1"}}}),
            _pod({"name": "a", "image": "x", "resources": {"limits": {"ephemeral-storage": "1"}}}),
        ],
    ),
]
