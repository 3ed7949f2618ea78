"""(policy, view) -> the node agent's objects: account, rules, DaemonSet. Pure.

It is not the policy's property: it outlives the policy by the moment it takes to undo what was done on the
host. With node-feature-discovery in the cluster it runs on GPU nodes; without, it is what finds them, so it
runs on every Linux node whatever its taints.
"""

from __future__ import annotations

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import ClusterView, KubeObject
from gpuready.operands.daemonset import (
    HOST_TO_CONTAINER,
    DaemonSetShape,
    HostMount,
    daemonset,
    env_list,
    host_root,
    http_probe,
    kubelet_path,
    service_account,
    start_probe,
)
from gpuready.operands.node_agent.settings import NODE_NAME_ENV, POD_IP_ENV, Settings

NAME = "node-agent"
DAEMONSET = "gpuready-node-agent"


def _mounts(policy: ClusterPolicy) -> list[HostMount]:
    sockets = kubelet_path(policy, "pod-resources")
    return [
        # Everything it looks at (driver files, /proc, /sys, os-release) it reads from the host, read-only.
        host_root(policy),
        # /run/nvidia as a whole: the validations directory in it may be removed and made anew by others.
        HostMount("run-nvidia", "/run/nvidia", propagation=HOST_TO_CONTAINER),
        HostMount("run-gpuready", "/run/gpuready"),
        HostMount("var-lib-gpuready", "/var/lib/gpuready"),
        HostMount("pod-resources", sockets, "/var/lib/kubelet/pod-resources", read_only=True),
        HostMount("cdi-root", "/var/run/cdi"),
    ]


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    return [service_account(DAEMONSET, view), _role(), _binding(view), _daemonset(policy, view)]


def _daemonset(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    selector = {names.GPU_PRESENT: "true"} if view.nfd_present else {"kubernetes.io/os": "linux"}
    shape = DaemonSetShape(
        name=DAEMONSET,
        operand=NAME,
        containers=[_container(policy, view)],
        node_selector=selector,
        service_account=DAEMONSET,
        volumes=[mount.volume() for mount in _mounts(policy)],
        tolerations=[{"operator": "Exists"}],
        grace_period_s=10,
        mounts_token=True,
    )
    return daemonset(shape, policy, view)


def _container(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    settings = Settings(
        driver_install_dir=policy.spec.host_paths.driver_install_dir or names.DRIVER_INSTALL_DIR
    )
    fields = {NODE_NAME_ENV: "spec.nodeName", POD_IP_ENV: "status.podIP"}
    return {
        "name": NAME,
        "image": view.own_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["gpuready", "node-agent"],
        "env": env_list(settings.to_env(), fields),
        # Its short-lived children (NVML, CUDA) open the GPU's device nodes, which only a privileged container
        # sees, and make those that have come since it was created.
        "securityContext": {"privileged": True},
        # Ready is looked for every second at first, then seldom: each probe wakes a sleeping agent.
        "startupProbe": start_probe("/readyz", names.NODE_AGENT_HEALTH_PORT),
        "readinessProbe": http_probe("/readyz", names.NODE_AGENT_HEALTH_PORT, period_s=5),
        "livenessProbe": http_probe("/healthz", names.NODE_AGENT_HEALTH_PORT, period_s=15),
        "volumeMounts": [mount.mount() for mount in _mounts(policy)],
    }


# What it may do: read its own Node and GPUNode, label its Node, report on both, and speak in Events.
RULES: list[KubeObject] = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    {"apiGroups": ["gpuready.dev"], "resources": [names.GPU_NODES], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["gpuready.dev"], "resources": [f"{names.GPU_NODES}/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
]


def _role() -> KubeObject:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": DAEMONSET},
        "rules": RULES,
    }


def _binding(view: ClusterView) -> KubeObject:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": DAEMONSET},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": DAEMONSET},
        "subjects": [{"kind": "ServiceAccount", "name": DAEMONSET, "namespace": view.namespace}],
    }
