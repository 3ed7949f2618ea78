"""Disruption budgets: how many pods may go, as evictions ask it."""
