"""Labels of the operator's own namespace: that privileged pods may run there. Pure.

As in the original, what has been set stays when `spec.psa.enabled` is taken back: pods that run may need it.

Source: gpu-operator v26.3.3, controllers/state_manager.go (setPodSecurityLabelsForNamespace).
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuready.api.clusterpolicy import ClusterPolicy

_PREFIX = "pod-security.kubernetes.io/"
_PRIVILEGED = {f"{_PREFIX}{mode}": "privileged" for mode in ("enforce", "audit", "warn")}


def missing_labels(policy: ClusterPolicy, labels: Mapping[str, str]) -> dict[str, str]:
    """What to write on the namespace; empty when there is nothing to write."""
    if not policy.spec.psa.enabled:
        return {}
    return {key: value for key, value in _PRIVILEGED.items() if labels.get(key) != value}
