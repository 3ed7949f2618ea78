"""What people type, by subject; what is printed stands in expected/kubectl-MINOR and expected/helm-MINOR."""

from . import access, charts, nodes, reading, workloads, writing

KUBECTL = [
    *reading.SESSIONS,
    *writing.SESSIONS,
    *nodes.SESSIONS,
    *workloads.SESSIONS,
    *access.SESSIONS,
]
HELM = charts.SESSIONS
