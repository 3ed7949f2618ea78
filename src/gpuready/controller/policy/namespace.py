"""Labels of the operator's own namespace: that privileged pods may run there. Pure.

As in the original, what has been set stays when `spec.psa.enabled` is taken back: pods that run may need it.
When no policy is left it goes: a key that still holds our value gets back what it held before.

Source: gpu-operator v26.3.3, controllers/state_manager.go (setPodSecurityLabelsForNamespace).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy

_PREFIX = "pod-security.kubernetes.io/"
_VALUE = "privileged"
# Source: kubernetes, apimachinery/pkg/api/validate/content (IsLabelValue)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_KEYS = tuple(f"{_PREFIX}{mode}" for mode in ("enforce", "audit", "warn"))

Metadata = Mapping[str, Any]
Patch = dict[str, dict[str, str | None]]  # what to merge into the namespace's metadata


def labelled(policy: ClusterPolicy, metadata: Metadata) -> Patch | None:
    """What to write on the namespace; None when there is nothing to write."""
    if not policy.spec.psa.enabled:
        return None
    labels = metadata.get("labels") or {}
    missing = [key for key in _KEYS if labels.get(key) != _VALUE]
    if not missing:
        return None
    noted = _noted(metadata) | {key: labels.get(key) for key in missing}
    text = json.dumps(noted, sort_keys=True, separators=(",", ":"))
    return {
        "labels": dict.fromkeys(missing, _VALUE),
        "annotations": {names.NAMESPACE_LABELS_ANNOTATION: text},
    }


def given_back(metadata: Metadata) -> Patch | None:
    """What takes away whatever `labelled` has written and nobody has changed since; None for nothing."""
    if names.NAMESPACE_LABELS_ANNOTATION not in (metadata.get("annotations") or {}):
        return None
    labels = metadata.get("labels") or {}
    before = {key: value for key, value in _noted(metadata).items() if labels.get(key) == _VALUE}
    note: dict[str, str | None] = {names.NAMESPACE_LABELS_ANNOTATION: None}
    return {**({"labels": before} if before else {}), "annotations": note}


def _noted(metadata: Metadata) -> dict[str, str | None]:
    """Empty where it was spoiled: what we cannot be sure to have written is not ours.

    What can be no label was never there before: it would have the whole patch refused, at every attempt.
    """
    try:
        row = json.loads((metadata.get("annotations") or {}).get(names.NAMESPACE_LABELS_ANNOTATION, ""))
    except (ValueError, RecursionError):
        return {}
    found = row if isinstance(row, dict) else {}
    return {key: value for key, value in found.items() if key in _KEYS and _may_stand(value)}


def _may_stand(value: Any) -> bool:
    return value is None or (isinstance(value, str) and _LABEL_VALUE.fullmatch(value) is not None)
