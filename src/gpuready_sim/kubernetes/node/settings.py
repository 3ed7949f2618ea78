"""The configuration of a real node's containerd, network and kubelet. Pure.

Each setting that is not a matter of places has its reason beside it: what a small machine, a container or a
virtual machine for tests lacks, or what would make a test wait.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
KUBELET_ROOT = "/var/lib/kubelet"
PAUSE_IMAGE = "gpuready.sim/pause:1"
NO_DNS = "10.96.0.10"  # nobody answers there; without an address every pod gets a warning
STATUS_INTERVAL_S = 1  # 10 by default


@dataclass(frozen=True)
class NodeSettings:
    """directory is seen at the same place inside and outside of the node's view.

    pod_network  addresses of pods, "198.19.7.0/24": known on this machine only
    cgroup       below which all pods are
    """

    name: str
    directory: Path
    address: str
    port: int
    pod_network: str
    cgroup: str
    runtime: str
    cni_plugins: Path
    authority: Path
    certificate: Path
    key: Path
    kubeconfig: Path
    labels: Mapping[str, str] = field(default_factory=dict)


def containerd(node: NodeSettings) -> str:
    """config.toml"""
    return f"""\
version = 3
root = "{node.directory}/containerd/root"
state = "/run/containerd"
# Nobody here traces, and NRI plugins would be another way into every container.
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
# Without CAP_SYS_RESOURCE a container may not get a lower OOM score than ours: runc would end.
restrict_oom_score_adj = true
enable_cdi = true
cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{node.cni_plugins}"]
conf_dir = "/etc/cni/net.d"
use_internal_loopback = true

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{node.runtime}"
SystemdCgroup = false
"""


def network(node: NodeSettings) -> str:
    """A CNI configuration: one pair of interfaces per pod. No bridge, so nothing stays when the pods end."""
    ranges = {"type": "host-local", "subnet": node.pod_network, "routes": [{"dst": "0.0.0.0/0"}]}
    plugins = [{"type": "ptp", "ipMasq": False, "ipam": ranges}]
    return json.dumps({"cniVersion": "1.0.0", "name": "gpuready-sim", "plugins": plugins}, indent=2)


def kubelet(node: NodeSettings) -> str:
    """The configuration file."""
    never = (
        "memory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "imagefs.available",
        "pid.available",
    )
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "port": node.port,
        "healthzPort": 0,
        "tlsCertFile": str(node.certificate),
        "tlsPrivateKeyFile": str(node.key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(node.authority)},
        },
        "authorization": {"mode": "AlwaysAllow"},  # who has a certificate of this cluster's authority
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        # The machine is shared: its disk, memory and processes are not the node's to judge or to clean.
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,  # a lower one needs CAP_SYS_RESOURCE
        "evictionHard": dict.fromkeys([*never, "pid.available"], "0%"),
        "imageGCHighThresholdPercent": 100,  # never
        "imageGCLowThresholdPercent": 99,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        "clusterDNS": [NO_DNS],
        "volumeStatsAggPeriod": "-1s",
        # A test waits for the Node to tell.
        "nodeStatusUpdateFrequency": f"{STATUS_INTERVAL_S}s",
        "syncFrequency": "10s",
    }
    return yaml.safe_dump(config, sort_keys=False)


def kubelet_options(node: NodeSettings, config: Path) -> list[str]:
    given = {
        "config": config,
        "kubeconfig": node.kubeconfig,
        "hostname-override": node.name,
        "node-ip": node.address,
        "root-dir": KUBELET_ROOT,
        "cert-dir": f"{KUBELET_ROOT}/pki",
        "v": 2,
    }
    labels = ",".join(f"{key}={value}" for key, value in node.labels.items())
    return [f"--{name}={value}" for name, value in given.items()] + (
        [f"--node-labels={labels}"] if labels else []
    )
