"""The exporter's dashboards, from short definitions: `python -m monitoring.boards` writes them.

A module for each board says which rows and panels it has, in the words of `shapes.py`; `grafana.py` makes of
it what Grafana reads. gpuready-fleet.json is the operator's and is kept by hand.
"""
