"""Whose GPU is it: the kubelet's answer joined with the GPUs that are there. Pure.

A fact about a set: the order in which the kubelet lists pods, containers or devices never shows. Each holder
of a device is an `Allocation`, however many there are. What the device's own series say of pods is one of
four views; by default a pod is named where it alone holds the device, and nobody is where several share it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuready.gpu.telemetry.model import Device, Entity
from gpuready.node.kubelet.pod_resources import Claim, Held, Holder
from gpuready.operands.exporter.settings import EXCLUSIVE, FIRST, VIRTUAL_GPUS

ALONE, SHARED, MIG, DRA = "exclusive", "shared", "mig", "dra"
# Why a device that a pod holds is not among the GPUs here.
UNKNOWN_ID, AMBIGUOUS_CLAIM = "UnknownId", "AmbiguousClaim"

Key = tuple[str, int | None]  # uuid of the GPU, id of the GPU instance
Pairs = tuple[tuple[str, str], ...]

_OURS = "nvidia.com/"
_DRA_DRIVER = "gpu.nvidia.com"
_BY_MINOR = re.compile(r"nvidia(\d+)(?:/gi(\d+))?")
_CLAIMED = re.compile(r"gpu-(\d+)(?:-mig-([0-9a-z-]+)-(\d+)-(\d+))?")


@dataclass(frozen=True, order=True)
class Allocation:
    """One container that holds one device, or one share of it.

    resource   as the pod asked for it; of a claim its driver
    replica    which share: "2" of "GPU-…::2"; "" for a whole device
    sharing    ALONE, SHARED, MIG or DRA: how it was handed out
    """

    namespace: str
    pod: str
    container: str
    uuid: str
    instance_id: int
    resource: str
    replica: str
    sharing: str

    @property
    def key(self) -> Key:
        return self.uuid, None if self.instance_id < 0 else self.instance_id

    @property
    def pod_key(self) -> tuple[str, str]:
        return self.namespace, self.pod


@dataclass(frozen=True, order=True)
class Unknown:
    """A device that a container holds and that is no GPU known here."""

    holder: Holder
    resource: str
    device: str
    reason: str


@dataclass(frozen=True)
class Attribution:
    """allocations and unknown in their order; by_device: the same allocations by GPU and instance."""

    allocations: tuple[Allocation, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    by_device: Mapping[Key, tuple[Allocation, ...]] = field(default_factory=dict)

    def holders_of(self, entity: Entity) -> tuple[Allocation, ...]:
        """Of exactly this device: who holds an instance does not hold the GPU around it."""
        if entity.device is None or entity.link is not None:
            return ()
        return self.by_device.get((entity.uuid, entity.instance.id if entity.instance else None), ())


def may_be_gpu(resource: str, id_: str, resource_names: Iterable[str] = ()) -> bool:
    """Whether a device of a plugin can be one that `attribute` has something to say of."""
    by_name = resource.startswith(_OURS) or resource in resource_names
    return by_name or id_.startswith(("GPU-", "MIG-", "nvidia"))


def attribute(
    held: Iterable[Held],
    devices: Sequence[Device],
    *,
    resource_names: Iterable[str] = (),
    claims: bool = True,
) -> Attribution:
    """Join them.

    resource_names   further resources whose ids are worth a remark when they name no GPU
    claims           False leaves out devices of ResourceClaims
    """
    places = _Places.of(devices)
    found: set[Allocation] = set()
    unknown: set[Unknown] = set()
    for each in held:
        for resource, ids in each.devices.items():
            is_ours = resource.startswith(_OURS) or resource in resource_names
            for id_ in ids:
                place = places.find(id_)
                if place:
                    found.add(_allocation(each.holder, place, resource, id_))
                elif is_ours:
                    unknown.add(Unknown(each.holder, resource, id_, UNKNOWN_ID))
        for claim in each.claims if claims else ():
            if not claim.driver.endswith(_DRA_DRIVER):
                continue
            places_of = places.claimed(claim)
            if len(places_of) == 1:
                found.add(_claimed(each.holder, places_of[0], claim))
            else:
                reason = AMBIGUOUS_CLAIM if places_of else UNKNOWN_ID
                unknown.add(Unknown(each.holder, claim.driver, claim.device, reason))
    allocations = tuple(sorted(found))
    by_device: dict[Key, list[Allocation]] = {}
    for allocation in allocations:
        by_device.setdefault(allocation.key, []).append(allocation)
    grouped = {key: tuple(rows) for key, rows in by_device.items()}
    return Attribution(allocations, tuple(sorted(unknown)), grouped)


@dataclass(frozen=True)
class _Places:
    """Where each kind of id leads."""

    by_uuid: Mapping[str, Key]
    by_mig_uuid: Mapping[str, Key]
    by_minor: Mapping[int, Device]

    @classmethod
    def of(cls, devices: Sequence[Device]) -> _Places:
        migs = {
            mig: (device.uuid, instance.id)
            for device in devices
            for instance in device.instances
            for mig in instance.mig_uuids
        }
        return cls(
            {device.uuid: (device.uuid, None) for device in devices},
            migs,
            {device.minor: device for device in devices},
        )

    def find(self, id_: str) -> Key | None:
        """`GPU-…`, `MIG-…`, `nvidia0`, `nvidia0/gi3`; with `::2` or `/vgpu2` behind for one share of it.

        Source: dcgm-exporter, internal/pkg/transformation/kubernetes.go (toDeviceToPod).
        """
        plain = id_.split("::", 1)[0].split("/vgpu", 1)[0]
        if place := self.by_uuid.get(plain) or self.by_mig_uuid.get(plain):
            return place
        match = _BY_MINOR.fullmatch(plain)
        device = self.by_minor.get(int(match[1])) if match else None
        if match is None or device is None:
            return None
        if match[2] is None:
            return device.uuid, None
        wanted = int(match[2])
        return (device.uuid, wanted) if any(i.id == wanted for i in device.instances) else None

    def claimed(self, claim: Claim) -> list[Key]:
        """Every place that a claim's device may mean: `gpu-0`, `gpu-0-mig-1g10gb-19-4`, `gpu-0-mig-19-4-1`.

        The name tells profile and placement of an instance; older drivers give the profile by its number.
        Where the GPU's driver does not let us ask for the placement, nobody knows which of two instances of
        one profile it is. `gpu-0`: by its minor number.

        Source: k8s-dra-driver-gpu, cmd/gpu-kubelet-plugin/deviceinfo.go (CanonicalName), now and at bb72e603.
        """
        match = _CLAIMED.fullmatch(claim.device)
        device = self.by_minor.get(int(match[1])) if match else None
        if match is None or device is None:
            return []
        if match[2] is None:
            return [(device.uuid, None)]
        is_by_number = match[2].isdigit()
        start = int(match[3] if is_by_number else match[4])
        same = [i for i in device.instances if is_by_number or _as_claimed(i.profile) == match[2]]
        return [(device.uuid, i.id) for i in same if i.start in (None, start)]


def _as_claimed(profile: str) -> str:
    """ "1g.10gb+me" as the DRA driver writes it into a device's name: "1g10gb-me"."""
    return re.sub("[^a-z0-9-]", "-", profile.lower().replace(".", "")).strip("-")


def _allocation(holder: Holder, place: Key, resource: str, id_: str) -> Allocation:
    replica = id_.partition("::")[2] or id_.partition("/vgpu")[2]
    uuid, instance = place
    sharing = SHARED if replica else MIG if instance is not None else ALONE
    number = -1 if instance is None else instance
    return Allocation(
        holder.namespace, holder.pod, holder.container, uuid, number, resource, replica, sharing
    )


def _claimed(holder: Holder, place: Key, claim: Claim) -> Allocation:
    uuid, instance = place
    number = -1 if instance is None else instance
    return Allocation(holder.namespace, holder.pod, holder.container, uuid, number, claim.driver, "", DRA)


# --- what a device's own series say of pods ---------------------------------------------------------------


@dataclass(frozen=True)
class PodNames:
    """What the labels are called, and what else is known of a pod.

    extra   (namespace, pod) -> further labels: its uid, its own labels
    """

    pod: str = "pod"
    namespace: str = "namespace"
    container: str = "container"
    extra: Mapping[tuple[str, str], Pairs] = field(default_factory=dict)

    def pairs(self, allocation: Allocation, *, container: bool = True) -> Pairs:
        named: Pairs = ((self.pod, allocation.pod), (self.namespace, allocation.namespace))
        if container:
            named += ((self.container, allocation.container),)
        return named + self.extra.get(allocation.pod_key, ())


OLD_NAMES = PodNames("pod_name", "pod_namespace", "container_name")


def view_of(holders: Sequence[Allocation], view: str, names: PodNames) -> list[Pairs]:
    """Pod labels of a device's lines, one line for each; never empty, [()] is one line without.

    EXCLUSIVE      the pod that alone holds the device; its container, too, where it is one
    FIRST          the first by namespace, pod and container, however many there are
    VIRTUAL_GPUS   one line for each holder, with the share in `vgpu`
    """
    if not holders:
        return [()]
    if view == VIRTUAL_GPUS:
        shares = {(names.pairs(each), each.replica) for each in holders}
        return [pairs + ((("vgpu", replica),) if replica else ()) for pairs, replica in sorted(shares)]
    if view == FIRST:
        return [names.pairs(min(holders))]
    if view == EXCLUSIVE and len({each.pod_key for each in holders}) == 1:
        return [names.pairs(holders[0], container=len({each.container for each in holders}) == 1)]
    return [()]
