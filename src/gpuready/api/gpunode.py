"""GPUNode (gpuready.dev/v1alpha1): one node's GPUs. `spec` is what the control plane wants, `status` what is.

Created by the controller as soon as a node shows a GPU; written to by that node's agent alone.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from gpuready.api.blocks import Base, FreeObject
from gpuready.api.doc import block, doc


class ConfigError(Base, frozen=True, kw_only=True):
    """What stands in the way of a wish."""

    reason: Annotated[str, doc("One CamelCase word for machines.")] = ""
    message: Annotated[str, doc("What is wrong.")] = ""
    next_step: Annotated[str, doc("What to do about it.")] = ""


class DriverWish(Base, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc("Whether the policy manages the driver.")] = False
    version: Annotated[str, doc("The version the policy asks for, if any.")] = ""
    trouble: Annotated[
        ConfigError | None, doc("What keeps the driver container from bringing the driver asked for.")
    ] = None
    kept_away: Annotated[
        ConfigError | None, doc("Which taint of this node the operand's DaemonSet does not tolerate.")
    ] = None


class DevicePluginWish(Base, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc("Whether our device plugin should offer GPUs.")] = False
    original: Annotated[bool, doc("Whether NVIDIA's device plugin should, in place of ours.")] = False
    refused: Annotated[
        ConfigError | None, doc("Why the operator does not run the device plugin that the policy asks for.")
    ] = None
    kept_away: Annotated[
        ConfigError | None, doc("Which taint of this node the operand's DaemonSet does not tolerate.")
    ] = None
    config: Annotated[FreeObject | None, doc("The resolved plugin configuration, version v1.")] = None
    config_name: Annotated[str, doc("The key of the ConfigMap that `config` came from.")] = ""
    config_digest: Annotated[str, doc("Changes when `config` changes.")] = ""
    generation: Annotated[int, doc("The policy's generation this was resolved for.")] = 0
    error: Annotated[ConfigError | None, doc("Why `config` is not what was requested.")] = None
    requested: Annotated[str, doc("The configuration asked for by label or policy.")] = ""
    available: Annotated[list[str], doc("The keys that the ConfigMap has, of many the nearest.")] = []


class ToolkitWish(Base, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc("Whether our toolkit should configure the container runtime.")] = False
    original: Annotated[bool, doc("Whether NVIDIA's toolkit should, in place of ours.")] = False
    restart: Annotated[
        str,
        doc(
            "When the runtime may be restarted: free is at once, granted only for the request in `grant`.",
            enum=("", "free", "granted"),
        ),
    ] = ""
    grant: Annotated[str, doc("Id of the request of this node that is granted.")] = ""
    held_by: Annotated[str, doc("Why the request of this node is not granted yet.")] = ""
    kept_away: Annotated[
        ConfigError | None, doc("Which taint of this node the operand's DaemonSet does not tolerate.")
    ] = None


class FeatureLabelsWish(Base, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc("Whether the agent labels the node with GPU features.")] = False


class GatesWish(Base, frozen=True, kw_only=True):
    enabled: Annotated[
        bool,
        doc("Whether the agent writes the gates; absent means true, false that NVIDIA's validator does."),
    ] = True


class CudaWish(Base, frozen=True, kw_only=True):
    enabled: Annotated[
        bool,
        doc("Whether the agent runs a small CUDA program on each GPU; absent means true."),
    ] = True


class GPUNodeSpec(Base, frozen=True, kw_only=True):
    driver: Annotated[DriverWish, doc("The driver.")] = block(DriverWish)
    device_plugin: Annotated[DevicePluginWish, doc("The device plugin.")] = block(DevicePluginWish)
    toolkit: Annotated[ToolkitWish, doc("The container toolkit.")] = block(ToolkitWish)
    feature_labels: Annotated[FeatureLabelsWish, doc("GPU feature labels.")] = block(FeatureLabelsWish)
    gates: Annotated[GatesWish, doc("The files that tell other programs which link is whole.")] = block(
        GatesWish
    )
    cuda: Annotated[CudaWish, doc("The proof that CUDA works.")] = block(CudaWish)
    uninstall: Annotated[bool, doc("Undo everything on this node and report so.")] = False


class LinkStatus(Base, frozen=True, kw_only=True):
    link: Annotated[str, doc("The link of the chain.")]
    state: Annotated[
        str,
        doc("What we judge of it.", enum=("ok", "degraded", "broken", "waiting", "not-checked")),
    ]
    reason: Annotated[str, doc("One CamelCase word for machines.")] = ""
    message: Annotated[str, doc("A sentence for people.")] = ""
    evidence: Annotated[list[str], doc("What was seen, one fact each.")] = []
    next_step: Annotated[str, doc("What to do about it.")] = ""
    last_transition_time: Annotated[str, doc("When `state` last changed.")] = ""


class Columns(Base, frozen=True, kw_only=True):
    """Short words for `kubectl get gpunodes`."""

    driver: Annotated[str, doc("The driver link.")] = ""
    runtime: Annotated[str, doc("The toolkit link.")] = ""
    plugin: Annotated[str, doc("The device plugin link.")] = ""
    cuda: Annotated[str, doc("The CUDA link.")] = ""


class LastXid(Base, frozen=True, kw_only=True):
    code: Annotated[int, doc("Number of the XID error.")] = 0
    time: Annotated[str, doc("When it was seen.")] = ""
    action: Annotated[str, doc("How the device recovers.")] = ""


class DeviceStatus(Base, frozen=True, kw_only=True):
    uuid: Annotated[str, doc("UUID of the GPU.")]
    index: Annotated[int, doc("Index in NVML's order.")] = 0
    product: Annotated[str, doc("Product name.")] = ""
    memory_mib: Annotated[int, doc("Memory in MiB.")] = msgspec.field(name="memoryMiB", default=0)
    health: Annotated[str, doc("Healthy or Unhealthy.")] = ""
    reason: Annotated[str, doc("Why it is unhealthy.")] = ""
    last_xid: Annotated[LastXid | None, doc("The last XID error.")] = None
    allocated: Annotated[int, doc("How many of its replicas pods hold; a release shows within 30 s.")] = 0
    replicas: Annotated[int, doc("Pods that may share it; 1 means exclusive.")] = 1
    mig: Annotated[str, doc("MIG mode: enabled or disabled; absent where the model has none.")] = ""


class OperandStatus(Base, frozen=True, kw_only=True):
    """A daemon of the node for which no link of the chain speaks."""

    name: Annotated[str, doc("The operand, as in ClusterPolicy.status.operands.")]
    state: Annotated[str, doc("What it says of itself.", enum=("ok", "degraded", "broken", "waiting"))] = ""
    reason: Annotated[str, doc("One CamelCase word for machines.")] = ""
    message: Annotated[str, doc("A sentence for people.")] = ""
    details: Annotated[list[str], doc("One fact each: which GPU, which file.")] = []
    next_step: Annotated[str, doc("What to do about it.")] = ""


class DriverStatus(Base, frozen=True, kw_only=True):
    owner: Annotated[
        str, doc("Who installed the driver; empty while unknown.", enum=("", "host", "container", "none"))
    ] = ""
    version: Annotated[str, doc("Version of the driver in use.")] = ""
    library_version: Annotated[str, doc("Version of the libraries.")] = ""
    module_version: Annotated[str, doc("Version of the loaded kernel module.")] = ""
    root: Annotated[str, doc("Where the driver's files are on the host.")] = ""


class RuntimeRepair(Base, frozen=True, kw_only=True):
    time: Annotated[str, doc("When.")] = ""
    files: Annotated[list[str], doc("Files that others had changed.")] = []
    keys: Annotated[list[str], doc("Settings that were put back.")] = []


class RuntimeStatus(Base, frozen=True, kw_only=True):
    name: Annotated[str, doc("containerd, cri-o or docker.")] = ""
    version: Annotated[str, doc("Its version.")] = ""
    repaired: Annotated[
        RuntimeRepair | None, doc("What the toolkit put right last, after others had changed it.")
    ] = None


class GPUNodeStatus(Base, frozen=True, kw_only=True):
    observed_generation: Annotated[int, doc("The generation of `spec` this status speaks of.")] = 0
    boot_id: Annotated[str, doc("The node's boot id.")] = msgspec.field(name="bootID", default="")
    agent_version: Annotated[str, doc("Version of the node agent.")] = ""
    chain: Annotated[list[LinkStatus], doc("Every link from bare node to schedulable GPU.")] = []
    columns: Annotated[Columns, doc("Short words for the table.")] = block(Columns)
    gpus: Annotated[int, doc("GPUs on this node.")] = 0
    healthy: Annotated[int, doc("GPUs that are healthy.")] = 0
    reason: Annotated[str, doc("Reason of the first broken link, or of an unhealthy device.")] = ""
    devices: Annotated[list[DeviceStatus], doc("One row per GPU.")] = []
    operands: Annotated[list[OperandStatus], doc("Daemons that the chain does not depend on.")] = []
    driver: Annotated[DriverStatus, doc("The driver in use.")] = block(DriverStatus)
    runtime: Annotated[RuntimeStatus, doc("The container runtime.")] = block(RuntimeStatus)
    requests: Annotated[list[FreeObject], doc("What the agent asks the controller to do.")] = []
    blocked_by: Annotated[list[str], doc("What holds back a change on this node.")] = []
    uninstalled: Annotated[bool, doc("The agent has undone everything on this node.")] = False


class GPUNodeMetadata(Base, frozen=True, kw_only=True):
    name: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    deletion_timestamp: str | None = None
    namespace: str = ""


class GPUNode(Base, frozen=True, kw_only=True):
    """The GPUs of one node: what the control plane wants of them and what the node says."""

    api_version: str = "gpuready.dev/v1alpha1"
    kind: str = "GPUNode"
    metadata: GPUNodeMetadata = block(GPUNodeMetadata)
    spec: Annotated[GPUNodeSpec, doc("What the control plane wants of this node.", atomic=True)] = block(
        GPUNodeSpec
    )
    status: Annotated[GPUNodeStatus, doc("What the node says.", atomic=True)] = block(GPUNodeStatus)


decode_gpu_node = msgspec.json.Decoder(GPUNode).decode


def parse_gpu_node(obj: object) -> GPUNode:
    """From a decoded JSON object; raises msgspec.ValidationError."""
    return msgspec.convert(obj, GPUNode)
