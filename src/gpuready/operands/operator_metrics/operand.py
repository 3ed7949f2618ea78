"""The Service and the ServiceMonitor by which Prometheus finds the operator's own metrics.

Source: gpu-operator v26.3.3, assets/state-operator-metrics; v26.7.0 for the policy's fields.
"""

from __future__ import annotations

from gpuready import names
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import ClusterView, KubeObject, Operand
from gpuready.operands.original.monitoring import service, service_monitor

NAME = names.OPERATOR_APP  # the Service selects the operator's pod by it
PORT_NAME = "gpu-operator-metrics"


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    asked = policy.spec.operator.metrics.service_monitor
    return [
        service(NAME, PORT_NAME, names.OPERATOR_METRICS_PORT, view),
        *service_monitor(NAME, PORT_NAME, view, job_label="operator", asked=asked),
    ]


OPERAND = Operand(
    name="operator-metrics", deploy_label="", link=None, enabled=lambda policy: True, own=objects
)
