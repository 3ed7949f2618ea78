"""Every string that other programs see: labels, annotations, resources, gates, paths, ports.

The names under `nvidia.com/`, the gate files and the CDI kinds are the original GPU operator's, so that
whoever depends on them keeps working. What is ours is under `gpuready.dev/` or `/run/gpuready`.
"""

from __future__ import annotations

VERSION = "0.1.0"
FIELD_MANAGER = "gpuready"
OPERATOR_NAMESPACE = "gpu-operator"
OPERATOR_APP = "gpu-operator"  # the label `app` of the operator's pod, the original's and ours
OWN_IMAGE = "gpuready"
# The original operator's: whoever holds it leads, be it the original or one of ours (decision 7).
LEADER_LEASE = "53822513.nvidia.com"

# --- API groups -----------------------------------------------------------------------------------------
CLUSTER_POLICY_API = "nvidia.com/v1"
CLUSTER_POLICY_KIND = "ClusterPolicy"
CLUSTER_POLICIES = "clusterpolicies"
GPU_NODE_API = "gpuready.dev/v1alpha1"
GPU_NODE_KIND = "GPUNode"
GPU_NODES = "gpunodes"

# --- node labels ----------------------------------------------------------------------------------------
GPU_PRESENT = "nvidia.com/gpu.present"
DEPLOY_PREFIX = "nvidia.com/gpu.deploy."
DEPLOY_OPERANDS = "nvidia.com/gpu.deploy.operands"
DEPLOY_DRIVER = "nvidia.com/gpu.deploy.driver"
DEPLOY_DEVICE_PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
DEPLOY_TOOLKIT = "nvidia.com/gpu.deploy.container-toolkit"
DEPLOY_VALIDATOR = "nvidia.com/gpu.deploy.operator-validator"
DEPLOY_EXPORTER = "nvidia.com/gpu.deploy.dcgm-exporter"
DRIVER_PRE_INSTALLED = "pre-installed"
UPGRADE_STATE_LABEL = "nvidia.com/gpu-driver-upgrade-state"
UPGRADE_SKIP_LABEL = "nvidia.com/gpu-driver-upgrade.skip"
PLUGIN_CONFIG_LABEL = "nvidia.com/device-plugin.config"
MIG_CONFIG_LABEL = "nvidia.com/mig.config"
NFD_PREFIX = "feature.node.kubernetes.io/"
NFD_PCI_LABELS = (
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present",
    "feature.node.kubernetes.io/pci-0300_10de.present",
)
# DaemonSets of node-feature-discovery: of its chart, and of its operators and plain manifests.
NFD_SELECTORS = ("app.kubernetes.io/name=node-feature-discovery", "app in (nfd,nfd-worker)")
NFD_OWNED_ANNOTATION = "nfd.node.kubernetes.io/feature-labels"
OS_ID_LABEL = "feature.node.kubernetes.io/system-os_release.ID"
OS_VERSION_LABEL = "feature.node.kubernetes.io/system-os_release.VERSION_ID"
KERNEL_LABEL = "feature.node.kubernetes.io/kernel-version.full"

# --- annotations: the key=value pairs that each of our two writers put on a Node (JSON object) ----------
CONTROLLER_LABELS_ANNOTATION = "gpuready.dev/controller-labels"
# The original's: its driver manager then leaves the workloads to an upgrade controller, which is not here.
UPGRADE_ENABLED_ANNOTATION = "nvidia.com/gpu-driver-upgrade-enabled"
AGENT_LABELS_ANNOTATION = "gpuready.dev/agent-labels"
# On a Node, by a person: each new value has the CUDA proof made again on all its GPUs.
PROVE_CUDA_ANNOTATION = "gpuready.dev/prove-cuda"
# On the operator's namespace: what each label that it wrote there said before (JSON; null = not there).
NAMESPACE_LABELS_ANNOTATION = "gpuready.dev/namespace-labels"
# On every object that the policy controller applies.
DIGEST_ANNOTATION = "gpuready.dev/digest"
OWNER_LABEL = "gpuready.dev/policy"
# On the leader's Lease: the holder that wrote it. An original operator as the holder leaves it behind.
LEADER_ANNOTATION = "gpuready.dev/leader"
OPERAND_LABEL = "gpuready.dev/operand"
# On a driver pod: digest of what decides how the driver is installed.
DRIVER_CONFIG_LABEL = "gpuready.dev/driver-config"

# --- conditions -----------------------------------------------------------------------------------------
GPU_READY_CONDITION = "GPUReady"
# Of a policy: nodes work with another driver than it asks for, and wait for theirs.
UPGRADE_WAITING_CONDITION = "DriverUpgradeWaiting"
# Of a policy: a container runtime did not come back, and the nodes that wait to restart theirs go on waiting.
RESTARTS_STOPPED_CONDITION = "RuntimeRestartsStopped"

# --- resources and CDI ----------------------------------------------------------------------------------
GPU_RESOURCE = "nvidia.com/gpu"
SHARED_SUFFIX = ".shared"
GPU_TAINT = "nvidia.com/gpu"
PLUGIN_CDI_KIND = "k8s.device-plugin.nvidia.com/gpu"
GPU_CDI_KIND = "nvidia.com/gpu"
MANAGEMENT_CDI_KIND = "management.nvidia.com/gpu"
IMEX_CLASS = "imex-channel"
PLUGIN_CDI_CLASSES = ("gds", "mofed", "gdrcopy", IMEX_CLASS)  # beside GPUs, each with a file of its own
CDI_DIRS = ("/etc/cdi", "/var/run/cdi")  # the administrator's, the programs': of one name the later counts
GPU_CDI_FILE = "/var/run/cdi/nvidia.com-gpu.json"
MANAGEMENT_CDI_FILE = "/var/run/cdi/management.nvidia.com-gpu.yaml"
CDI_HOOK = "/usr/local/nvidia/toolkit/nvidia-cdi-hook"
PLUGIN_CDI_FILE = "/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"

# --- on the node ----------------------------------------------------------------------------------------
ROOT_ENV = "GPUREADY_ROOT"
POD_UID_ENV = "GPUREADY_POD_UID"
GATES_DIR_ENV = "GPUREADY_GATES_DIR"
DESIRED_DIR_ENV = "GPUREADY_DESIRED_DIR"
RECORDS_DIR_ENV = "GPUREADY_RECORDS_DIR"
GATES_DIR = "/run/nvidia/validations"
DESIRED_DIR = "/run/gpuready/desired"
RECORDS_DIR = "/run/gpuready/records"
# While it exists, long-lived holders of NVML let the driver go; it says why.
PAUSE_FILE = "/run/gpuready/desired/pause"
LAST_KNOWN_DIR = "/var/lib/gpuready/desired"
DRIVER_READY = "driver-ready"
PLUGIN_READY = "plugin-ready"
TOOLKIT_READY = "toolkit-ready"
CUDA_READY = "cuda-ready"
TOOLKIT_JOURNAL = "/var/lib/gpuready/toolkit/journal.json"
DRIVER_CTR_READY = ".driver-ctr-ready"
DRIVER_DAEMONS_STATUS = ".driver-daemons-status"
DRIVER_INSTALL_DIR = "/run/nvidia/driver"
PLUGIN_DIR = "/var/lib/kubelet/device-plugins"
KUBELET_SOCKET = "kubelet.sock"
POD_RESOURCES_SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"

# --- ports ----------------------------------------------------------------------------------------------
OPERATOR_METRICS_PORT = 8080
OPERATOR_HEALTH_PORT = 8081
NODE_AGENT_HEALTH_PORT = 9411
DEVICE_PLUGIN_HEALTH_PORT = 9412
TOOLKIT_HEALTH_PORT = 9413
EXPORTER_HEALTH_PORT = 9414
EXPORTER_PORT = 9400


def is_controller_label(key: str) -> bool:
    """Labels that the controller may ever write; anything else in its annotation is a forgery."""
    return key in (GPU_PRESENT, MIG_CONFIG_LABEL) or key.startswith(DEPLOY_PREFIX)


def is_agent_label(key: str) -> bool:
    """Labels that the node agent may ever write: discovery and GPU features."""
    if key.startswith(NFD_PREFIX):
        return True
    return key.startswith("nvidia.com/") and not is_controller_label(key) and key != PLUGIN_CONFIG_LABEL
