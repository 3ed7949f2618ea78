"""What every operand declares, and what its manifest may look at.

The controller walks `registry.OPERANDS` and knows no operand by name. A manifest is a pure function
`(policy, view) -> objects`; it never sees the cluster itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.chain.verdict import Link

KubeObject = dict[str, Any]
UNSUPPORTED_IMAGE = "OriginalImageUnsupported"


@dataclass(frozen=True)
class NodeFacts:
    """The facts of one node that decide which pool of a DaemonSet it belongs to."""

    name: str
    labels: Mapping[str, str]
    kernel: str = ""
    runtime: str = ""
    architecture: str = ""


@dataclass(frozen=True)
class ClusterView:
    """What a manifest may know of the cluster.

    gpu_nodes          nodes with nvidia.com/gpu.present=true, in name order
    nfd_present        node-feature-discovery labels the nodes: our agent then runs on GPU nodes only
    base_driver_pool   OS tag that the DaemonSet without a suffix already serves ("" when it does not exist):
                       a second operating system must not rename it, which would restart every driver
    """

    namespace: str
    own_image: str
    gpu_nodes: tuple[NodeFacts, ...] = ()
    nfd_present: bool = False
    base_driver_pool: str = ""


@dataclass(frozen=True)
class Refusal:
    """Why an enabled operand is not run."""

    reason: str
    message: str
    next_step: str

    def to_json(self) -> KubeObject:
        return {"reason": self.reason, "message": self.message, "nextStep": self.next_step}


@dataclass(frozen=True)
class Operand:
    """One component that a policy installs.

    name          as in `status.operands[].name`
    deploy_label  node label that says where it runs; its value there is "true"
    link          the link of the chain that is whole when the operand does its job on a node
    waits_for     links whose gates its daemon waits for
    enabled       does the policy want it?
    image         (policy) -> the image that the policy names for it, None when it names none
    runs_named_image   True where the named image is deployed as it is (the driver)
    check         (policy) -> why its daemon would refuse to start with these settings, None when it would not
    objects       (policy, view) -> Kubernetes objects; pure. An operand without objects of its own is done
                  by the node agent.
    """

    name: str
    deploy_label: str
    link: Link | None
    enabled: Callable[[ClusterPolicy], bool]
    objects: Callable[[ClusterPolicy, ClusterView], list[KubeObject]]
    image: Callable[[ClusterPolicy], str | None] = field(default=lambda policy: None)
    waits_for: tuple[Link, ...] = ()
    runs_named_image: bool = False
    check: Callable[[ClusterPolicy], Refusal | None] = field(default=lambda policy: None)

    def refusal(self, policy: ClusterPolicy) -> Refusal | None:
        """Why we cannot run it as the policy asks: an image or settings that our program does not take."""
        return self._image_refusal(policy) or self.check(policy)

    def _image_refusal(self, policy: ClusterPolicy) -> Refusal | None:
        if self.runs_named_image or policy.spec.gpuready.images == "own":
            return None
        image = self.image(policy)
        if image is None:
            return None
        return Refusal(
            UNSUPPORTED_IMAGE,
            f"the policy names the image {image} for {self.name}, which this version does not run",
            "set spec.gpuready.images: own, or leave repository and image of this operand empty",
        )


@dataclass(frozen=True)
class PlannedOperand:
    """An operand of the original that has no code here yet: listed in the status, never silently ignored."""

    name: str
    enabled: Callable[[ClusterPolicy], bool]
