"""Every scenario; what a real API server answers to it stands in expected/."""

from . import (
    apply,
    corners,
    custom,
    definitions,
    errors,
    lifecycle,
    lists,
    namespaces,
    objects,
    odd,
    patches,
    reads,
    strategic,
    views,
)

SCENARIOS = [
    *objects.SCENARIOS,
    *patches.SCENARIOS,
    *strategic.SCENARIOS,
    *apply.SCENARIOS,
    *custom.SCENARIOS,
    *lifecycle.SCENARIOS,
    *lists.SCENARIOS,
    *views.SCENARIOS,
    *errors.SCENARIOS,
    *odd.SCENARIOS,
    *corners.SCENARIOS,
    *definitions.SCENARIOS,
    *reads.SCENARIOS,
    *namespaces.SCENARIOS,
]
