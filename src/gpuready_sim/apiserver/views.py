"""How stored objects look in answers: in another version, as a table row, as metadata only.

Bytes are made once per stored version and form, whoever asks.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gpuready_sim.apiserver import go_values, tables
from gpuready_sim.apiserver.event_versions import to_core_event, to_new_event
from gpuready_sim.apiserver.failures import Obj
from gpuready_sim.apiserver.names import TEMPLATE_GENERATION
from gpuready_sim.apiserver.negotiation import PLAIN, Form
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.store import Entry, encode


def now_utc() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class View:
    """One resource in one form.

    include  for tables, what each row carries: None, Metadata or Object
    """

    resource: ResourceType
    form: Form = PLAIN
    include: str = "Metadata"
    now: Callable[[], datetime.datetime] = field(default=now_utc, compare=False)

    @property
    def key(self) -> tuple[object, ...]:
        """What two views must share to give the same bytes; of a custom resource also its schema."""
        form = self.form
        return (self.resource.version, self.resource.custom, form.shape, form.version, self.include)

    @property
    def _meta_version(self) -> str:
        return f"meta.k8s.io/{self.form.version}"

    def one(self, entry: Entry) -> bytes:
        """The body that shows one object."""
        if self.form.shape == "Table":
            return self._table([entry], entry.obj["metadata"].get("resourceVersion", ""))
        if self.form.shape == "PartialObjectMetadata":
            return encode(self._partial(entry.obj))
        return plain(entry, self.resource)

    def many(self, entries: Sequence[Entry], meta: Obj) -> bytes:
        """The body of a list; `meta` is its ListMeta."""
        if self.form.shape == "Table":
            return self._table(entries, meta["resourceVersion"], meta)
        if self.form.shape == "PartialObjectMetadata":
            head = {
                "kind": "PartialObjectMetadataList",
                "apiVersion": self._meta_version,
                "metadata": meta,
            }
            if not entries:
                return encode(head | {"items": None})  # where an empty list of objects is []
        else:
            kind = self.resource.list_kind
            if self.resource.custom is not None:
                meta = {"continue": ""} | meta  # which lists of untyped objects always say
            head = {"kind": kind, "apiVersion": self.resource.api_version, "metadata": meta}
        return encode(head)[:-1] + b',"items":[' + b",".join(self._item(entry) for entry in entries) + b"]}"

    def _item(self, entry: Entry) -> bytes:
        """One of a list: built-in kinds are not named again."""
        raw = self.one(entry)
        if self.resource.custom is not None or self.form.shape:
            return raw
        head = encode({"apiVersion": self.resource.api_version, "kind": self.resource.kind})[:-1] + b","
        return b"{" + raw[len(head) :] if raw.startswith(head) else raw

    def bookmark(self, rv: int, annotations: dict[str, str] | None = None) -> bytes:
        """The object of a BOOKMARK event."""
        meta: Obj = {"resourceVersion": str(rv)}
        if annotations:
            meta["annotations"] = annotations
        head = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": meta}
        if self.form.shape == "Table":
            view = replace(self, include="Metadata") if annotations else self
            return view._table([Entry(("", ""), rv, b"", head)], str(rv))
        return encode(self._partial(head) if self.form.shape else head)

    def _table(self, entries: Sequence[Entry], rv: str, meta: Obj | None = None) -> bytes:
        resource, crd = self.resource, self.resource.crd
        table = {
            "kind": "Table",
            "apiVersion": self._meta_version,
            "metadata": meta or {"resourceVersion": rv},
            "columnDefinitions": tables.columns_of(resource, crd),
            "rows": [self._row(entry) for entry in entries],
        }
        return encode(table)

    def _row(self, entry: Entry) -> Obj:
        obj = shown(entry, self.resource)
        row = dict(tables.row_of(self.resource, obj, self.resource.crd, now=self.now()))
        if self.include == "Object":
            row["object"] = obj
        elif self.include == "None":
            row["object"] = None
        else:
            row["object"] = self._partial(obj)
        return row

    def _partial(self, obj: Obj) -> Obj:
        return partial_metadata(obj) | {"apiVersion": self._meta_version}


def partial_metadata(obj: Obj) -> Obj:
    meta = obj["metadata"]
    if TEMPLATE_GENERATION in (meta.get("annotations") or {}) and obj.get("kind") == "DaemonSet":
        # It is no annotation of the server's own type, from which this is made.
        others = {key: value for key, value in meta["annotations"].items() if key != TEMPLATE_GENERATION}
        meta = {key: value for key, value in meta.items() if key != "annotations"}
        meta |= {"annotations": others} if others else {}
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}


def plain(entry: Entry, resource: ResourceType) -> bytes:
    """An object's bytes in the version of the resource."""
    if resource.custom is not None:
        obj = shown(entry, resource)
        return entry.raw if obj is entry.obj else encode(obj)
    if resource.api_version == resource.storage_version:
        return entry.raw
    cached = entry.views.get(resource.api_version)
    if cached is None:
        cached = entry.views[resource.api_version] = encode(converted(entry.obj, resource))
    return cached


def shown(entry: Entry, resource: ResourceType) -> Obj:
    """A stored object in the version of the resource; the one in the store where nothing differs."""
    if resource.custom is None:
        return converted(entry.obj, resource)
    made = entry.shown.get(resource.api_version)
    if made is None or made[0] is not resource.custom:
        obj = _read(entry.obj, resource)
        made = entry.shown[resource.api_version] = (resource.custom, entry.obj if obj == entry.obj else obj)
    return made[1]


def remember(entry: Entry, resource: ResourceType) -> None:
    """An object that has just been written by this version, and stored in it, is shown as it is."""
    if resource.custom is not None and entry.obj["apiVersion"] == resource.api_version:
        entry.shown[resource.api_version] = (resource.custom, entry.obj)


def _read(obj: Obj, resource: ResourceType) -> Obj:
    """A stored custom object: pruned and defaulted by the version that it is stored in, pruned by the other.

    Source: kubernetes, apiextensions-apiserver pkg/apiserver/customresource_handler.go,
    crdConversionRESTOptionsGetter.
    """
    assert resource.custom is not None
    kept_as = resource.versions.get(str(obj["apiVersion"]).rpartition("/")[2])
    if kept_as is not None:
        obj = kept_as.default(kept_as.prune(obj))
    if obj["apiVersion"] == resource.api_version:
        return obj
    return resource.custom.prune(obj | {"apiVersion": resource.api_version})


def converted(obj: Obj, resource: ResourceType) -> Obj:
    """A stored object of a built-in kind in the version of the resource; the given one stays as it is."""
    if resource.api_version == resource.storage_version:
        return obj
    if resource.table == "events":
        return to_new_event(obj)
    return obj | {"apiVersion": resource.api_version}


def stored(obj: Obj, resource: ResourceType) -> Obj:
    """An object of a request as it is kept."""
    if resource.custom is not None:
        obj = go_values.stored(obj)
    if resource.api_version == resource.storage_version:
        return obj
    if resource.table == "events":
        return to_core_event(obj)
    obj = obj | {"apiVersion": resource.storage_version}
    kept_as = resource.versions.get(resource.storage[1])
    return kept_as.prune(obj) if kept_as is not None else obj
