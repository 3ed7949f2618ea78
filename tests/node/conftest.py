"""Clusters for the tests of this tier, as for the simulator's."""

from tests.sim.conftest import start_cluster, state_home

__all__ = ["start_cluster", "state_home"]
