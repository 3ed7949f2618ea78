"""CDI specs: which files, device nodes and links a container gets with a GPU.

    search     where the driver's libraries are (../driver_files.py, ../ld_cache.py)
    scan       what of the driver lies where: reads files
    model      what was found, and a spec as a dict: the oldest version that expresses it, its host paths
    edits      found files -> container edits
    plugin     the device plugin's own spec (k8s.device-plugin.nvidia.com/gpu)
    kinds      nvidia.com/gpu, management.nvidia.com/gpu and the spec of everything else (GDS, IMEX …)
    qualified  names: vendor/class=device
    schema     what a runtime would refuse in a spec, ours or another's
    installed  all specs of a node: precedence, conflicts, resolving
    advice     why a name does not resolve

Source of the format: CNCF CDI specification 1.1.0 and its Go library.
"""
