"""(policy, view) -> the objects of NVIDIA's node status exporter: metrics of the validations. Pure.

Source: gpu-operator v26.3.3, assets/state-node-status-exporter.
"""

from __future__ import annotations

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import Access, ClusterView, KubeObject
from gpuready.operands.original.access import READ, READ_NODES, account, rule
from gpuready.operands.original.containers import (
    AS_ROOT,
    DIRECTORY,
    NAMESPACE,
    NODE_NAME,
    Image,
    container,
    host_path,
    host_root,
    user_env,
)
from gpuready.operands.original.monitoring import service, service_monitor
from gpuready.operands.original.pods import Pod, daemonset
from gpuready.operands.original.validation import HOST_READ_ONLY, RUN_NVIDIA

NAME = "nvidia-node-status-exporter"
PORT = 8000
ACCESS = Access(
    in_namespace=(
        rule("security.openshift.io", ["securitycontextconstraints"], ["use"]),
        rule("", ["pods"], ["get", "list"]),
        rule("apps", ["daemonsets"], READ),
    ),
    in_cluster=(READ_NODES,),
)


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    return [
        *account(NAME, ACCESS, view, {"app": NAME}),
        service(NAME, "node-status", PORT, view),
        *service_monitor(NAME, "node-status", view, job_label="node-status"),
        _daemonset(policy, view),
    ]


def _daemonset(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    exporter = policy.spec.node_status_exporter
    pod = Pod(
        name=NAME,
        operand="node-status-exporter",
        account=NAME,
        scc=NAME,
        node_selector={"nvidia.com/gpu.deploy.node-status-exporter": "true"},
        host_network=exporter.host_network,
        images=[exporter],
        containers=[
            container(
                NAME,
                Image.of(policy, view, "nodeStatusExporter"),
                command=["nvidia-validator"],
                args=exporter.args,
                env={
                    "NVIDIA_VISIBLE_DEVICES": "void",
                    "COMPONENT": "metrics",
                    "METRICS_PORT": str(PORT),
                    "NODE_NAME": NODE_NAME,
                    "OPERATOR_NAMESPACE": NAMESPACE,
                    **user_env(exporter.env),
                },
                resources=exporter.resources,
                ports=[{"name": "node-status", "containerPort": PORT}],
                securityContext=AS_ROOT,
                mounts=[RUN_NVIDIA, HOST_READ_ONLY],
            )
        ],
        volumes=[host_path("run-nvidia", "/run/nvidia", DIRECTORY), host_root(policy)],
    )
    return daemonset(pod, policy, view)
