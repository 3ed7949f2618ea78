"""Policies for tests: as the tutorials write them, and builders."""

from __future__ import annotations

from typing import Any

from gpuready.yaml_text import parse_yaml

TUTORIAL = """
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata:
  name: cluster-policy
spec:
  driver:
    enabled: true
    version: "570.86.10"
  toolkit:
    enabled: true
    version: v1.17.3
  devicePlugin:
    enabled: true
    version: v0.17.0
    config:
      name: time-slicing-config
      default: any
  dcgmExporter:
    enabled: true
    serviceMonitor:
      enabled: true
      interval: 15s
  migManager:
    enabled: true
    config:
      name: custom-mig-config
  gfd:
    enabled: true
  nfd:
    enabled: true
"""


def tutorial() -> dict[str, Any]:
    found: dict[str, Any] = parse_yaml(TUTORIAL)
    return found


def policy(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}, "spec": spec}
