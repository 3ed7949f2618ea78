"""What one look at a node's GPUs yields: values, what is absent and why, who computes, who is silent.

Made by `gpu/telemetry/reader.py` and gathered by `operands/exporter/collector.py`, one `Collection` for each
interval; read by the exporter's attribution and exposition. Everything here is immutable and may be shared
between threads. Knows neither NVML nor Kubernetes.

Every number that becomes a series of a device is a `Sample` of a `Field`, our own ones (names in lower case)
included; `processes`, `xids`, `activity` and `silent` are the facts beside, for what is counted by pod.

Times called `_at` are seconds of the monotonic clock, good for ages only; times called `_time` are seconds
since 1970, good for showing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Value = int | float | str


class Kind(StrEnum):
    """How a field is exposed unless the CSV says otherwise."""

    GAUGE = "gauge"
    COUNTER = "counter"
    LABEL = "label"


class Scope(StrEnum):
    """What a field has a value of. INSTANCE: each GPU instance of a MIG GPU, or the GPU where MIG is off."""

    NODE = "node"
    GPU = "gpu"
    INSTANCE = "instance"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class Field:
    """One quantity, known by its DCGM id.

    id         DCGM's; 9001 and up are computed by the exporter, 20000 and up are ours
    name       DCGM 4.5's spelling, in full: "DCGM_FI_DEV_GPU_TEMP"
    aliases    other spellings that a CSV may use: DCGM 4.6's, and that of 1.x
    unit       of the value as exposed: "MiB", "W", "ratio", ...; "" for plain counts and text
    profiling  read through GPM: Hopper and newer
    """

    id: int
    name: str
    aliases: tuple[str, ...]
    unit: str
    kind: Kind
    scope: Scope
    help: str
    profiling: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)


@dataclass(frozen=True, slots=True)
class Instance:
    """A GPU instance of a MIG GPU.

    id         NVML's GPU instance id: the label GPU_I_ID
    profile    "1g.10gb": the label GPU_I_PROFILE
    mig_uuids  of the MIG devices in it, "MIG-...", in NVML's order
    start      the memory slice that it begins at; None where the driver does not tell us
    """

    id: int
    profile: str
    mig_uuids: tuple[str, ...] = ()
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """One physical GPU.

    pci_bus_id  as DCGM writes it, with eight digits of domain: "00000000:1B:00.0"
    model       the product name: the label modelName
    instances   its GPU instances, by id; empty where MIG is off
    """

    uuid: str
    index: int
    minor: int
    pci_bus_id: str
    model: str
    mig_enabled: bool = False
    instances: tuple[Instance, ...] = ()


@dataclass(frozen=True, slots=True)
class Entity:
    """What a sample is of: a GPU, an instance, an NVLink of it; the node when `device` is None."""

    device: Device | None = None
    instance: Instance | None = None
    link: int | None = None

    @property
    def uuid(self) -> str:
        return self.device.uuid if self.device else ""


@dataclass(frozen=True, slots=True)
class Sample:
    """labels: beside those of the entity, sorted by key: (("window_size_in_ms", "300000"), ("xid", "79"))."""

    field: Field
    entity: Entity
    value: Value
    taken_at: float
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Absent:
    """A field that was asked but has no value. `reason`: a clause, "NVML answers NotSupported".

    supported  False where this GPU will never tell; True where this one read failed
    """

    field: Field
    entity: Entity
    reason: str
    supported: bool = False


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """One process on a GPU; None where the driver does not tell.

    gpu_instance_id  of a MIG GPU
    pid              in the pid namespace of the node
    sm_percent       share of the SMs in the last interval, 0-100
    """

    uuid: str
    gpu_instance_id: int | None
    pid: int
    memory_bytes: int | None
    sm_percent: float | None = None


@dataclass(frozen=True, slots=True)
class XidCount:
    """XIDs of one code on one GPU since the exporter started: `count` never decreases.

    first_time, last_time  seconds since 1970
    """

    uuid: str
    code: int
    count: int
    first_time: float
    last_time: float


@dataclass(frozen=True, slots=True)
class Activity:
    """When a GPU, or one of its instances, was last seen busy.

    busy_time  seconds since 1970; None when it was idle at every look
    idle_s     seconds since then, or since the first look: also right after the clock was set
    """

    uuid: str
    gpu_instance_id: int | None
    busy_time: float | None
    idle_s: float


@dataclass(frozen=True, slots=True)
class Silent:
    """A GPU that did not answer in time, or not at all. `since_at`: monotonic, when it last answered."""

    uuid: str
    index: int
    reason: str
    since_at: float


@dataclass(frozen=True, slots=True)
class Engine:
    """DCGM as a source beside NVML.

    address       "nvidia-dcgm:5555", "/run/nv-hostengine"; "embedded" for the one in this process
    version       of the engine; "" while it is not known
    alone         values of DCGM's fields are taken from it only
    samples       of the collection that are its own
    problem       why it tells nothing, or nothing new; "" when it answers
    nvml_problem  the same of NVML, without which nothing is known of processes and XIDs
    opened, failed  sessions so far
    """

    address: str
    version: str = ""
    alone: bool = False
    samples: int = 0
    problem: str = ""
    nvml_problem: str = ""
    opened: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Collection:
    """One look.

    devices   all known GPUs in NVML's order, the silent ones too
    samples   in the order of `devices`, then by field id; none is older than two intervals
    problem   why no source told anything; "" when one did
    engine    None where DCGM is not asked
    """

    devices: tuple[Device, ...] = ()
    samples: tuple[Sample, ...] = ()
    absent: tuple[Absent, ...] = ()
    processes: tuple[ProcessUse, ...] = ()
    xids: tuple[XidCount, ...] = ()
    activity: tuple[Activity, ...] = ()
    silent: tuple[Silent, ...] = ()
    driver_version: str = ""
    problem: str = ""
    engine: Engine | None = None
    started_at: float = 0.0
    ended_at: float = 0.0
    ended_time: float = 0.0
