"""The controllers of a control plane, as far as GPU operands meet them.

    daemonset/  pods of DaemonSets: placement, rolling update, status
    deployment/ ReplicaSets of Deployments, pods of ReplicaSets
    job/        pods of Jobs until they have succeeded, or failed too often
    scheduler/  binds pods, or says why not
    disruption/ how many pods a disruption budget lets go
    garbage/    owner references, finalizers of deletion
    nodes/      Ready, taints, eviction, pods of deleted nodes

Each folder has pure decisions and one thin loop; `run.py` puts them into one asyncio process. All are
clients of the API server and would run against a real one.
"""
