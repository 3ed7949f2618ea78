"""A real node: kubelet, containerd and runc as children of ours, joined to a real control plane.

    requirements.py  what this machine lacks for it, in words
    view.py          the node's own view of this machine: a private mount namespace, held by a process
    leftovers.py     cgroups, addresses and processes of a node, and how they go
    settings.py      the configuration of containerd, its network and the kubelet. Pure.
    images.py        images as archives, made from files of this machine: no registry
    own_image.py     the product's image, from what runs it here
    api_gateway.py   the API server's service address, for pods
    node.py          the node: start, restart the kubelet, load images, stop

The GPUs are simulated: device nodes without a driver behind them, and the simulator's NVML.
"""
