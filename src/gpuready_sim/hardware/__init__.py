"""Simulated machines: the GPU catalogue, a node's files, its driver, its faults.

catalogue.py    the models            state.py   gpus.state: faults, load, holders
driver_tree.py  a driver's files      layout.py  its layout, read from nvml/state.h
machine.py      a node's root directory, loading and unloading the module, reboots
"""
