"""One simulated cluster: what it is made of, where it lives, the processes that run it.

spec.py        cluster.yaml as values          places.py     directories, lock, addresses
processes.py   child processes                 machines.py   a node: hardware and kubelet
supervisor.py  starts all and keeps it alive   commands.py   what `gpuready-sim` asks of a running one
handle.py      the same for tests and scenarios, in Python
"""
