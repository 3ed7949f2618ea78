"""Does the control plane know that this node has NVIDIA GPUs.

Pure. On the node the facts come from the PCI bus and the Node object; from outside (`from_outside`) from the
Node object alone, where a node nobody looked at is *undiscovered*, which is not "has no GPU".
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuready.chain.verdict import Link, State, Verdict


@dataclass(frozen=True)
class DiscoveryFacts:
    """What `judge` may know.

    pci_addresses   NVIDIA display and 3D controllers that the kernel shows
    pci_labels      the PCI labels of the Node that say "has an NVIDIA GPU"
    label_source    who writes them: "agent" or "nfd"
    gpu_node        the GPUNode of this node exists
    """

    node: str
    pci_addresses: tuple[str, ...] = ()
    pci_labels: tuple[str, ...] = ()
    label_source: str = "agent"
    gpu_node: bool = False


def judge(facts: DiscoveryFacts) -> Verdict:
    if not facts.pci_addresses:
        return _without_gpus(facts)
    count = (
        f"{len(facts.pci_addresses)} NVIDIA GPU{'s' if len(facts.pci_addresses) > 1 else ''} on the PCI bus"
    )
    if not facts.pci_labels:
        return _unlabelled(facts, count)
    if not facts.gpu_node:
        return _verdict(
            State.WAITING,
            "NoGpuNode",
            f"{count}, labelled; the operator has not made the GPUNode {facts.node} yet",
            evidence=facts.pci_labels,
            next_step="check that the operator runs and that a ClusterPolicy exists",
        )
    return _verdict(State.OK, "Discovered", f"{count}; labels by {facts.label_source}")


def _without_gpus(facts: DiscoveryFacts) -> Verdict:
    if not facts.pci_labels:
        return _verdict(State.OK, "NoGpus", "no NVIDIA GPU on the PCI bus")
    return _verdict(
        State.BROKEN,
        "GpusGone",
        f"node {facts.node} is labelled as having GPUs, but its PCI bus shows none",
        evidence=facts.pci_labels,
        next_step="check with lspci whether the cards are powered and not passed to a virtual machine",
    )


def _unlabelled(facts: DiscoveryFacts, count: str) -> Verdict:
    by_nfd = facts.label_source == "nfd"
    step = "check the Node Feature Discovery worker on this node" if by_nfd else ""
    return _verdict(
        State.WAITING,
        "LabelsMissing",
        f"{count}, but the Node carries no PCI label yet; {facts.label_source} writes it",
        evidence=tuple(f"PCI {address}" for address in facts.pci_addresses),
        next_step=step,
    )


def _verdict(
    state: State, reason: str, message: str, *, evidence: tuple[str, ...] = (), next_step: str = ""
) -> Verdict:
    return Verdict(Link.DISCOVERY, state, reason, message, evidence, next_step)
