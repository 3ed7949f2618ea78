"""How a container of the original's images comes to see every GPU of its node. Pure.

By the RuntimeClass whose handler the toolkit installs, or, with the NRI plugin, by an annotation.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import ClusterView, NodeFacts

CONTAINERD, CRIO, DOCKER = "containerd", "crio", "docker"
_SCHEMES = {"containerd": CONTAINERD, "cri-o": CRIO, "docker": DOCKER}


def runtime_of(view: ClusterView) -> str:
    """The container runtime of the GPU nodes. One DaemonSet serves all of them, as in the original."""
    return runtime_among(view.gpu_nodes)


def runtime_among(nodes: Iterable[NodeFacts]) -> str:
    """containerd where any of them has it, or where none is known.

    Source: state_manager.go:815.
    """
    found = [_SCHEMES.get(node.runtime.partition(":")[0], "") for node in nodes]
    known = [runtime for runtime in found if runtime]
    return CONTAINERD if CONTAINERD in known or not known else known[-1]


def runtime_class(policy: ClusterPolicy, view: ClusterView) -> str:
    """runtimeClassName of pods that use GPUs; "" where there is no handler of that name.

    Source: operator.md §3.4, last row.
    """
    cdi = policy.spec.cdi
    if cdi.nri_plugin_enabled or (not cdi.enabled and runtime_of(view) == CRIO):
        return ""
    return policy.spec.operator.runtime_class or "nvidia"


def pod_annotations(policy: ClusterPolicy, container: str) -> dict[str, str]:
    """What asks the NRI plugin for the node's GPUs."""
    if not policy.spec.cdi.nri_plugin_enabled:
        return {}
    return {f"nvidia.cdi.k8s.io/container.{container}": "management.nvidia.com/gpu=all"}


def mig_env(policy: ClusterPolicy) -> dict[str, str]:
    """Environment of programs that name MIG devices or watch all of them."""
    strategy = policy.spec.mig.strategy
    env = {"MIG_STRATEGY": strategy} if strategy else {}
    return env if strategy == "none" else {**env, "NVIDIA_MIG_MONITOR_DEVICES": "all"}


def cdi_hook_env(policy: ClusterPolicy) -> dict[str, str]:
    """Where the toolkit puts the program that CDI specs call; nothing without a toolkit."""
    toolkit = policy.spec.toolkit
    if not (policy.spec.cdi.enabled and toolkit.enabled):
        return {}
    return {"NVIDIA_CDI_HOOK_PATH": f"{toolkit.install_dir.rstrip('/')}/toolkit/nvidia-cdi-hook"}
