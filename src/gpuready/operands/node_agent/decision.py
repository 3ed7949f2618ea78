"""From what the agent sees to what it thinks and wants to be so.

Pure. The same verdicts make gates, labels, status, condition and Events; nothing else decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuready import names
from gpuready.chain import cuda, device_plugin, discovery, driver, toolkit
from gpuready.chain.cdi_specs import SpecFacts
from gpuready.chain.cuda import CudaFacts
from gpuready.chain.device_plugin import PAUSED, PluginFacts
from gpuready.chain.discovery import DiscoveryFacts
from gpuready.chain.driver import DriverFacts, Owner
from gpuready.chain.toolkit import ToolkitFacts
from gpuready.chain.verdict import Link, Verdict
from gpuready.gpu.inventory import Inventory
from gpuready.kube.trimmed import Node
from gpuready.node.links import cuda as proving
from gpuready.node.links import toolkit as toolkit_files
from gpuready.node.links.device_plugin import gpu_quantities, record_of
from gpuready.node.links.discovery import Machine
from gpuready.operands.node_agent.discovery import pci_labels_on
from gpuready.operands.node_agent.settings import LabelSource
from gpuready.operands.node_agent.wishes import Wishes, for_judgement


@dataclass(frozen=True)
class View:
    """Everything the agent knows at one moment.

    node        None until the API server has shown it once
    gpu_node    the GPUNode exists
    inventory   what NVML told of this driver; None when it told nothing
    record      the device plugin's record of this boot, as it stands in the file
    operands    what daemons say that no link speaks for, as rows of GPUNode.status.operands
    toolkit     the toolkit's record of this boot, likewise
    toolkit_gate  the gate toolkit-ready is there
    specs       the CDI specs as they lie here
    toolkit_installed   the runtime's configuration holds something of it
    held        replicas that pods hold, by uuid of the GPU; None when the kubelet was not asked
    cuda        what came of running programs on its GPUs
    settled     nothing about plugin and kubelet has changed for a while
    """

    node_name: str
    boot_id: str
    driver: DriverFacts
    node: Node | None = None
    gpu_node: bool = False
    wishes: Wishes = field(default_factory=Wishes)
    machine: Machine = field(default_factory=Machine)
    inventory: Inventory | None = None
    record: Mapping[str, Any] | None = None
    operands: tuple[Mapping[str, Any], ...] = ()
    toolkit: Mapping[str, Any] | None = None
    toolkit_gate: bool = False
    specs: SpecFacts = field(default_factory=SpecFacts)
    toolkit_installed: bool = False
    held: Mapping[str, int] | None = None
    cuda: proving.Look = field(default_factory=proving.Look)
    settled: bool = True
    label_source: LabelSource = LabelSource.AGENT


@dataclass(frozen=True)
class Judgement:
    """The chain as the agent sees it, in order, and whose driver it is."""

    verdicts: tuple[Verdict, ...]
    owner: Owner
    by_link: Mapping[str, Verdict] = field(default_factory=dict)

    def of(self, link: Link) -> Verdict:
        return self.by_link[link]


def judge(view: View) -> Judgement:
    """All links of this node. "reporting" is judged from outside, by those who do or do not hear from us."""
    driver_verdict = driver.judge(
        replace(view.driver, trouble=view.wishes.driver_trouble, kept_away=view.wishes.driver_kept_away)
    )
    toolkit_verdict = toolkit.judge(_toolkit_facts(view, driver_verdict))
    verdicts = (
        discovery.judge(_discovery_facts(view)),
        driver_verdict,
        toolkit_verdict,
        device_plugin.judge(_plugin_facts(view, driver_verdict, toolkit_verdict)),
        cuda.judge(_cuda_facts(view, driver_verdict)),
    )
    return Judgement(verdicts, driver.owner_of(view.driver), {verdict.link: verdict for verdict in verdicts})


def plugin_is_gone(view: View) -> bool:
    """Nobody serves this node's devices any more: what the plugin wrote can be taken away for good.

    A plugin that stops says so in its record; one that was killed is missed by the kubelet.
    """
    record = record_of(view.record)
    if record is None or not record.registered:
        return True
    shown = gpu_quantities(view.node.status.allocatable) if view.node else {}
    return not any(shown.get(item.name) for item in record.resources)


def _discovery_facts(view: View) -> DiscoveryFacts:
    labels = view.node.metadata.labels if view.node else {}
    return DiscoveryFacts(
        node=view.node_name,
        pci_addresses=view.machine.pci_addresses,
        pci_labels=pci_labels_on(labels),
        label_source=str(view.label_source),
        gpu_node=view.gpu_node,
    )


def _plugin_facts(view: View, driver_verdict: Verdict, toolkit_verdict: Verdict) -> PluginFacts:
    node = view.node
    labels = node.metadata.labels if node else {}
    tree = driver.tree_of(view.driver)
    opted_out = labels.get(names.DEPLOY_OPERANDS) == "false"
    return PluginFacts(
        driver=driver_verdict,
        toolkit=toolkit_verdict,
        desired=for_judgement(view.wishes),
        record=record_of(view.record),
        deploy_label=labels.get(names.DEPLOY_DEVICE_PLUGIN, ""),
        opted_out_by=f"{names.DEPLOY_OPERANDS}=false" if opted_out else "",
        capacity=gpu_quantities(node.status.capacity) if node else {},
        allocatable=gpu_quantities(node.status.allocatable) if node else None,
        driver_version=tree.version,
        settled=view.settled,
    )


def _toolkit_facts(view: View, driver_verdict: Verdict) -> ToolkitFacts:
    labels = view.node.metadata.labels if view.node else {}
    return ToolkitFacts(
        wanted=view.wishes.toolkit_wanted,
        original=view.wishes.original_toolkit,
        kept_away=view.wishes.toolkit_kept_away,
        gate=view.toolkit_gate,
        installed=view.toolkit_installed,
        record=toolkit_files.record_of(view.toolkit),
        deploy_label=labels.get(names.DEPLOY_TOOLKIT, ""),
        plugin_label=labels.get(names.DEPLOY_DEVICE_PLUGIN, ""),
        specs=view.specs,
        strategies=tuple((view.record or {}).get("strategies") or ()),
        has_driver=driver_verdict.is_whole,
    )


def _cuda_facts(view: View, driver_verdict: Verdict) -> CudaFacts:
    labels = view.node.metadata.labels if view.node else {}
    asking = view.cuda.asking
    return CudaFacts(
        driver=driver_verdict,
        wanted=view.wishes.proves_cuda,
        paused=pause_of(view),
        original=view.wishes.gates is False,
        gate=view.cuda.gate,
        validator_label=labels.get(names.DEPLOY_VALIDATOR, ""),
        targets=tuple(each.target for each in asking.subjects) if asking else (),
        proofs=view.cuda.proofs,
        trouble=view.cuda.trouble,
        searched=view.cuda.searched,
        library_version=view.cuda.library,
        module_version=view.driver.module_version,
        uvm_loaded=view.cuda.is_uvm_loaded,
    )


def may_prove(view: View, judgement: Judgement) -> bool:
    """Whether a program may be run on the GPUs now: it is ours to do, and nobody changes the driver."""
    ours = bool(view.wishes.proves_cuda and view.wishes.gates)
    return ours and judgement.of(Link.DRIVER).is_whole and _nobody_minds(view)


def may_go_on_proving(view: View, versions: tuple[str, str]) -> bool:
    """Whether one that runs may stay: it holds device nodes open, and no driver is unloaded then.

    A driver that is not whole for a moment ends none: a program that hangs there may be why.

    versions    of library and kernel module when it was begun; of others it proves nothing
    """
    return _nobody_minds(view) and driver_versions(view.driver) == versions


def _nobody_minds(view: View) -> bool:
    unwanted = view.wishes.uninstall or view.wishes.proves_cuda is False or view.wishes.gates is False
    return not unwanted and not pause_of(view)


def driver_versions(facts: DriverFacts) -> tuple[str, str]:
    """Of its library on the disk, and of the kernel module."""
    return driver.tree_of(facts).version, facts.module_version


def pause_of(view: View) -> str:
    """The label that makes room for another driver; "" = there is none."""
    value = view.node.metadata.labels.get(names.DEPLOY_DEVICE_PLUGIN, "") if view.node else ""
    return f"{names.DEPLOY_DEVICE_PLUGIN}={value}" if value.startswith(PAUSED) else ""
