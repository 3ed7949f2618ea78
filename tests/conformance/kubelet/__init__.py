"""The same expectations of the simulated kubelet and of a real one with containerd.

`make conformance` runs every test against both; the real one is skipped with a reason where no real node can
run (see gpuready_sim/kubernetes/node/requirements.py). The device plugins are the tests' own.

    kubelets.py      the two kubelets, each with an API server of its kind
    scene.py         what a test does with a kubelet: plugins, pods, what the Node and the pods say
    test_*.py        the expectations; what the real kubelet does is right

What stays different, and no expectation here can see it:

- The simulated kubelet writes its Node at once; the real one at its next status period.
- Of two resources that answer with the same variable or path, the simulated kubelet takes the first of the
  container's limits; the real one whichever its Go map gives it first.
- The topology manager's policy is `none` in the simulated kubelet: no allocation is ever aligned.
- A pod is listed by the simulated pod-resources API as soon as it starts; by the real one once its pods have
  been seen again.
"""
