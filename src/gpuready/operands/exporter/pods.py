"""What the node's own files tell of pods: their uids, and which pod a process belongs to. No API server.

The kubelet names a pod's log directory `namespace_name_uid`, and a process's cgroup holds the uid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from gpuready.gpu.tree import Tree
from gpuready.operands.exporter.attribution import Pairs
from gpuready.operands.exporter.exposition import label_name
from gpuready.operands.exporter.usage import pod_uid_of

POD_LOGS = "/var/log/pods"
PodKey = tuple[str, str]  # namespace, name

_OURS = ("gpu", "UUID", "uuid", "device", "modelName", "pod", "namespace", "container", "Hostname", "pod_uid")


def pods_by_uid(host: Tree) -> dict[str, PodKey]:
    """Every pod the node has logs of; a name never holds an underscore, so the directory's name is plain."""
    found: dict[str, PodKey] = {}
    for entry in host.names_in(POD_LOGS):
        namespace, _, rest = entry.partition("_")
        name, _, uid = rest.partition("_")
        if uid:
            found[uid] = (namespace, name)
    return found


def pods_of(host: Tree, pids: Iterable[int], by_uid: Mapping[str, PodKey]) -> dict[int, PodKey]:
    """pid -> its pod, for those that are in one. One that ends meanwhile is in none."""
    found: dict[int, PodKey] = {}
    for pid in sorted(set(pids)):
        uid = pod_uid_of(host.read_text(f"/proc/{pid}/cgroup") or "")
        if uid in by_uid:
            found[pid] = by_uid[uid]
    return found


def uids_of(by_uid: Mapping[str, PodKey], host: Tree) -> dict[PodKey, str]:
    """A pod of the same name may have been there before: the newest directory is the one that lives."""
    found: dict[PodKey, str] = {}
    for uid, pod in by_uid.items():
        if pod not in found or _made(host, pod, uid) > _made(host, pod, found[pod]):
            found[pod] = uid
    return found


def label_pairs(labels: Mapping[str, str], allowed: Sequence[re.Pattern[str]]) -> Pairs:
    """A pod's labels under names that Prometheus takes; all where nothing is allowed in particular.

    A name that means something else here gets `label_` before it.
    """
    rows: dict[str, str] = {}
    for key, value in sorted(labels.items()):
        if allowed and not any(pattern.search(key) for pattern in allowed):
            continue
        name = label_name(key)
        rows.setdefault(f"label_{name}" if name in _OURS else name, value)
    return tuple(rows.items())


def _made(host: Tree, pod: PodKey, uid: str) -> float:
    try:
        return host.resolve(f"{POD_LOGS}/{pod[0]}_{pod[1]}_{uid}").stat().st_mtime
    except OSError:
        return 0.0
