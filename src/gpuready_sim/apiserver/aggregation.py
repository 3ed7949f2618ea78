"""ClusterRoles that are put together from others by their labels, as the controller of that name does it."""

from __future__ import annotations

from gpuready_sim.apiserver.failures import Obj
from gpuready_sim.apiserver.rbac import CLUSTER_ROLES
from gpuready_sim.apiserver.selectors import selector_of
from gpuready_sim.apiserver.store import Store
from gpuready_sim.apiserver.writes import Writes


def aggregate(store: Store, writes: Writes) -> bool:
    """One round; whether it changed anything, which may bring the next."""
    before = store.rv
    for entry in store.table(CLUSTER_ROLES).sorted_entries():
        if entry.obj.get("aggregationRule"):
            writes.overwrite(CLUSTER_ROLES, entry.key, lambda role: role | {"rules": _gathered(role, store)})
    return store.rv != before


def _gathered(role: Obj, store: Store) -> list[Obj]:
    found: list[Obj] = []
    for chosen in role["aggregationRule"].get("clusterRoleSelectors") or []:
        selector = selector_of(chosen)
        for entry in store.table(CLUSTER_ROLES).sorted_entries():
            if entry.key[1] != role["metadata"]["name"] and selector.matches(entry.obj):
                found += [rule for rule in entry.obj.get("rules") or [] if rule not in found]
    return found
