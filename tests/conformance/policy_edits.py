"""Random edits of a policy, and of the cluster around it: what people change, right and wrong.

The same `random.Random` draws the same edits.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

Object = dict[str, Any]
_OPERANDS = (
    "devicePlugin",
    "driver",
    "toolkit",
    "gfd",
    "dcgmExporter",
    "dcgm",
    "migManager",
    "nodeStatusExporter",
    "validator",
)
# Each field with what it may become; None takes it away.
_OF_AN_OPERAND: Sequence[tuple[str, Sequence[Any]]] = (
    ("enabled", [True, False]),
    ("enabled", [True, False]),
    ("env", [[{"name": "AA", "value": "1"}], [{"name": "BB", "value": "x y"}], None]),
    ("env", [[{"name": "AA", "value": "2"}], None]),
    ("resources", [{"limits": {"cpu": "1000m"}}, {"requests": {"memory": "64Mi"}}, None]),
    ("hostNetwork", [True, False]),
    ("imagePullPolicy", ["Always", "IfNotPresent", None]),
    ("imagePullSecrets", [["there"], ["there", "there2"], ["absent"], None]),
    ("repository", ["registry.example/x", None]),
)
_FIELDS: Sequence[tuple[str, Sequence[Any]]] = (
    (
        "daemonsets.tolerations",
        [
            [{"operator": "Exists"}],
            [{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "team", "operator": "Exists"}],
            [{"key": "team", "value": "ml", "effect": "NoSchedule"}],
            None,
        ],
    ),
    ("daemonsets.labels", [{"a": "b"}, {"a": "c", "app": "hm"}, None]),
    ("daemonsets.annotations", [{"a": "b"}, None]),
    ("daemonsets.priorityClassName", ["system-cluster-critical", "nosuch", None]),
    ("daemonsets.updateStrategy", ["RollingUpdate", "OnDelete"]),
    ("daemonsets.podSecurityContext", [{"fsGroup": 5}, None]),
    ("mig.strategy", ["none", "single", "mixed"]),
    ("cdi.enabled", [True, False]),
    ("psa.enabled", [True, False]),
    ("gpuready.registry", ["mirror.example/a", "mirror.example/b/", None]),
    ("gpuready.imagePullSecrets", [["there"], ["there2"], ["absent"], None]),
    ("gpuready.certConfig.name", ["files", "nosuch", "sharing", None]),
    ("gpuready.images", ["own", "asNamed"]),
    ("devicePlugin.config.name", ["sharing", "sharing2", "nosuch", None]),
    ("devicePlugin.config.default", ["four", "two", "bad", "zzz", None]),
    ("driver.version", ["570.86.10", "570.124.06"]),
    ("driver.kernelModuleType", ["auto", "open", "proprietary"]),
    ("driver.rdma.enabled", [True, False]),
    ("driver.usePrecompiled", [True, False]),
    ("driver.secretEnv", ["there", "absent", None]),
    ("driver.repoConfig.configMapName", ["files", "nosuch", None]),
    ("driver.certConfig.name", ["files", None]),
    ("driver.kernelModuleConfig.name", ["files", None]),
    ("driver.virtualTopology.config", ["files", "nosuch", None]),
    ("driver.licensingConfig.secretName", ["there", None]),
    ("driver.startupProbe.periodSeconds", [3, None]),
    ("gds.enabled", [True, False]),
    ("gdrcopy.enabled", [True, False]),
    ("hostPaths.driverInstallDir", ["/opt/nv", "/run/nvidia/driver", None]),
    ("hostPaths.rootFS", ["/", "/hostroot", None]),
    ("toolkit.installDir", ["/usr/local/nvidia", "/opt/nvidia"]),
    ("operator.runtimeClass", ["nvidia", "nv2"]),
    ("dcgmExporter.serviceMonitor.enabled", [True, False]),
    ("dcgmExporter.service.type", ["NodePort", "ClusterIP", None]),
    ("dcgmExporter.enablePodLabels", [True, False]),
    ("dcgmExporter.config.name", ["files", "metrics", "nosuch", None]),
    ("migManager.config.name", ["files", "nosuch", None]),
    ("sandboxWorkloads.enabled", [True, False]),
)
_AROUND: Sequence[tuple[str, Sequence[Any]]] = (
    ("label nvidia.com/gpu.deploy.device-plugin", ["false", "true", None]),
    ("label nvidia.com/gpu.deploy.operands", ["false", None]),
    ("label nvidia.com/device-plugin.config", ["four", "two", "bad", "zzz", None]),
    ("taints", [[{"key": "team", "value": "ml", "effect": "NoSchedule"}], []]),
    ("taints", [[{"key": "x", "effect": "NoSchedule"}], []]),
    ("files", [{"ca-bundle.crt": "x"}, {"ca-bundle.crt": "y", "more": "z"}, {"other": "w"}]),
)


def edited(spec: Object, rng: random.Random) -> tuple[Object, list[str]]:
    """Another spec of the policy, by one to three edits, and what they are."""
    found, said = copy.deepcopy(spec), []
    for _ in range(rng.choice((1, 1, 2, 3))):
        path, value = _drawn(rng)
        _put(found, path.split("."), value)
        said.append(f"{path}={value!r}")
    return found, said


def edit_around(rng: random.Random, nodes: Sequence[str]) -> tuple[str, str, Any]:
    """(node, what, value): "label KEY", "taints" or what the ConfigMap "files" holds; None takes it away."""
    what, values = rng.choice(_AROUND)
    return rng.choice(nodes), what, rng.choice(values)


def _drawn(rng: random.Random) -> tuple[str, Any]:
    if rng.random() < 0.5:
        field, values = rng.choice(_OF_AN_OPERAND)
        operand = rng.choice([each for each in _OPERANDS if (each, field) != ("validator", "enabled")])
        return f"{operand}.{field}", rng.choice(values)
    path, values = rng.choice(_FIELDS)
    return path, rng.choice(values)


def _put(spec: Object, steps: Sequence[str], value: Any) -> None:
    *parents, last = steps
    inner = spec
    for step in parents:
        inner = inner.setdefault(step, {})
    if value is None:
        inner.pop(last, None)
    else:
        inner[last] = copy.deepcopy(value)
    if last == "repository":  # an image has three parts, or none
        for name, part in (("image", "thing"), ("version", "v1")):
            _put(spec, [*parents, name], None if value is None else part)
