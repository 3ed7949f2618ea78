"""Real Kubernetes under the simulator: its programs, built from their Go modules, and a control plane.

    modules/         what to build: wrapper modules with pinned versions
    build.py         `make kubernetes`: compiles them into a cache outside the tree
    assets.py        finds the programs: KUBEBUILDER_ASSETS, then the cache, then PATH
    credentials.py   one cluster's authority, certificates, tokens
    arguments.py     the command lines of etcd, API server, controller manager and scheduler. Pure.
    control_plane.py the four processes: start, watch over, stop
    clients.py       `make clients`: kubectl and helm of fixed versions, for tests
    request_log.py   the API server's audit log as requests.jsonl

Simulated kubelets join it as they join the embedded API server. What is different there, and stays so:

- `pods/NAME:PORT/proxy` does not work. A real API server refuses to forward to loopback addresses, and
  that is what simulated pods have; they are reached by their address, from this machine.
- The kubelets' port speaks HTTPS and wants the API server's client certificate.
"""
