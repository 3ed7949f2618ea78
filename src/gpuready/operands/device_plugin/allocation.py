"""What a container gets for the devices that the kubelet allocated to it.

Pure: ids and devices in, the answer out. The errors' text is what users read in the pod's status.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuready import names
from gpuready.errors import AllocationError
from gpuready.gpu.sharing import device_of
from gpuready.node.kubelet.model import ContainerAnswer, DeviceNode, Mount
from gpuready.operands.device_plugin.settings import (
    CDI_ANNOTATIONS,
    CDI_CRI,
    DEFAULT_ANNOTATION_PREFIX,
    DEFAULT_LIST_STRATEGY,
    ENVVAR,
    INDEX,
    UUID,
    VOLUME_MOUNTS,
)

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
CONTAINER_DEVICES_DIR = "/var/run/nvidia-container-devices"


@dataclass(frozen=True)
class Beside:
    """classes   of which a container is told
    cdi       their CDI names; channels are named by their number
    channels  IMEX channels that are there
    absent    what was asked for in so many words and is not here, one phrase each
    refusal   why no container may start: a channel that is required is not here
    error     a spec could not be written
    """

    classes: tuple[str, ...] = ()
    cdi: tuple[str, ...] = ()
    channels: tuple[int, ...] = ()
    absent: tuple[str, ...] = ()
    refusal: str = ""
    error: str = ""


@dataclass(frozen=True)
class Rules:
    """How to answer.

    strategies     device list strategies, in order
    one_each       shared devices: refuse a container that asks for more than one
    device_specs   path -> host path of the nodes to pass; None = do not pass any
    beside         what each container gets beside its GPUs
    """

    strategies: tuple[str, ...] = DEFAULT_LIST_STRATEGY
    id_strategy: str = UUID
    annotation_prefix: str = DEFAULT_ANNOTATION_PREFIX
    one_each: bool = False
    device_specs: Mapping[str, str] | None = None
    beside: Beside = field(default_factory=Beside)


@dataclass(frozen=True)
class Target:
    """A physical GPU as a container is told of it."""

    uuid: str
    index: int
    minor: int


def allocate(
    asked: Sequence[str], resource: str, targets: Mapping[str, Target], rules: Rules
) -> ContainerAnswer:
    """Answer one container's Allocate.

    asked     device ids as advertised, replicas included
    targets   advertised id -> the GPU behind it
    raises    AllocationError

    Source: k8s-device-plugin v0.19.3, internal/plugin/server.go:306.
    """
    _refuse_unknown(asked, resource, targets)
    if rules.one_each:
        _refuse_more_than_one(asked, resource)
    if rules.beside.refusal:
        raise AllocationError(
            rules.beside.refusal,
            why="imex.required is set",
            next_step="create the channel (module parameter NVreg_CreateImexChannel0), or set it to false",
        )
    chosen = [targets[asked_id] for asked_id in _first_of_each_device(asked)]
    ids = _names_of(chosen, rules.id_strategy)
    return ContainerAnswer(
        envs=_envs(ids, rules),
        mounts=_mounts(ids, rules),
        devices=_device_nodes(chosen, rules),
        annotations=_annotations(ids, rules),
        cdi_devices=_cdi_names(ids, rules) if CDI_CRI in rules.strategies else (),
    )


def needs_cdi(strategies: Sequence[str]) -> bool:
    return CDI_CRI in strategies or CDI_ANNOTATIONS in strategies


def _refuse_unknown(asked: Sequence[str], resource: str, targets: Mapping[str, Target]) -> None:
    unknown = [device_id for device_id in asked if device_id not in targets]
    if unknown:
        raise AllocationError(
            f"unknown device {_listed(unknown)} for {resource}",
            why="this node no longer offers it: the GPU is gone, or its sharing was changed",
            next_step="delete the pod; its replacement gets one of the devices offered now",
        )


def _listed(ids: Sequence[str]) -> str:
    """Whoever asks chooses the ids: neither their length nor their number may swell what we say."""
    text = ", ".join(one if len(one) <= _ID_SHOWN else one[: _ID_SHOWN - 1] + "…" for one in ids[:_IDS_SHOWN])
    return f"{text} and {len(ids) - _IDS_SHOWN} more" if len(ids) > _IDS_SHOWN else text


_ID_SHOWN, _IDS_SHOWN = 64, 4


def _refuse_more_than_one(asked: Sequence[str], resource: str) -> None:
    if len(asked) > 1:
        raise AllocationError(
            f"maximum request size for shared resources is 1; found {len(asked)} of {resource}",
            why="replicas share one device: two give no more memory or compute than one",
            next_step="request 1, or set failRequestsGreaterThanOne: false in the sharing configuration",
        )


def _first_of_each_device(asked: Sequence[str]) -> list[str]:
    first: dict[str, str] = {}
    for device_id in asked:
        first.setdefault(device_of(device_id), device_id)
    return list(first.values())


def _names_of(chosen: Sequence[Target], id_strategy: str) -> list[str]:
    return [str(target.index) if id_strategy == INDEX else target.uuid for target in chosen]


def _envs(ids: Sequence[str], rules: Rules) -> dict[str, str]:
    """With both strategies the volume mounts win, as they are told last."""
    told = {f"NVIDIA_{class_.upper()}": "enabled" for class_ in rules.beside.classes}
    if ENVVAR in rules.strategies and rules.beside.channels:
        told["NVIDIA_IMEX_CHANNELS"] = ",".join(map(str, rules.beside.channels))
    if VOLUME_MOUNTS in rules.strategies:
        return {**told, VISIBLE_DEVICES: CONTAINER_DEVICES_DIR}
    if ENVVAR in rules.strategies:
        return {**told, VISIBLE_DEVICES: ",".join(ids)}
    return told


def _mounts(ids: Sequence[str], rules: Rules) -> tuple[Mount, ...]:
    if VOLUME_MOUNTS not in rules.strategies:
        return ()
    asked = [*ids, *(f"imex/{number}" for number in rules.beside.channels)]
    return tuple(Mount(f"{CONTAINER_DEVICES_DIR}/{name}", "/dev/null") for name in asked)


def _annotations(ids: Sequence[str], rules: Rules) -> dict[str, str]:
    """The key must differ between answers for one container; a digest of the names is stable, too."""
    if CDI_ANNOTATIONS not in rules.strategies or not ids:
        return {}
    value = ",".join(_cdi_names(ids, rules))
    digest = hashlib.sha256(value.encode()).hexdigest()[:32]
    return {f"{rules.annotation_prefix}nvidia-device-plugin_{digest}": value}


def _cdi_names(ids: Sequence[str], rules: Rules) -> tuple[str, ...]:
    return (*(f"{names.PLUGIN_CDI_KIND}={device_id}" for device_id in ids), *rules.beside.cdi)


def _device_nodes(chosen: Sequence[Target], rules: Rules) -> tuple[DeviceNode, ...]:
    """Control nodes that exist, then each GPU's own; nothing when only CDI is used: the spec has them."""
    only_cdi = not {ENVVAR, VOLUME_MOUNTS} & set(rules.strategies)
    if rules.device_specs is None or only_cdi:
        return ()
    paths = [path for path in _CONTROL_NODES if path in rules.device_specs]
    paths += [f"/dev/nvidia{target.minor}" for target in chosen]
    paths += [f"/dev/nvidia-caps-imex-channels/channel{number}" for number in rules.beside.channels]
    return tuple(DeviceNode(path, rules.device_specs.get(path, path)) for path in paths)


_CONTROL_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
