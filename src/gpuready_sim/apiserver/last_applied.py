"""The annotation in which kubectl keeps what its client-side apply has applied."""

from __future__ import annotations

import json

from gpuready_sim.apiserver.failures import Obj

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def with_last_applied(merged: Obj, applied: Obj) -> Obj:
    """kubectl's own server-side apply keeps the annotation of its client-side apply true, where there is one.

    Source: kubernetes, apimachinery pkg/util/managedfields/internal/lastappliedupdater.go.
    """
    annotations = merged["metadata"].get("annotations") or {}
    if LAST_APPLIED not in annotations:
        return merged
    meta = {key: value for key, value in applied["metadata"].items() if key != "managedFields"}
    own = {key: value for key, value in (meta.pop("annotations", None) or {}).items() if key != LAST_APPLIED}
    said = applied | {"metadata": meta | ({"annotations": own} if own else {})}
    text = json.dumps(said, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"
    return merged | {"metadata": merged["metadata"] | {"annotations": annotations | {LAST_APPLIED: text}}}
