"""Simulated machines: the GPU catalogue, a node's files, its driver, its faults.

catalogue.py    the models            state.py   gpus.state: faults, load, holders
driver_tree.py  a driver's files      layout.py  its layout, read from nvml/state.h
machine.py      a node's root directory, loading and unloading the module, reboots
course.py       loads over time       settle.py  what added up until a load changed
work.py         load, processes, throttling, counted errors
mig.py          MIG instances, of the kinds in mig_profiles.py
call_faults.py  NVML calls that fail or hang
"""
