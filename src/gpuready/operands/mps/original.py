"""(policy, view) -> the objects of NVIDIA's MPS control daemon, on nodes that share GPUs by MPS. Pure.

Its image is the device plugin's, and so is the account it runs under. The policy's env and args for the
device plugin are not its own.

Source: gpu-operator v26.3.3, assets/state-mps-control-daemon; object_controls.go TransformMPSControlDaemon.
"""

from __future__ import annotations

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import Access, ClusterView, KubeObject
from gpuready.operands.daemonset import BIDIRECTIONAL
from gpuready.operands.original import gpu_access, plugin_config
from gpuready.operands.original.access import READ_NODES, USE_PRIVILEGED, account
from gpuready.operands.original.containers import (
    DIRECTORY,
    MADE_DIRECTORY,
    NODE_NAME,
    PRIVILEGED,
    Image,
    container,
    host_path,
    mount,
)
from gpuready.operands.original.pods import Pod, daemonset
from gpuready.operands.original.validation import RUN_NVIDIA, wait_for_toolkit

NAME = "nvidia-device-plugin-mps-control-daemon"
ACCESS = Access(in_namespace=(USE_PRIVILEGED,), in_cluster=(READ_NODES,))


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    return [*account(NAME, ACCESS, view), _daemonset(policy, view)]


def _daemonset(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    plugin = policy.spec.device_plugin
    image = Image.of(policy, view, "devicePlugin")
    pod = Pod(
        name=NAME,
        operand="mps-control-daemon",
        account="nvidia-device-plugin",
        scc="hostmount-anyuid",
        node_selector={names.DEPLOY_DEVICE_PLUGIN: "true", "nvidia.com/mps.capable": "true"},
        gpus_for="mps-control-daemon-ctr",
        host_network=plugin.host_network,
        images=[policy.spec.validator, plugin],
        annotations=plugin_config.pod_annotations(policy, view),
        init_containers=[
            wait_for_toolkit(policy, view, RUN_NVIDIA),
            _mounts_shared_memory(image),
            *plugin_config.first_choice(policy, image),
        ],
        containers=[
            _daemon(policy, image),
            *plugin_config.later_choices(
                policy, image, signals="/usr/bin/mps-control-daemon", resources=plugin.resources
            ),
        ],
        volumes=[
            host_path("run-nvidia", "/run/nvidia", DIRECTORY),
            host_path("mps-root", plugin.mps.root, MADE_DIRECTORY),
            host_path("mps-shm", f"{plugin.mps.root}/shm"),
            *plugin_config.volumes(policy),
        ],
        spec={"hostPID": True},
    )
    return daemonset(pod, policy, view)


def _mounts_shared_memory(image: Image) -> KubeObject:
    return container(
        "mps-control-daemon-mounts",
        image,
        command=["mps-control-daemon", "mount-shm"],
        securityContext=PRIVILEGED,
        mounts=[mount("mps-root", "/mps", propagation=BIDIRECTIONAL)],
    )


def _daemon(policy: ClusterPolicy, image: Image) -> KubeObject:
    return container(
        "mps-control-daemon-ctr",
        image,
        command=["mps-control-daemon"],
        env={
            "NODE_NAME": NODE_NAME,
            "NVIDIA_VISIBLE_DEVICES": "all",
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
            **plugin_config.env(policy),
            **gpu_access.mig_env(policy),
        },
        resources=policy.spec.device_plugin.resources,
        securityContext=PRIVILEGED,
        mounts=[mount("mps-shm", "/dev/shm"), mount("mps-root", "/mps"), *plugin_config.mounts(policy)],
    )
