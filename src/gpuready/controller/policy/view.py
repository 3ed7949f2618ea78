"""What manifests may know of the cluster. Pure: from objects, wherever they were read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.controller.labelling.decision import is_gpu_node
from gpuready.kube.trimmed import Node
from gpuready.operands.contract import ClusterView, NodeFacts
from gpuready.operands.driver.manifest import POOL_LABEL
from gpuready.operands.driver.pools import os_tag_of


def view_of(
    nodes: Iterable[Node],
    *,
    namespace: str,
    own_image: str,
    base_driver: Mapping[str, Any] | None,
    configs: Iterable[Mapping[str, Any]] = (),
    existing: Mapping[str, Collection[str]] | None = None,
    service_monitors: bool = False,
    nfd_may_run: bool = True,
    images: Mapping[str, str] | None = None,
    leaving: frozenset[str] = frozenset(),
) -> ClusterView:
    """The view from objects of the cluster.

    base_driver        the DaemonSet with the driver's plain name, None when there is none
    configs            the namespace's ConfigMaps
    existing           as in `ClusterView`
    service_monitors   the API server knows Prometheus' ServiceMonitor
    nfd_may_run        False: of node-feature-discovery only labels are left, and nobody looks at new nodes
    images             the operator's environment, for images that the policy leaves open
    leaving            as in `ClusterView`
    """
    ordered = sorted(nodes, key=lambda node: node.metadata.name)
    gpu_nodes = tuple(facts_of(node) for node in ordered if is_gpu_node(node.metadata.labels))
    return ClusterView(
        namespace=namespace,
        own_image=own_image,
        gpu_nodes=gpu_nodes,
        nfd_present=nfd_may_run and any(is_labelled_by_nfd(node) for node in ordered),
        base_driver_pool=pool_served_by(base_driver or {}, gpu_nodes),
        configs={config["metadata"]["name"]: files_of(config) for config in configs},
        existing=existing or {},
        service_monitors=service_monitors,
        images=images or {},
        leaving=leaving,
    )


def pool_served_by(driver: Mapping[str, Any], nodes: Iterable[NodeFacts]) -> str:
    """OS tag of a driver DaemonSet, "" when it does not say one.

    The original's has no label of ours; for which system its one image is, the image's tag says.
    """
    labels = (driver.get("metadata") or {}).get("labels") or {}
    if tag := labels.get(POOL_LABEL):
        return str(tag)
    pod = (driver.get("spec") or {}).get("template", {}).get("spec") or {}
    images = [str(each.get("image") or "") for each in pod.get("containers") or ()]
    tags = sorted({os_tag_of(node.labels) for node in nodes} - {""})
    return next((tag for tag in tags if images and images[0].endswith(f"-{tag}")), "")


def files_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Key -> text of a ConfigMap."""
    return {**(config.get("binaryData") or {}), **(config.get("data") or {})}


def named_configs(policy: ClusterPolicy) -> set[str]:
    """ConfigMaps whose content decides what objects look like."""
    driver = policy.spec.driver
    named = (
        driver.repo_config.config_map_name,
        driver.cert_config.name,
        driver.kernel_module_config.name,
        policy.spec.device_plugin.config.name,
        policy.spec.dcgm_exporter.config.name,
        policy.spec.mig_manager.config.name,
        policy.spec.mig_manager.gpu_clients_config.name,
    )
    return {name for name in named if name}


def facts_of(node: Node) -> NodeFacts:
    info = node.status.node_info
    return NodeFacts(
        name=node.metadata.name,
        labels=node.metadata.labels,
        kernel=info.kernel_version,
        runtime=info.container_runtime_version,
        architecture=info.architecture,
    )


def is_labelled_by_nfd(node: Node) -> bool:
    """NFD lists the labels it owns, without its own prefix, in an annotation."""
    listed = node.metadata.annotations.get(names.NFD_OWNED_ANNOTATION, "").split(",")
    short = {label.removeprefix(names.NFD_PREFIX) for label in names.NFD_PCI_LABELS}
    return any(label in short or label in names.NFD_PCI_LABELS for label in listed)
