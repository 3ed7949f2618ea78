"""Which control plane a cluster has."""

from enum import StrEnum


class Api(StrEnum):
    EMBEDDED = "embedded"  # the simulator's own
    KUBERNETES = "kubernetes"  # a real one, after `make kubernetes`
