"""(policy, view) -> the objects of NVIDIA's DCGM host engine. Pure.

Source: gpu-operator v26.3.3, assets/state-dcgm; object_controls.go TransformDCGM.
"""

from __future__ import annotations

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import Access, ClusterView, KubeObject
from gpuready.operands.original.access import USE_PRIVILEGED, account
from gpuready.operands.original.containers import (
    DIRECTORY,
    PRIVILEGED,
    Image,
    container,
    host_path,
    user_env,
)
from gpuready.operands.original.monitoring import service
from gpuready.operands.original.pods import Pod, daemonset
from gpuready.operands.original.validation import RUN_NVIDIA, wait_for_toolkit

NAME = "nvidia-dcgm"
PORT = 5555
ACCESS = Access(in_namespace=(USE_PRIVILEGED,))


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    # Each node's exporter asks the engine of its own node.
    engine = service(NAME, "dcgm", PORT, view, scraped=False, spec={"internalTrafficPolicy": "Local"})
    return [*account(NAME, ACCESS, view), _daemonset(policy, view), engine]


def _daemonset(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    dcgm = policy.spec.dcgm
    probe: KubeObject = {"tcpSocket": {"port": PORT}, "initialDelaySeconds": 15}
    pod = Pod(
        name=NAME,
        operand="dcgm",
        account=NAME,
        scc="hostmount-anyuid",
        node_selector={"nvidia.com/gpu.deploy.dcgm": "true"},
        gpus_for="nvidia-dcgm-ctr",
        host_network=dcgm.host_network,
        images=[policy.spec.validator, dcgm],
        init_containers=[wait_for_toolkit(policy, view, RUN_NVIDIA)],
        containers=[
            container(
                "nvidia-dcgm-ctr",
                Image.of(policy, view, "dcgm"),
                args=dcgm.args,
                env=user_env(dcgm.env),
                resources=dcgm.resources,
                ports=[{"name": "dcgm", "containerPort": PORT}],
                livenessProbe=probe,
                readinessProbe=probe,
                securityContext=PRIVILEGED,
            )
        ],
        volumes=[host_path("run-nvidia", "/run/nvidia", DIRECTORY)],
    )
    return daemonset(pod, policy, view)
