"""The ConfigMap with the driver container's startup probe, and the volume and mount that show it. Pure."""

from __future__ import annotations

from gpuready.api.blocks import Probe
from gpuready.operands.contract import ClusterView, KubeObject

CONFIG = "nvidia-driver-startup-probe"
SCRIPT = "startup-probe.sh"
VOLUME = "driver-startup-probe-script"


def config(view: ClusterView, labels: dict[str, str] | None = None) -> KubeObject:
    metadata: KubeObject = {"name": CONFIG, "namespace": view.namespace}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {SCRIPT: _TEXT}}


def volume() -> KubeObject:
    return {"name": VOLUME, "configMap": {"name": CONFIG, "defaultMode": 0o755}}


def mount() -> KubeObject:
    return {"name": VOLUME, "mountPath": f"/usr/local/bin/{SCRIPT}", "subPath": SCRIPT}


def probe(standard: dict[str, int], asked: Probe) -> KubeObject:
    """The probe with `standard` under API names, and what the policy gives over it; 0 means not given."""
    given = {
        "initialDelaySeconds": asked.initial_delay_seconds,
        "periodSeconds": asked.period_seconds,
        "timeoutSeconds": asked.timeout_seconds,
        "failureThreshold": asked.failure_threshold,
        "successThreshold": asked.success_threshold,
    }
    command = ["sh", f"/usr/local/bin/{SCRIPT}"]
    return {
        "exec": {"command": command},
        **standard,
        **{name: value for name, value in given.items() if value},
    }


# Source for the contract (files and contents): gpu-operator v26.3.3, assets/state-driver; the text is ours.
_TEXT = """\
#!/bin/sh
# Ready means: the module is loaded and nvidia-smi can talk to it.
set -eu
ready=/run/nvidia/validations/.driver-ctr-ready
test -e /sys/module/nvidia/refcnt
nvidia-smi >/dev/null
mkdir -p "$(dirname "$ready")"
{
  echo "GDRCOPY_ENABLED: ${GDRCOPY_ENABLED:-false}"
  echo "GDS_ENABLED: ${GDS_ENABLED:-false}"
  echo "GPU_DIRECT_RDMA_ENABLED: ${GPU_DIRECT_RDMA_ENABLED:-false}"
} >"$ready.tmp"
mv "$ready.tmp" "$ready"
"""
