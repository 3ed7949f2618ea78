"""The simulated kubelet: one node's Node object, its pods as local processes, its device plugin sockets.

What `gpuready_sim.cluster` needs:

    from gpuready_sim.kubelet.kubelet import Kubelet
    from gpuready_sim.kubelet.identity import NodeIdentity, Timing

    kubelet = Kubelet(
        NodeIdentity(name="gpu-1", address="127.8.0.1", labels={...}, taints=[{...}]),
        node_dir=cluster_dir / "nodes" / "gpu-1",   # root/ built before by gpuready_sim.hardware.machine
        client=SimClient(access, user_agent="sim-kubelet"),   # one for all kubelets or one each
        timing=Timing(),                            # every period and back-off
    )
    await kubelet.start()       # returns once the Node is registered and the sockets are served
    await kubelet.restart()     # the kubelet process restarts: sockets anew, containers run on
    await kubelet.power_off()   # containers killed, sockets silent; the machine may now change its boot id
    await kubelet.power_on()    # boots: new boot id, Event Rebooted, pods start again (restartCount + 1)
    await kubelet.stop()        # end of the simulator: every process gone
    kubelet.failed              # asyncio.Future whose result is the exception that ended a loop of it

Containers reach the API server at the address of `client.access.server` (KUBERNETES_SERVICE_HOST/PORT).
Kernel, OS image and boot id are read from the node's root at start and at power_on.
"""
