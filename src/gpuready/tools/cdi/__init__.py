"""`gpuready cdi`: write, list, check and resolve the CDI specs of the node it runs on."""
