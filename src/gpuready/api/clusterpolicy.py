"""ClusterPolicy (nvidia.com/v1): what the user asks of the whole cluster.

Every field of the original's 26.3.3 and 26.7 schema, plus `spec.gpuready`. Blocks that the original requires
default to `{}`. A Python default is the meaning of an absent field.

Source: gpu-operator v26.3.3, api/nvidia/v1/clusterpolicy_types.go; v26.7.0 for the later fields.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from gpuready.api.blocks import (
    Base,
    Container,
    DriverManager,
    EnvVar,
    FreeObject,
    ImageRef,
    NamedConfig,
    Probe,
    ServiceMonitor,
    SideCar,
    Toleration,
)
from gpuready.api.doc import block, doc
from gpuready.api.policy_status import PolicyStatus

ENABLED = "Deploy this operand; absent means true."
NOT_ENABLED = "Deploy this operand; absent means false."


class OperatorMetrics(Base, frozen=True, kw_only=True):
    service_monitor: Annotated[ServiceMonitor, doc("ServiceMonitor of the operator's own metrics.")] = block(
        ServiceMonitor
    )


class Operator(Base, frozen=True, kw_only=True):
    runtime_class: Annotated[
        str, doc("Name and handler of the RuntimeClass for GPU pods.", default="nvidia")
    ] = "nvidia"
    default_runtime: Annotated[str, doc("Deprecated, ignored: the runtime is detected.")] = ""
    init_container: Annotated[ImageRef, doc("Deprecated, ignored.")] = block(ImageRef)
    labels: Annotated[dict[str, str], doc("Ignored: the chart labels the operator.")] = {}
    annotations: Annotated[dict[str, str], doc("Ignored: the chart annotates the operator.")] = {}
    use_ocp_driver_toolkit: Annotated[
        bool | None, doc("On OpenShift, build the driver with its driver toolkit; absent means true there.")
    ] = msgspec.field(name="use_ocp_driver_toolkit", default=None)
    metrics: Annotated[OperatorMetrics, doc("The operator's own metrics.")] = block(OperatorMetrics)


class RollingUpdate(Base, frozen=True, kw_only=True):
    max_unavailable: Annotated[
        str, doc("Number or percentage of nodes updated at once, as text; empty means 1.")
    ] = ""


class DaemonSets(Base, frozen=True, kw_only=True):
    labels: Annotated[dict[str, str], doc("Labels of every DaemonSet and its pods.")] = {}
    annotations: Annotated[dict[str, str], doc("Annotations of every DaemonSet and its pods.")] = {}
    tolerations: Annotated[
        list[Toleration], doc("Replaces the tolerations of every operand when not empty.")
    ] = []
    priority_class_name: Annotated[str, doc("Priority class; empty means system-node-critical.")] = ""
    pod_security_context: Annotated[FreeObject, doc("Security context of every operand's pod.")] = {}
    update_strategy: Annotated[
        str,
        doc(
            "How a changed DaemonSet is rolled out.",
            default="RollingUpdate",
            enum=("RollingUpdate", "OnDelete"),
        ),
    ] = "RollingUpdate"
    rolling_update: Annotated[RollingUpdate, doc("For updateStrategy RollingUpdate.")] = block(RollingUpdate)


class Rdma(Base, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc("Load nvidia-peermem; absent means false.")] = False
    use_host_mofed: Annotated[bool, doc("The network driver is installed on the host.")] = False


class WaitForCompletion(Base, frozen=True, kw_only=True):
    pod_selector: Annotated[str, doc("Label selector of the pods to wait for.")] = ""
    timeout_seconds: Annotated[int, doc("0 means without end.", default=0, minimum=0)] = 0


class PodDeletion(Base, frozen=True, kw_only=True):
    force: Annotated[bool, doc("Delete pods that no controller owns too.", default=False)] = False
    timeout_seconds: Annotated[int, doc("0 means without end.", default=300, minimum=0)] = 300
    delete_empty_dir: Annotated[bool, doc("Delete pods that use emptyDir volumes too.", default=False)] = (
        False
    )


class Drain(Base, frozen=True, kw_only=True):
    enable: Annotated[bool, doc("Drain the node if deleting GPU pods was not enough.", default=False)] = False
    force: Annotated[bool, doc("Drain pods that no controller owns too.", default=False)] = False
    pod_selector: Annotated[str, doc("Label selector of the pods to drain; empty means all.")] = ""
    timeout_seconds: Annotated[int, doc("0 means without end.", default=300, minimum=0)] = 300
    delete_empty_dir: Annotated[bool, doc("Drain pods that use emptyDir volumes too.", default=False)] = False


class UpgradePolicy(Base, frozen=True, kw_only=True):
    auto_upgrade: Annotated[bool, doc("Bring a changed driver to the nodes by itself.", default=False)] = (
        False
    )
    max_parallel_upgrades: Annotated[int, doc("Nodes at once; 0 means no limit.", default=1, minimum=0)] = 1
    max_unavailable: Annotated[
        int | str,
        doc("Number or percentage of driver nodes that may be away, rounded up.", default="25%"),
    ] = "25%"
    wait_for_completion: Annotated[WaitForCompletion, doc("Jobs to wait for before a node changes.")] = block(
        WaitForCompletion
    )
    pod_deletion: Annotated[PodDeletion, doc("How GPU pods are removed.")] = block(PodDeletion)
    drain: Annotated[Drain, doc("How the node is drained, if at all.")] = block(Drain)


class RepoConfig(Base, frozen=True, kw_only=True):
    config_map_name: Annotated[str, doc("ConfigMap with package repository files.")] = ""


class LicensingConfig(Base, frozen=True, kw_only=True):
    secret_name: Annotated[str, doc("Secret with the vGPU licence (gridd.conf).")] = ""
    config_map_name: Annotated[str, doc("Deprecated: ConfigMap with the licence.")] = ""
    nls_enabled: Annotated[bool, doc("Mount the licence server's client token; absent means false.")] = False


class VirtualTopology(Base, frozen=True, kw_only=True):
    config: Annotated[str, doc("ConfigMap with nvidia-topologyd.conf.")] = ""


class Driver(Container, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc(ENABLED)] = True
    use_nvidia_driver_crd: Annotated[
        bool, doc("Leave the driver to NVIDIADriver objects; absent means false.")
    ] = msgspec.field(name="useNvidiaDriverCRD", default=False)
    use_precompiled: Annotated[bool, doc("Use images with modules built for each kernel.")] = False
    use_open_kernel_modules: Annotated[bool | None, doc("Deprecated, ignored: see kernelModuleType.")] = None
    kernel_module_type: Annotated[
        str,
        doc("Which kernel modules are installed.", default="auto", enum=("auto", "open", "proprietary")),
    ] = "auto"
    startup_probe: Annotated[Probe, doc("Overrides values of the startup probe.")] = block(Probe)
    liveness_probe: Annotated[Probe, doc("Overrides values of the liveness probe.")] = block(Probe)
    readiness_probe: Annotated[Probe, doc("Overrides values of the readiness probe.")] = block(Probe)
    rdma: Annotated[Rdma, doc("GPUDirect RDMA.")] = block(Rdma)
    upgrade_policy: Annotated[UpgradePolicy, doc("How a new driver reaches nodes that work.")] = block(
        UpgradePolicy
    )
    manager: Annotated[DriverManager, doc("The init container that removes an old driver.")] = block(
        DriverManager
    )
    repo_config: Annotated[RepoConfig, doc("Own package repositories.")] = block(RepoConfig)
    cert_config: Annotated[NamedConfig, doc("ConfigMap with CA certificates.")] = block(NamedConfig)
    licensing_config: Annotated[LicensingConfig, doc("vGPU licensing.")] = block(LicensingConfig)
    virtual_topology: Annotated[VirtualTopology, doc("vGPU topology daemon.")] = block(VirtualTopology)
    kernel_module_config: Annotated[NamedConfig, doc("ConfigMap with kernel module parameters.")] = block(
        NamedConfig
    )
    secret_env: Annotated[str, doc("Secret whose keys become the driver container's environment.")] = ""


class Toolkit(Container, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc(ENABLED)] = True
    install_dir: Annotated[
        str, doc("Where the toolkit is installed on the host.", default="/usr/local/nvidia")
    ] = "/usr/local/nvidia"


class PluginConfigRef(Base, frozen=True, kw_only=True):
    name: Annotated[str, doc("ConfigMap of named device plugin configurations.")] = ""
    default: Annotated[str, doc("Key for nodes without the label nvidia.com/device-plugin.config.")] = ""


class Mps(Base, frozen=True, kw_only=True):
    root: Annotated[str, doc("MPS directory on the host.", default="/run/nvidia/mps")] = "/run/nvidia/mps"


class DevicePlugin(Container, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc(ENABLED)] = True
    config: Annotated[PluginConfigRef, doc("Sharing and other plugin configurations.")] = block(
        PluginConfigRef
    )
    mps: Annotated[Mps, doc("Multi-Process Service.")] = block(Mps)


class SandboxDevicePlugin(Container, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc(NOT_ENABLED)] = False


class Dcgm(Container, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc(ENABLED)] = True
    host_port: Annotated[int, doc("Deprecated, ignored: the port is 5555.")] = 0


class MetricsConfig(Base, frozen=True, kw_only=True):
    name: Annotated[str, doc("ConfigMap whose key dcgm-metrics.csv lists the metrics.")] = ""


class ExporterService(Base, frozen=True, kw_only=True):
    type: Annotated[str, doc("Type of the Service; empty means ClusterIP.")] = ""
    internal_traffic_policy: Annotated[str, doc("Cluster or Local.")] = ""


class HpcJobMapping(Base, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc("Label metrics with the HPC job that uses the GPU.")] = False
    directory: Annotated[str, doc("Job files; empty means /var/lib/dcgm-exporter/job-mapping.")] = ""


class DcgmExporter(Container, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc(ENABLED)] = True
    annotations: Annotated[dict[str, str], doc("Annotations of the exporter's pods.")] = {}
    config: Annotated[MetricsConfig, doc("Own list of metrics.")] = block(MetricsConfig)
    service: Annotated[ExporterService, doc("The exporter's Service.")] = block(ExporterService)
    service_monitor: Annotated[ServiceMonitor, doc("The exporter's ServiceMonitor.")] = block(ServiceMonitor)
    host_pid: Annotated[bool, doc("Use the node's process ids; absent means false.")] = msgspec.field(
        name="hostPID", default=False
    )
    hpc_job_mapping: Annotated[HpcJobMapping, doc("Metrics by HPC job.")] = block(HpcJobMapping)
    enable_pod_labels: Annotated[bool, doc("Put labels of the pod on its metrics.")] = False
    enable_pod_uid: Annotated[bool, doc("Put the uid of the pod on its metrics.")] = msgspec.field(
        name="enablePodUID", default=False
    )
    pod_label_allowlist_regex: Annotated[list[str], doc("Pod labels to use, as patterns.")] = []


class NodeStatusExporter(Container, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc(NOT_ENABLED)] = False


class Gfd(Container, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc(ENABLED)] = True


class Mig(Base, frozen=True, kw_only=True):
    strategy: Annotated[
        str, doc("How MIG devices are named as resources.", enum=("none", "single", "mixed"))
    ] = ""


class MigConfig(Base, frozen=True, kw_only=True):
    name: Annotated[str, doc("ConfigMap whose key config.yaml holds the MIG configurations.")] = ""
    default: Annotated[
        str,
        doc("Configuration of nodes without a label.", default="all-disabled", enum=("all-disabled", "")),
    ] = "all-disabled"


class MigManager(Container, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc(ENABLED)] = True
    config: Annotated[MigConfig, doc("MIG configurations.")] = block(MigConfig)
    gpu_clients_config: Annotated[NamedConfig, doc("ConfigMap of clients to stop for a change.")] = block(
        NamedConfig
    )


class VgpuManager(Container, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc(NOT_ENABLED)] = False
    driver_manager: Annotated[DriverManager, doc("The init container that removes an old driver.")] = block(
        DriverManager
    )
    kernel_module_config: Annotated[NamedConfig, doc("ConfigMap with kernel module parameters.")] = block(
        NamedConfig
    )


class VgpuDevicesConfig(Base, frozen=True, kw_only=True):
    name: Annotated[str, doc("ConfigMap of vGPU device configurations.")] = ""
    default: Annotated[str, doc("Configuration of nodes without a label.", default="default")] = "default"


class VgpuDeviceManager(Container, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc(NOT_ENABLED)] = False
    config: Annotated[VgpuDevicesConfig, doc("vGPU device configurations.")] = block(VgpuDevicesConfig)


class VfioManager(Container, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc(NOT_ENABLED)] = False
    driver_manager: Annotated[DriverManager, doc("The init container that removes an old driver.")] = block(
        DriverManager
    )


class KataArtifacts(Base, frozen=True, kw_only=True):
    url: Annotated[str, doc("Where the artefacts are fetched from.")]
    pull_secret: Annotated[str, doc("Pull secret for them.")] = ""


class KataRuntimeClass(Base, frozen=True, kw_only=True):
    name: Annotated[str, doc("Name of the RuntimeClass.")]
    node_selector: Annotated[dict[str, str], doc("Nodes that get it.")] = {}
    artifacts: Annotated[KataArtifacts, doc("Kernel and image of the virtual machine.")]


class KataConfig(Base, frozen=True, kw_only=True):
    artifacts_dir: Annotated[
        str,
        doc(
            "Where artefacts are kept on the host.",
            default="/opt/nvidia-gpu-operator/artifacts/runtimeclasses",
        ),
    ] = "/opt/nvidia-gpu-operator/artifacts/runtimeclasses"
    runtime_classes: Annotated[list[KataRuntimeClass], doc("One RuntimeClass each.")] = []


class KataManager(Container, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc(NOT_ENABLED)] = False
    config: Annotated[KataConfig | None, doc("Kata runtime classes.")] = None


class CcManager(Container, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc(NOT_ENABLED)] = False
    default_mode: Annotated[
        str, doc("Confidential computing mode of nodes without a label.", enum=("on", "off", "devtools"))
    ] = ""


class ExtraEnv(Base, frozen=True, kw_only=True):
    env: Annotated[list[EnvVar], doc("Environment variables, set or replaced by name.")] = []


class Validator(Container, frozen=True, kw_only=True):
    plugin: Annotated[ExtraEnv, doc("The device plugin's validation.")] = block(ExtraEnv)
    toolkit: Annotated[ExtraEnv, doc("The toolkit's validation.")] = block(ExtraEnv)
    driver: Annotated[ExtraEnv, doc("The driver's validation.")] = block(ExtraEnv)
    cuda: Annotated[ExtraEnv, doc("CUDA's validation.")] = block(ExtraEnv)
    vfio_pci: Annotated[ExtraEnv, doc("Validation of vfio-pci.")] = msgspec.field(
        name="vfioPCI", default_factory=ExtraEnv
    )
    vgpu_manager: Annotated[ExtraEnv, doc("The vGPU manager's validation.")] = block(ExtraEnv)
    vgpu_devices: Annotated[ExtraEnv, doc("Validation of vGPU devices.")] = block(ExtraEnv)


class SandboxWorkloads(Base, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc("Operands for virtual machines; absent means false.")] = False
    default_workload: Annotated[
        str,
        doc(
            "What nodes without a workload label run.",
            default="container",
            enum=("container", "vm-passthrough", "vm-vgpu"),
        ),
    ] = "container"
    mode: Annotated[str, doc("Kind of virtual machines.", default="kubevirt", enum=("kubevirt", "kata"))] = (
        "kubevirt"
    )


class Cdi(Base, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc("Inject GPUs through CDI.", default=True)] = True
    default: Annotated[bool, doc("Deprecated, ignored.", default=False)] = False
    nri_plugin_enabled: Annotated[
        bool, doc("Inject management devices through NRI; needs cdi and toolkit.", default=False)
    ] = False


class HostPaths(Base, frozen=True, kw_only=True):
    root_fs: Annotated[str, doc("The host's root; empty means /.")] = msgspec.field(name="rootFS", default="")
    driver_install_dir: Annotated[
        str, doc("Where the driver container shows its files; empty means /run/nvidia/driver.")
    ] = ""
    kubelet_root_dir: Annotated[str, doc("The kubelet's directory.", default="/var/lib/kubelet")] = (
        "/var/lib/kubelet"
    )


class Psa(Base, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc("Label the operator's namespace as privileged; absent means false.")] = False


class Psp(Base, frozen=True, kw_only=True):
    enabled: Annotated[bool | None, doc("Deprecated, ignored.")] = None


class ToolkitOptions(Base, frozen=True, kw_only=True):
    max_unavailable: Annotated[
        int | str,
        doc(
            "How many nodes with GPU workloads may restart their container runtime at a time: a number, or a "
            "percentage of the GPU nodes, rounded up. Nodes without workloads need not wait.",
            default=1,
        ),
    ] = 1


class ExporterOptions(Base, frozen=True, kw_only=True):
    source: Annotated[
        str,
        doc(
            "Where the exporter takes DCGM's fields from: nvml; dcgm, and nothing where it has no value; "
            "auto, DCGM and NVML in its place. Absent means nvml, or auto where dcgmExporter.env names an "
            "engine.",
            enum=("nvml", "dcgm", "auto"),
        ),
    ] = ""


class GPUReadyOptions(Base, frozen=True, kw_only=True):
    """What gpuready adds to the original's fields."""

    images: Annotated[
        str,
        doc(
            "asNamed runs the images that this policy names; own runs gpuready's wherever it has one.",
            default="asNamed",
            enum=("asNamed", "own"),
        ),
    ] = "asNamed"
    registry: Annotated[
        str, doc("Mirror that stands in for the public registry in every image; empty means none.")
    ] = ""
    image_pull_secrets: Annotated[
        list[str], doc("Pull secrets of every pod, beside those of its own block.")
    ] = []
    toolkit: Annotated[ToolkitOptions, doc("How the container toolkit is rolled out.")] = block(
        ToolkitOptions
    )
    exporter: Annotated[ExporterOptions, doc("How the metrics exporter works.")] = block(ExporterOptions)
    cert_config: Annotated[
        NamedConfig, doc("ConfigMap whose key ca-bundle.crt lists all CAs that every container trusts.")
    ] = block(NamedConfig)


class ClusterPolicySpec(Base, frozen=True, kw_only=True):
    operator: Annotated[Operator, doc("Settings of the operator.", default={})] = block(Operator)
    daemonsets: Annotated[DaemonSets, doc("Settings of all DaemonSets.", default={})] = block(DaemonSets)
    driver: Annotated[Driver, doc("The GPU driver.", default={})] = block(Driver)
    toolkit: Annotated[Toolkit, doc("The container toolkit.", default={})] = block(Toolkit)
    device_plugin: Annotated[DevicePlugin, doc("The device plugin.", default={})] = block(DevicePlugin)
    dcgm: Annotated[Dcgm, doc("The DCGM host engine.", default={})] = block(Dcgm)
    dcgm_exporter: Annotated[DcgmExporter, doc("The metrics exporter.", default={})] = block(DcgmExporter)
    node_status_exporter: Annotated[
        NodeStatusExporter, doc("Metrics of the node's validations.", default={})
    ] = block(NodeStatusExporter)
    gfd: Annotated[Gfd, doc("GPU feature discovery.", default={})] = block(Gfd)
    mig: Annotated[Mig, doc("MIG as the device plugin sees it.")] = block(Mig)
    mig_manager: Annotated[MigManager, doc("The MIG manager.")] = block(MigManager)
    validator: Annotated[Validator, doc("The validator.")] = block(Validator)
    gds: Annotated[SideCar, doc("GPUDirect Storage.")] = block(SideCar)
    gdrcopy: Annotated[SideCar, doc("GDRCopy.")] = block(SideCar)
    sandbox_workloads: Annotated[SandboxWorkloads, doc("GPUs for virtual machines.")] = block(
        SandboxWorkloads
    )
    sandbox_device_plugin: Annotated[SandboxDevicePlugin, doc("The device plugin for KubeVirt.")] = block(
        SandboxDevicePlugin
    )
    kata_sandbox_device_plugin: Annotated[SandboxDevicePlugin, doc("The device plugin for Kata.")] = block(
        SandboxDevicePlugin
    )
    vgpu_manager: Annotated[VgpuManager, doc("The vGPU host driver.")] = block(VgpuManager)
    vgpu_device_manager: Annotated[VgpuDeviceManager, doc("Creates vGPU devices.")] = block(VgpuDeviceManager)
    vfio_manager: Annotated[VfioManager, doc("Binds GPUs to vfio-pci.")] = block(VfioManager)
    kata_manager: Annotated[KataManager, doc("Kata runtime classes.")] = block(KataManager)
    cc_manager: Annotated[CcManager, doc("Confidential computing.")] = block(CcManager)
    cdi: Annotated[Cdi, doc("Container Device Interface.")] = block(Cdi)
    host_paths: Annotated[HostPaths, doc("Where things are on the host.")] = block(HostPaths)
    psa: Annotated[Psa, doc("Pod security admission.")] = block(Psa)
    psp: Annotated[Psp, doc("Deprecated, ignored.")] = block(Psp)
    gpuready: Annotated[GPUReadyOptions, doc("Additions of gpuready; all optional.")] = block(GPUReadyOptions)


class PolicyMetadata(Base, frozen=True, kw_only=True):
    name: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ClusterPolicy(Base, frozen=True, kw_only=True):
    """What GPU nodes of this cluster should run, and how far they are."""

    api_version: str = "nvidia.com/v1"
    kind: str = "ClusterPolicy"
    metadata: PolicyMetadata = block(PolicyMetadata)
    spec: Annotated[ClusterPolicySpec, doc("What is asked.", default={})] = block(ClusterPolicySpec)
    status: Annotated[PolicyStatus, doc("What is.")] = block(PolicyStatus)

    @property
    def name(self) -> str:
        return self.metadata.name
