"""Everything of Kubernetes is real here, and so are the operator, the node agent and the device plugin.

`make e2e` starts a real control plane and a real node (kubelet, containerd, runc), runs the operator beside
them, and lets it bring up a node whose GPUs are simulated: their device nodes have no driver behind them, and
NVML is the simulator's. Our daemons run as pods, from an image put together from this machine's Python.

    cluster.py   the cluster, and what a user does with it
    test_*.py    the way of one GPU: from the policy to the pod, and what happens when something breaks
"""
