"""What every operand declares, and what its manifest may look at.

The controller walks `registry.OPERANDS` and knows no operand by name. A manifest is a pure function
`(policy, view) -> objects`; it never sees the cluster itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gpuready.api import images
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.chain.verdict import Link
from gpuready.errors import GPUReadyError, InternalError, PolicyError, UsageError

KubeObject = dict[str, Any]
# Why an operand is refused: the policy's env would end our daemon, or its objects cannot be built as asked.
# Or its pods would name what is not there, or an image by a name that no image can have. Or we are wrong.
ENV_INVALID, NOT_POSSIBLE, REFERENCE_MISSING = "EnvInvalid", "NotPossible", "ReferenceMissing"
IMAGE_INVALID, INTERNAL_ERROR = "ImageInvalid", "InternalError"
REFUSALS = (ENV_INVALID, NOT_POSSIBLE, REFERENCE_MISSING, IMAGE_INVALID, INTERNAL_ERROR)
# Why an original is not ready: its daemons report to nobody, so its pods are counted.
PODS_NOT_READY = "PodsNotReady"


class Flavour(StrEnum):
    """Whose image runs, and so whose contract its objects keep."""

    OWN = "own"
    ORIGINAL = "original"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The facts of one node that decide which pool of a DaemonSet it belongs to.

    runtime   as the kubelet reports it: "containerd://1.7.24"
    """

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
    configs            the namespace's ConfigMaps: name -> key -> text
    existing           kind -> names of what pods may refer to; of a kind that is left out nothing is known
    service_monitors   the API server knows Prometheus' ServiceMonitor
    images             the operator's environment: DRIVER_IMAGE and the like stand in for a silent policy
    leaving            names of operands whose work some node still has, wanted or not
    """

    namespace: str
    own_image: str
    gpu_nodes: tuple[NodeFacts, ...] = ()
    nfd_present: bool = False
    base_driver_pool: str = ""
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    existing: Mapping[str, Collection[str]] = field(default_factory=dict)
    service_monitors: bool = False
    images: Mapping[str, str] = field(default_factory=dict)
    leaving: frozenset[str] = frozenset()


Objects = Callable[[ClusterPolicy, ClusterView], list[KubeObject]]


@dataclass(frozen=True)
class Refusal:
    """Why an enabled operand is not run."""

    reason: str
    message: str
    next_step: str

    @classmethod
    def of(cls, error: PolicyError) -> Refusal:
        return cls(NOT_POSSIBLE, _said(error), error.next_step or "correct the policy")

    @classmethod
    def of_env(cls, fields: str, read: Callable[[], object]) -> Refusal | None:
        """None when the daemon can start with what the manifest writes for it.

        fields   of the policy that may be wrong, as its author knows them
        read     what the daemon does first, its settings; raises UsageError when they make no sense
        """
        try:
            read()
        except UsageError as exc:
            return cls(ENV_INVALID, f"{fields}: {_said(exc)}", exc.next_step or "correct the value")
        return None

    @classmethod
    def of_bug(cls, error: Exception) -> Refusal:
        found = InternalError.of(error)
        return cls(INTERNAL_ERROR, found.what, found.next_step)

    def to_json(self) -> KubeObject:
        return {"reason": self.reason, "message": self.message, "nextStep": self.next_step}


def _said(error: GPUReadyError) -> str:
    return f"{error.what} ({error.why})" if error.why else error.what


@dataclass(frozen=True)
class Access:
    """RBAC rules of an operand's account: in the operator's namespace, and in the whole cluster."""

    in_namespace: tuple[KubeObject, ...] = ()
    in_cluster: tuple[KubeObject, ...] = ()


@dataclass(frozen=True)
class Operand:
    """One component that a policy installs, with our image or with the original's.

    name          as in `status.operands[].name`
    deploy_label  node label that says where it runs; its value there is "true"; "" = it runs on no node
    link          the link of the chain that is whole when the operand does its job on a node
    enabled       does the policy want it?
    component     block under spec that says which image ("devicePlugin"); "" = it has none
    own           its objects with our image; None while we have no program for it. No objects at all where
                  the node agent does the job.
    original      its objects with the image that the policy names
    external      its image only exists outside: what the policy leaves open comes from the release table
    waits_for     links whose gates its daemon waits for
    access        what the account of the original's image may do
    undoes        our daemon gives the host back what it had: its objects stay until every node has been
    reports_by_record   no link speaks for our daemon: its record does, through GPUNode.status.operands
    check         (policy) -> why our daemon would refuse to start with these settings
    no_effect     flavour -> path under spec -> why that field does nothing; None: while it is not deployed
    """

    name: str
    deploy_label: str
    link: Link | None
    enabled: Callable[[ClusterPolicy], bool]
    component: str = ""
    own: Objects | None = None
    original: Objects | None = None
    external: bool = False
    waits_for: tuple[Link, ...] = ()
    undoes: bool = False
    reports_by_record: bool = False
    access: Access = field(default_factory=Access)
    check: Callable[[ClusterPolicy], Refusal | None] = field(default=lambda policy: None)
    no_effect: Mapping[Flavour | None, Mapping[str, str]] = field(default_factory=dict)

    def flavour(self, policy: ClusterPolicy) -> Flavour | None:
        """Whose objects run; None when we have no program for it and the policy names no image.

        An image is named when `repository` or `image` is set. `spec.gpuready.images: own` runs ours wherever
        there is one.
        """
        if self.own is not None and (self.original is None or not self._is_named(policy)):
            return Flavour.OWN
        if self.original is not None and (self.external or images.is_named(policy, self.component)):
            return Flavour.ORIGINAL
        return None

    def objects(self, policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
        """What should exist of it; nothing where nobody's image can run."""
        builder = {Flavour.OWN: self.own, Flavour.ORIGINAL: self.original, None: None}[self.flavour(policy)]
        return builder(policy, view) if builder else []

    def refusal(self, policy: ClusterPolicy) -> Refusal | None:
        """Why we cannot run it as the policy asks: settings that our program does not take."""
        return self.check(policy) if self.flavour(policy) is Flavour.OWN else None

    def outlives_policy(self, flavour: Flavour | None) -> bool:
        """Its objects stay when the policy goes, until nodes are clean: none is garbage before."""
        return self.undoes and flavour is Flavour.OWN

    def _is_named(self, policy: ClusterPolicy) -> bool:
        return policy.spec.gpuready.images != "own" and images.is_named(policy, self.component)


def ours_runs(component: str) -> dict[str, str]:
    """For `no_effect` of our own flavour: whatever image the policy speaks of, it is not that one."""
    return {f"{component}.{part}": "our image runs" for part in ("repository", "image", "version")}


@dataclass(frozen=True)
class PlannedOperand:
    """A task of the original that has no code here yet: listed in the status, never silently ignored.

    instead  what to do until then; no image that a policy could name helps
    fields   paths under spec that only it would read
    """

    name: str
    enabled: Callable[[ClusterPolicy], bool]
    instead: str
    fields: tuple[str, ...] = ()
