"""A simulated containerd: reads its files as the real one of its version does, and answers on the CRI socket.

    merge.py       what it makes of root file and imports: both ways of merging. Pure.
    service.py     the daemon: reads its files once, when it starts, and tells what it knows
    program.py     /usr/bin/containerd of a simulated machine: serve, config dump, --version
    supervisor.py  starts it again whenever it ends, as systemd does

It runs no container: that is `gpuready_sim.runtime`, whatever the configuration says.
"""
