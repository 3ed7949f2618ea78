"""The simulated container runtime: a container is a local process that sees a root of its own.

images.py       which programs exist; anything else is CreateContainerError with the list
roots.py        the container's root directory: links into the node's root and to the pod's volumes
cdi.py          CDI specs: loading and resolving; cdi_edits.py: what they do to a container
environment.py  the pod's env as the kubelet composes it
container.py    one process: start, exec, stop, log
driver_container.py, gpu_hold.py, nvidia_smi.py    built-in programs
"""
