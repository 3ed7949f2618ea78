"""A simulated CRI-O: reads its files as the real one of its release does, and answers on its socket.

    merge.py       what it makes of crio.conf and crio.conf.d, and when it would not start
    service.py     the daemon: CRI and the HTTP answers of `crio status`, on one socket; SIGHUP
    program.py     /usr/bin/crio of a simulated machine: serve, config, status config, --version
    supervisor.py  its unit: Restart=on-failure

It runs no container: that is `gpuready_sim.runtime`, whatever the configuration says.

Source: cri-o v1.36.3, pkg/config/config.go, reload.go, server/runtime_status.go, inspect.go; what a release
knows was read at its own tag (1.26 to 1.36).
"""
