"""What a status is made of: the cluster as the caches hold it at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuready.controller.nodes.summary import GPUNodeSummary
from gpuready.kube.trimmed import Taint


@dataclass(frozen=True, slots=True)
class KeptAway:
    """Who would look for GPUs on a node, and the taints that he does not tolerate ("key=value:Effect")."""

    daemonset: str
    taints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as the status sees it.

    silence       why nobody speaks for it at this moment, "" when its agent does
    silent        that has lasted: what was known of its GPUs no longer counts
    undiscovered  a node that is Ready, and nobody has looked for GPUs there
    kept_away     why nobody will
    cordoned, ready, taints   as the cluster has it; told of GPU nodes
    """

    name: str
    labels: Mapping[str, str]
    silence: str = ""
    silent: bool = False
    undiscovered: bool = False
    kept_away: KeptAway | None = None
    cordoned: bool = False
    ready: bool = True
    taints: Sequence[Taint] = ()


@dataclass(frozen=True)
class Observed:
    """What the caches hold.

    daemonsets   by name: the whole object with its status
    failures     object "Kind/name" -> why it could not be written, from the last pass
    troubles     what else fails: what cannot be read, which nodes cannot be written, each with its reason
    """

    nodes: Sequence[NodeView]
    gpu_nodes: Mapping[str, GPUNodeSummary]
    daemonsets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    troubles: Sequence[str] = ()
    agent_name: str = ""
    own_image: str = ""
