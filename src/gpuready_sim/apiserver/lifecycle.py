"""What the server looks after by itself: the content of namespaces, custom resources, default objects."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable

from gpuready_sim.apiserver import bootstrap_rules, definitions, deletion, kinds
from gpuready_sim.apiserver.aggregation import aggregate
from gpuready_sim.apiserver.definitions import Taken
from gpuready_sim.apiserver.deletion import DeleteOptions
from gpuready_sim.apiserver.failures import Failure, Obj
from gpuready_sim.apiserver.rbac import CLUSTER_ROLES, GROUP
from gpuready_sim.apiserver.registry import CRD_TABLE, Registry
from gpuready_sim.apiserver.store import Change, Key, Store
from gpuready_sim.apiserver.watches import Watches
from gpuready_sim.apiserver.write_options import WriteOptions
from gpuready_sim.apiserver.writes import Writes

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
# What every namespace has, and gets back.
_FURNITURE = (("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt"))
_OPTIONS = WriteOptions(manager="kube-apiserver")
_OF_CONTROLLER = WriteOptions(manager="kube-controller-manager")


class Lifecycle:
    """Follows every change and does what it entails.

    Creations follow at once, so that a namespace has its service account when its creator is answered;
    deletions follow after the write that asked for them.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        writes: Writes,
        open_watches: Watches,
        *,
        ca_pem: str,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._store = store
        self._registry = registry
        self._writes = writes
        self._watches = open_watches
        self._ca_pem = ca_pem
        self._now = now
        self._to_drain: set[str] = set()
        self._to_clean: set[str] = set()
        self._to_furnish: set[str] = set()
        self._to_aggregate = False
        self._scheduled = False

    def start(self) -> None:
        """Take up what the store holds, create the default objects, follow from here on."""
        for entry in self._store.table(CRD_TABLE).sorted_entries():
            if definitions.is_served(entry.obj):
                self._registry.serve_crd(entry.obj)
            if entry.obj["metadata"].get("deletionTimestamp"):
                self._to_clean.add(entry.key[1])
        for entry in self._store.table("namespaces").sorted_entries():
            if entry.obj["metadata"].get("deletionTimestamp"):
                self._to_drain.add(entry.key[1])
        self._store.listeners.append(self._follow)
        for name in [entry.key[1] for entry in self._store.table(CRD_TABLE).sorted_entries()]:
            self._accept_names(name)
        self._create_defaults()
        self._schedule()

    # --- following ---

    def _follow(self, table: str, change: Change) -> None:
        if table == "namespaces":
            self._follow_namespace(change)
        elif table == CRD_TABLE:
            self._follow_definition(change)
        elif table == CLUSTER_ROLES:
            self._to_aggregate = True
        if change.type == "DELETED":
            namespace = change.entry.key[0]
            if namespace and self._is_terminating(namespace):
                self._to_drain.add(namespace)
            elif (table, change.entry.key[1]) in _FURNITURE:
                self._to_furnish.add(namespace)
            if ("", table) in self._store.table(CRD_TABLE).items:
                self._to_clean.add(table)
        self._schedule()

    def _follow_namespace(self, change: Change) -> None:
        name = change.entry.key[1]
        if change.type == "ADDED":
            self._furnish(name)
        elif change.type == "MODIFIED" and self._is_terminating(name):
            self._to_drain.add(name)

    def _follow_definition(self, change: Change) -> None:
        crd = change.entry.obj
        name = change.entry.key[1]
        if change.type == "DELETED":
            self._registry.drop_crd(crd)
            self._watches.close_table(name)
            self._store.drop_table(name)
            for other in self._neighbours(crd):
                self._accept_names(other)
            return
        if definitions.waits_for_objects(crd):
            self._to_clean.add(name)
        if definitions.is_served(crd):
            self._registry.serve_crd(crd)
            if change.previous is not None and change.previous.obj["spec"] != crd["spec"]:
                self._watches.close_table(name)  # they show objects by the schema that was
        self._accept_names(name)

    def _is_terminating(self, namespace: str) -> bool:
        entry = self._store.table("namespaces").get("", namespace)
        return entry is not None and entry.obj["metadata"].get("deletionTimestamp") is not None

    # --- deletions ---

    def _schedule(self) -> None:
        if self._scheduled or not (
            self._to_drain or self._to_clean or self._to_furnish or self._to_aggregate
        ):
            return
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        self._scheduled = False
        namespaces, self._to_drain = self._to_drain, set()
        emptied, self._to_clean = self._to_clean, set()
        bare, self._to_furnish = self._to_furnish, set()
        if self._to_aggregate:
            self._to_aggregate = False
            aggregate(self._store, self._writes)
        for name in namespaces:
            self._drain(name)
        for name in emptied:
            self._clean(name)
        for name in bare:
            if self._store.table("namespaces").get("", name) and not self._is_terminating(name):
                self._furnish(name)

    def _drain(self, namespace: str) -> None:
        """Delete what is left in a terminating namespace; remove the namespace when nothing is."""
        if not self._is_terminating(namespace):
            return
        left = 0
        for table in self._registry.tables(namespaced=True):
            left += self._delete_all(table, namespace)
        if left:
            return
        key = ("", namespace)
        self._writes.overwrite("namespaces", key, lambda live: live | {"spec": {"finalizers": []}})
        entry = self._store.table("namespaces").items.get(key)
        if entry is not None and deletion.is_finished(entry.obj):
            self._writes.finish("namespaces", key)

    def _clean(self, name: str) -> None:
        """Delete the objects of a custom resource that goes; remove its definition when none is left."""
        entry = self._store.table(CRD_TABLE).get("", name)
        if entry is None or not definitions.waits_for_objects(entry.obj):
            return
        self._tell(name, definitions.being_emptied)
        if definitions.is_served(entry.obj) and self._delete_all(name, None):
            return
        self._tell(name, definitions.emptied)

    # --- definitions ---

    def _accept_names(self, name: str) -> None:
        """Give a definition the names that are free, and serve it; its neighbours may get what it leaves."""
        entry = self._store.table(CRD_TABLE).get("", name)
        if entry is None:
            return
        neighbours = self._neighbours(entry.obj)
        taken = Taken.by(self._store.table(CRD_TABLE).items["", other].obj for other in neighbours)
        if self._tell(name, lambda crd, now: definitions.named(crd, taken, now)):
            for other in neighbours:
                self._accept_names(other)
        self._tell(name, definitions.established)

    def _neighbours(self, crd: Obj) -> list[str]:
        """The other definitions of a group."""
        name, group = crd["metadata"]["name"], crd["spec"]["group"]
        entries = self._store.table(CRD_TABLE).sorted_entries()
        return [e.key[1] for e in entries if e.obj["spec"]["group"] == group and e.key[1] != name]

    def _tell(self, name: str, edit: Callable[[Obj, str], Obj]) -> bool:
        """Write what a definition tells of itself; False when that is nothing new."""
        entry = self._store.table(CRD_TABLE).get("", name)
        if entry is None:
            return False
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        if edit(entry.obj, now) == entry.obj:
            return False
        resource = self._registry.of_table(CRD_TABLE)
        self._writes.update(resource, entry.key, lambda crd: edit(crd, now), _OPTIONS, "status")
        return True

    def _delete_all(self, table: str, namespace: str | None) -> int:
        """Ask for the deletion of every object; returns how many are still there."""
        resource = self._registry.of_table(table)
        for entry in self._store.table(table).sorted_entries(namespace):
            if entry.obj["metadata"].get("deletionTimestamp") is None:
                self._writes.delete(resource, entry.key, DeleteOptions())
        return len(self._store.table(table).sorted_entries(namespace))

    # --- default objects ---

    def _create_defaults(self) -> None:
        for name in NAMESPACES:
            self._ensure("", "namespaces", "", {"metadata": {"name": name}})
        text = "Used for system critical pods that must not be moved from their current node."
        for name, value in (("system-node-critical", 2000001000), ("system-cluster-critical", 2000000000)):
            self._ensure(
                "scheduling.k8s.io",
                "priorityclasses",
                "",
                {
                    "metadata": {"name": name},
                    "value": value,
                    "description": text,
                },
            )
        self._ensure("", "services", "default", _api_service())
        for role in bootstrap_rules.roles():
            self._ensure(GROUP, "clusterroles", "", role)
        for binding in bootstrap_rules.bindings():
            self._ensure(GROUP, "clusterrolebindings", "", binding)
        while aggregate(self._store, self._writes):
            pass
        self._to_aggregate = False

    def _furnish(self, namespace: str) -> None:
        """What a controller gives to every new namespace."""
        self._ensure("", "serviceaccounts", namespace, {"metadata": {"name": "default"}})
        description = {
            "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver "
            "when using internal endpoints such as the internal service IP or kubernetes.default.svc. No "
            "other usage is guaranteed across distributions of Kubernetes clusters."
        }
        bundle = {
            "metadata": {"name": "kube-root-ca.crt", "annotations": description},
            "data": {"ca.crt": self._ca_pem},
        }
        self._ensure("", "configmaps", namespace, bundle, _OF_CONTROLLER)

    def _ensure(
        self, group: str, plural: str, namespace: str, obj: Obj, options: WriteOptions = _OPTIONS
    ) -> None:
        resource = self._registry.find(group, "v1", plural)
        assert resource is not None
        key: Key = (namespace, obj["metadata"]["name"])
        if key in self._store.table(resource.table).items:
            return
        try:
            self._writes.create(resource, namespace, obj, options)
        except Failure as exc:
            raise RuntimeError(f"default object {plural}/{key[1]}: {exc.message}") from exc


def _api_service() -> Obj:
    return {
        "metadata": {
            "name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": kinds.API_SERVICE_ADDRESS,
            "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    }
