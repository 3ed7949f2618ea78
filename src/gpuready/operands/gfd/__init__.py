"""GPU feature labels (nvidia.com/gpu.product …): an operand of the policy, done by the node agent."""
