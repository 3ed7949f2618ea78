"""What each operand of ours brings, and what each switch of the policy changes of it.

golden/<operand>.yaml is what `gpuready render` prints of it for a policy that says little; golden/<operand>/
has one file for each toggle, with the lines that it changes. `GOLDEN_RECORD=1 pytest tests/unit/operands`
writes them anew; a change of a manifest is to be read there.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.controller.policies import raw

from gpuready import names
from gpuready.controller.policy.active import read
from gpuready.controller.policy.plan import plan_of
from gpuready.operands.contract import ClusterView, NodeFacts
from gpuready.operands.node_agent import manifest as node_agent
from gpuready.yaml_text import dump_yaml_documents

GOLDEN = Path(__file__).parent / "golden"
BASE: dict[str, Any] = {
    "driver": {"version": "570.86.10"},
    "toolkit": {"enabled": True},
    "dcgmExporter": {"enabled": True},
}
CONFIGS = {"files": {"a.conf": "x", "b.conf": "y"}, "metrics": {"dcgm-metrics.csv": "DCGM_FI_DEV_SM_CLOCK"}}
ENV = [{"name": "A", "value": "b"}]
RESOURCES = {"limits": {"memory": "128Mi"}, "requests": {"cpu": "10m"}}


def facts(name: str, os: str, kernel: str = "5.15.0-116-generic") -> NodeFacts:
    os_id, version = os.split()
    labels = {
        names.DEPLOY_DRIVER: "true",
        names.OS_ID_LABEL: os_id,
        names.OS_VERSION_LABEL: version,
        names.KERNEL_LABEL: kernel,
    }
    return NodeFacts(name, labels, kernel=kernel, runtime="containerd://2.2.1")


UBUNTU = facts("g1", "ubuntu 22.04")
MIXED = (UBUNTU, facts("g2", "rhel 9.4", "5.14.0-427.el9.x86_64"))
IN_COMMON = {
    "env": {"env": ENV},
    "resources": {"resources": RESOURCES},
    "host-network": {"hostNetwork": True},
    "pull-policy-and-secrets": {"imagePullPolicy": "Always", "imagePullSecrets": ["mine"]},
}


def of_block(block: str) -> dict[str, dict[str, Any]]:
    return {toggle: {block: settings} for toggle, settings in IN_COMMON.items()}


TOGGLES: dict[str, dict[str, dict[str, Any]]] = {
    "runtime-classes": {
        "nri-plugin": {"cdi": {"nriPluginEnabled": True}},
        "without-cdi": {"cdi": {"enabled": False}},
        "another-name": {"operator": {"runtimeClass": "gpu"}},
    },
    "operator-metrics": {
        "monitor": {"operator": {"metrics": {"serviceMonitor": {"interval": "30s", "honorLabels": True}}}},
    },
    "driver": {
        **of_block("driver"),
        "precompiled": {"driver": {"usePrecompiled": True}},
        "open-modules": {"driver": {"kernelModuleType": "open"}},
        "args": {"driver": {"args": ["init", "-m"]}},
        "repositories-and-certificates": {
            "driver": {"repoConfig": {"configMapName": "files"}, "certConfig": {"name": "files"}}
        },
        "licence-and-topology": {
            "driver": {
                "licensingConfig": {"secretName": "licence", "nlsEnabled": True},
                "virtualTopology": {"config": "topology"},
            }
        },
        "kernel-modules": {"driver": {"kernelModuleConfig": {"name": "files"}}},
        "secret-env": {"driver": {"secretEnv": "secret"}},
        "startup-probe": {"driver": {"startupProbe": {"initialDelaySeconds": 9, "periodSeconds": 8}}},
        "two-systems": {},
    },
    "toolkit": {
        **of_block("toolkit"),
        "install-dir": {"toolkit": {"installDir": "/opt/nvidia"}},
        "without-cdi": {"cdi": {"enabled": False}},
        "host-paths": {"hostPaths": {"rootFS": "/host/root", "driverInstallDir": "/opt/driver"}},
    },
    "device-plugin": {
        **of_block("devicePlugin"),
        "mig": {"mig": {"strategy": "mixed"}},
        "without-cdi": {"cdi": {"enabled": False}},
        "gds-and-gdrcopy": {"gds": {"enabled": True}, "gdrcopy": {"enabled": True}},
        "kubelet-elsewhere": {"hostPaths": {"kubeletRootDir": "/data/kubelet"}},
        "all-daemonsets": {
            "daemonsets": {
                "labels": {"team": "ml"},
                "annotations": {"note": "x"},
                "tolerations": [{"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}],
                "priorityClassName": "gpu",
                "podSecurityContext": {"fsGroup": 5},
                "rollingUpdate": {"maxUnavailable": "30%"},
            }
        },
        "by-hand": {"daemonsets": {"updateStrategy": "OnDelete"}},
        "site": {
            "gpuready": {
                "registry": "mirror.example.com",
                "imagePullSecrets": ["site"],
                "certConfig": {"name": "cas"},
            }
        },
    },
    "dcgm-exporter": {
        **of_block("dcgmExporter"),
        "args": {"dcgmExporter": {"args": ["--collect-interval", "1000"]}},
        "metrics": {"dcgmExporter": {"config": {"name": "metrics"}}},
        "service": {"dcgmExporter": {"service": {"type": "NodePort", "internalTrafficPolicy": "Local"}}},
        "monitor": {"dcgmExporter": {"serviceMonitor": {"enabled": True, "interval": "15s"}}},
        "labels-of-pods": {
            "dcgmExporter": {
                "enablePodLabels": True,
                "enablePodUID": True,
                "podLabelAllowlistRegex": ["^app$"],
            }
        },
        "jobs": {"dcgmExporter": {"hpcJobMapping": {"enabled": True}}},
    },
    "node-agent": {
        "host-paths": {"hostPaths": {"rootFS": "/host/root", "driverInstallDir": "/opt/driver"}},
        "feature-discovery": {},
        "site": {"gpuready": {"registry": "mirror.example.com", "imagePullSecrets": ["site"]}},
    },
}
# What the cluster has, where the toggle is none of the policy.
NODES = {("driver", "two-systems"): MIXED, ("driver", "precompiled"): MIXED}
WITH_NFD = ("node-agent", "feature-discovery")


def objects_of(operand: str, spec: dict[str, Any], toggle: str = "") -> str:
    active = read(
        raw(**{block: {**BASE.get(block, {}), **spec.get(block, {})} for block in {**BASE, **spec}})
    )
    assert active.policy is not None, active.problems
    view = ClusterView(
        "gpu-operator",
        "gpuready:1",
        NODES.get((operand, toggle), (UBUNTU,)),
        nfd_present=(operand, toggle) == WITH_NFD,
        configs=CONFIGS,
        service_monitors=True,
    )
    plan = plan_of(active, active.policy, view)
    planned = {each.operand.name: each.objects for each in plan.operands} | {node_agent.NAME: plan.agent}
    return dump_yaml_documents(list(planned[operand]))


def compared(text: str, file: Path) -> None:
    if os.environ.get("GOLDEN_RECORD"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert text == file.read_text(), "if this is meant: GOLDEN_RECORD=1 pytest tests/unit/operands"


@pytest.mark.parametrize("operand", TOGGLES)
def test_an_operand_is_as_recorded(operand: str) -> None:
    compared(objects_of(operand, {}), GOLDEN / f"{operand}.yaml")


@pytest.mark.parametrize(
    ("operand", "toggle"), [(operand, toggle) for operand, found in TOGGLES.items() for toggle in found]
)
def test_a_toggle_changes_what_is_recorded(operand: str, toggle: str) -> None:
    before = objects_of(operand, {}).splitlines()
    after = objects_of(operand, TOGGLES[operand][toggle], toggle).splitlines()
    lines = list(difflib.unified_diff(before, after, "as it is", toggle, lineterm="", n=2))
    assert lines, "a toggle that changes nothing is none"
    compared("\n".join(lines) + "\n", GOLDEN / operand / f"{toggle}.diff")
