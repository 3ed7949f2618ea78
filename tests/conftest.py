"""What holds for every test: a busy machine is no failure."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Examples are counted, not timed: how long one takes says more of the machine than of the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
