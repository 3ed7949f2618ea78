"""The demonstration: four nodes, from bare machines to GPUs in pods, with faults, to nothing left behind."""

from gpuready_sim.scenarios.demo.command import run

__all__ = ["run"]
