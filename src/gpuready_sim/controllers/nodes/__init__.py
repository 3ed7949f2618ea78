"""Node health: the Ready condition, taints by condition, eviction, pods of nodes that are gone."""
