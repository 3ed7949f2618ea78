"""Create, update, patch, delete: every write goes through here, in the order of the real server.

Nothing in this module waits, so a read, its change and its write are one step: a patch never meets
another writer halfway.

Source: kubernetes, apiserver/pkg/registry/generic/registry/store.go, endpoints/handlers/{create,patch}.go.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpuready_sim.apiserver import apply as applying
from gpuready_sim.apiserver import (
    crd_rules,
    definitions,
    deletion,
    kind_rules,
    kinds,
    metadata,
    pod_warnings,
    schemas,
    scope,
    typed_patches,
    views,
)
from gpuready_sim.apiserver.deletion import DeleteOptions
from gpuready_sim.apiserver.failures import (
    Failure,
    Obj,
    already_exists,
    apply_conflict,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
)
from gpuready_sim.apiserver.known_fields import check_patched, known_fields
from gpuready_sim.apiserver.last_applied import with_last_applied
from gpuready_sim.apiserver.names import finalizer_warnings
from gpuready_sim.apiserver.registry import CRD_TABLE, Registry, ResourceType
from gpuready_sim.apiserver.requests import User
from gpuready_sim.apiserver.schema import Schema
from gpuready_sim.apiserver.schemas import FieldError
from gpuready_sim.apiserver.store import Entry, Key, Store, encode
from gpuready_sim.apiserver.write_options import WriteOptions

KUBECTL = "kubectl"
Edit = Callable[[Obj], Obj]
CheckGrant = Callable[[User, ResourceType, Obj, Obj | None], None]


@dataclass(frozen=True)
class Written:
    """The object after a write; `created` and `removed` tell what happened to it."""

    entry: Entry
    created: bool = False
    removed: bool = False


class Writes:
    """The write side of the API server."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        now: Callable[[], datetime.datetime],
        check_grant: CheckGrant | None = None,
    ) -> None:
        """
        check_grant  refuses writers of roles and bindings who would give away more than they have
        """
        self._store = store
        self._registry = registry
        self._now = now
        self._check_grant = check_grant

    # --- create ---

    def create(self, resource: ResourceType, namespace: str, given: Obj, options: WriteOptions) -> Written:
        """Store a new object.

        raises  Failure 400, 403, 404 (its namespace), 409, 422
        """
        obj = metadata.checked_head(kinds.without_status(given, resource), resource, namespace)
        metadata.begin(obj, resource, self._stamp())
        obj = self._understood(obj, resource, options)
        return self._create(
            resource, obj, options, lambda new: self._tracked(None, new, resource, options, "")
        )

    def _create(self, resource: ResourceType, obj: Obj, options: WriteOptions, track: Edit) -> Written:
        meta = obj["metadata"]
        namespace, name = meta.get("namespace", ""), meta.get("name", "")
        around = self._around()
        obj = track(obj)
        if resource.namespaced and (why := kinds.check_namespace(resource, namespace, name, around)):
            raise why
        if resource.crd is not None and self._is_ending(resource):
            told = "create not allowed while custom resource definition is terminating"
            raise forbidden(resource.plural, resource.group, name, told)
        self._refuse_grant(obj, None, resource, options)
        first = kinds.is_admitted_first(resource)
        if first:
            kinds.prepare_create(obj, resource, around)
        self._refuse_invalid(obj, None, resource, "", options)
        _warn(obj, None, resource, options)
        if not first:
            kinds.prepare_create(obj, resource, around)
        key = (namespace, name)
        if (there := self._store.table(resource.table).items.get(key)) is not None:
            ending = there.obj["metadata"].get("deletionTimestamp") is not None
            raise already_exists(resource.plural, resource.group, name, ending=ending)
        return Written(self._keep(resource, key, obj, options), created=True)

    # --- update ---

    def update(
        self,
        resource: ResourceType,
        key: Key,
        edit: Edit,
        options: WriteOptions,
        subresource: str = "",
    ) -> Written:
        """Replace an object by what `edit` makes of it; writing what is there already writes nothing.

        edit    gets the live object in the request's version and returns a new one
        raises  Failure 400, 404, 409, 422
        """
        live = self._live(resource, key)
        made = edit(live)
        if options.patching:
            check_patched(made, resource, key[1], options)
        new = metadata.checked_head(made, resource, key[0], key[1], patching=options.patching)
        needed = kinds.must_name_version(resource) and subresource != "scale"
        metadata.refuse_another_version(new, live, resource, needed=needed)
        wrong = metadata.changed_identity(new, live)
        metadata.carry_over(new, live)
        forgets = not subresource and resource.custom is None and new["metadata"].get("managedFields") == []
        new = self._understood(new, resource, options)

        def track(obj: Obj) -> Obj:
            if forgets or not scope.is_typable(new, live, resource, subresource):
                return scope.with_managed_fields(obj, None)
            return self._tracked(live, obj, resource, options, subresource)

        return self._replace(resource, key, live, new, options, subresource, track, wrong)

    def _replace(
        self,
        resource: ResourceType,
        key: Key,
        live: Obj,
        new: Obj,
        options: WriteOptions,
        subresource: str,
        track: Edit,
        wrong: Sequence[FieldError],
    ) -> Written:
        """
        wrong  what was found wrong with the new object before
        """
        new = track(scope.confined(new, live, resource, subresource))
        if subresource in ("", "scale"):
            kinds.prepare_update(new, live, resource, self._around())
            metadata.count_generation(new, live, resource)
        if not wrong and scope.same(new, live) and not self._is_stale(live, resource, key):
            return Written(self._store.table(resource.table).items[key])
        self._refuse_grant(new, live, resource, options)
        self._refuse_invalid(new, live, resource, subresource, options, wrong)
        if subresource in ("", "scale"):
            _warn(new, live, resource, options)
        if deletion.is_finished(new):
            # Answered in the last version that was kept; only watchers see that of the removal.
            before = self._store.table(resource.table).items[key]
            self._drop(resource, key, new, options)
            shown = new | {"metadata": new["metadata"] | {"resourceVersion": str(before.rv)}}
            return Written(Entry(key, before.rv, encode(shown), shown), removed=True)
        return Written(self._keep(resource, key, new, options))

    def put(
        self, resource: ResourceType, key: Key, given: Obj, options: WriteOptions, sub: str = ""
    ) -> Written:
        """PUT: the whole object. Of some kinds an update must name the version it was made from."""
        metadata.refuse_custom_version(given, resource)
        if resource.custom is not None and metadata.is_another_kind(given, resource):
            there = self._live(resource, key)  # of a custom resource the kind is looked at last
            metadata.refuse_another_version(given, there, resource, needed=True)
        read = known_fields(metadata.checked_head(given, resource, ""), resource, options)
        meta = read["metadata"]
        metadata.check_namespace(meta, key[0])
        metadata.check_name(meta, key[1])
        if key not in self._store.table(resource.table).items and kinds.is_created_by_updates(resource):
            return self._created_by_update(resource, key, read, options)
        metadata.refuse_another_uid(meta, self._live(resource, key)["metadata"], resource)
        return self.update(resource, key, lambda _: read, replace(options, validation="Ignore"), sub)

    def _created_by_update(
        self, resource: ResourceType, key: Key, given: Obj, options: WriteOptions
    ) -> Written:
        meta = given["metadata"]
        metadata.refuse_another_uid(meta, {"name": key[1], "namespace": key[0], "uid": ""}, resource)
        metadata.parsed_version(meta)
        new = given | {"metadata": {name: value for name, value in meta.items() if name != "resourceVersion"}}
        return self.create(resource, key[0], new, replace(options, validation="Ignore"))

    # --- apply ---

    def apply(
        self,
        resource: ResourceType,
        key: Key,
        applied: Obj,
        options: WriteOptions,
        *,
        force: bool,
        subresource: str = "",
    ) -> Written:
        """Server-side apply: create the object, or merge what this manager wants into it.

        raises  Failure 409 with the conflicting managers, 400, 404, 422
        """
        entry = self._store.table(resource.table).items.get(key)
        if entry is None and subresource:
            raise not_found(resource.plural, resource.group, key[1])
        metadata.refuse_applied_kind(applied, resource)
        given = applied["metadata"] if isinstance(applied.get("metadata"), dict) else {}
        if given.get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        typed_patches.refuse_untypable(applied, resource)
        wanted = scope.own_part(metadata.checked_head(applied, resource, ""), resource, subresource)
        live = views.shown(entry, resource) if entry is not None else None
        merged = self._merge_applied(resource, live, wanted, options, force=force, subresource=subresource)
        if resource.custom is not None:
            merged = resource.custom.prune(merged)
        merged = typed_patches.converted(merged, applied, resource)
        if options.manager == KUBECTL and not subresource:
            merged = with_last_applied(merged, applied)
        if options.objections and options.validation == "Strict":
            told = "".join(f"\n  {text}" for text in options.objections)
            why = f"error converting YAML to JSON: yaml: unmarshal errors:{told}"
            raise bad_request(f"error strict decoding YAML: {why}")
        options.warnings.extend(options.objections)
        fields = merged["metadata"].get("managedFields")
        if entry is None and given.get("uid"):
            why = f"the provided object specified uid {given['uid']}, and no existing object was found"
            raise conflict(resource.plural, resource.group, key[1], f"uid mismatch: {why}")
        metadata.check_namespace(merged["metadata"], key[0])
        metadata.check_name(merged["metadata"], key[1])
        new = metadata.checked_head(merged, resource, key[0], key[1])
        return self._store_applied(resource, key, live, new, given, fields, options, subresource)

    def _store_applied(
        self,
        resource: ResourceType,
        key: Key,
        live: Obj | None,
        new: Obj,
        given: Obj,
        fields: list[Obj] | None,
        options: WriteOptions,
        subresource: str,
    ) -> Written:
        """
        given   the metadata that was applied
        fields  the managedFields of the new object
        """

        def track(obj: Obj) -> Obj:
            return scope.with_managed_fields(obj, fields)

        if live is None:
            metadata.begin(new, resource, self._stamp())
            new = kinds.as_decoded(self._defaulted(new, resource, keep_nulls=True), resource)
            return self._create(resource, new, options, track)
        new["metadata"] |= {name: given[name] for name in ("resourceVersion", "uid") if given.get(name)}
        metadata.refuse_another_version(new, live, resource, needed=False)
        wrong = metadata.changed_identity(new, live)
        metadata.carry_over(new, live)
        new = kinds.as_decoded(self._defaulted(new, resource, keep_nulls=True), resource)
        return self._replace(resource, key, live, new, options, subresource, track, wrong)

    def _merge_applied(
        self,
        resource: ResourceType,
        live: Obj | None,
        wanted: Obj,
        options: WriteOptions,
        *,
        force: bool,
        subresource: str,
    ) -> Obj:
        try:
            return applying.apply(
                live,
                wanted,
                options.manager,
                force=force,
                schema=resource.schema,
                api_version=resource.api_version,
                subresource=subresource,
                keep_nulls=resource.custom is not None,
                reset=_not_its_own(resource, subresource),
                versions=_typed_versions(resource),
                now="" if options.untimed else self._stamp(),
            )
        except applying.ApplyConflict as exc:
            raise apply_conflict(str(exc), exc.causes()) from exc
        except applying.Untypable as exc:
            raise Failure(500, "", str(exc)) from exc
        except applying.ApplyInvalid as exc:
            raise bad_request(f"failed to create typed patch object: {exc}") from exc

    # --- delete ---

    def delete(self, resource: ResourceType, key: Key, options: DeleteOptions) -> Written:
        """Remove an object, or mark it and let its finalizers, its node or its content finish first.

        raises  Failure 404, 409 (preconditions)
        """
        entry = self._store.table(resource.table).items.get(key)
        if entry is None:
            raise not_found(resource.plural, resource.group, key[1])
        live = entry.obj
        deletion.check_preconditions(live, resource, options)
        write = WriteOptions(dry_run=options.dry_run)
        if resource.table == CRD_TABLE and live["metadata"].get("deletionTimestamp") is None:
            return Written(self._put(resource, key, definitions.doomed(live, self._stamp()), write))
        marked = deletion.marked(live, resource, options, self._now())
        if marked is None:
            final = deletion.last_seen(live, resource, self._now())
            return Written(self._drop(resource, key, final, write), removed=True)
        if resource.qualified == "namespaces":
            marked = marked | {"status": {**(marked.get("status") or {}), "phase": "Terminating"}}
        if marked == entry.obj:
            return Written(entry)
        return Written(self._put(resource, key, marked, write))

    def finish(self, table: str, key: Key) -> None:
        """Remove an object whose last finalizer was the server's own."""
        if key in self._store.table(table).items:
            self._store.remove(table, key)

    def overwrite(self, table: str, key: Key, edit: Edit) -> None:
        """A write of the server itself, without checks: status and finalizers of what it looks after."""
        entry = self._store.table(table).items.get(key)
        if entry is None:
            return
        new = edit(entry.obj)
        if new != entry.obj:
            self._store.put(table, key, new | {"metadata": dict(new["metadata"])})

    # --- steps ---

    def _live(self, resource: ResourceType, key: Key) -> Obj:
        entry = self._store.table(resource.table).items.get(key)
        if entry is None:
            raise not_found(resource.plural, resource.group, key[1])
        return views.shown(entry, resource)

    def _keep(self, resource: ResourceType, key: Key, obj: Obj, options: WriteOptions) -> Entry:
        return self._put(resource, key, views.stored(obj, resource), options, remembered=True)

    def _put(
        self, resource: ResourceType, key: Key, obj: Obj, options: WriteOptions, *, remembered: bool = False
    ) -> Entry:
        """Keep an object in the form in which it is stored."""
        obj = obj | {"metadata": dict(obj["metadata"])}
        if options.dry_run:
            return Entry(key, self._store.rv, encode(obj), obj)
        entry = self._store.put(resource.table, key, obj)
        if remembered:
            views.remember(entry, resource)
        return entry

    def _drop(self, resource: ResourceType, key: Key, final: Obj | None, options: WriteOptions) -> Entry:
        if final is not None:
            final = views.stored(final, resource)
            final = final | {"metadata": dict(final["metadata"])}
        if options.dry_run:
            there = self._store.table(resource.table).items[key]
            return Entry(key, there.rv, encode(final), final) if final is not None else there
        return self._store.remove(resource.table, key, final)

    def _understood(self, obj: Obj, resource: ResourceType, options: WriteOptions) -> Obj:
        return self._defaulted(known_fields(obj, resource, options), resource)

    def _defaulted(self, obj: Obj, resource: ResourceType, *, keep_nulls: bool = False) -> Obj:
        if resource.custom is not None:
            return resource.custom.default(obj, keep_nulls=keep_nulls)
        return schemas.default_builtin(obj)

    def _tracked(
        self, old: Obj | None, new: Obj, resource: ResourceType, options: WriteOptions, subresource: str
    ) -> Obj:
        if old is not None and not _is_tracked(new, old):
            return scope.with_managed_fields(new, None)
        decoded = kinds.as_decoded(new, resource)
        said = kinds.without_unsaid(decoded, resource)
        tracked = applying.track_update(
            kinds.without_unsaid(old, resource) if old is not None else None,
            said,
            options.manager,
            schema=resource.schema,
            api_version=resource.api_version,
            subresource=subresource,
            reset=() if subresource or "status" not in resource.subresources else ("status",),
            owning=options.owning,
            versions=_typed_versions(resource),
            now="" if options.untimed else self._stamp(),
        )
        return tracked if said is decoded else decoded | {"metadata": tracked["metadata"]}

    def _refuse_grant(self, new: Obj, old: Obj | None, resource: ResourceType, options: WriteOptions) -> None:
        if options.user is not None and self._check_grant is not None:
            self._check_grant(options.user, resource, new, old)

    def _refuse_invalid(
        self,
        new: Obj,
        old: Obj | None,
        resource: ResourceType,
        subresource: str,
        options: WriteOptions,
        wrong: Sequence[FieldError] = (),
    ) -> None:
        name = new["metadata"].get("name", "")
        errors = [*wrong, *self._problems(new, old, resource, subresource, options.warnings)]
        if errors:
            group = "" if resource.kind == "Event" else resource.group  # both versions are one kind within
            raise invalid(resource.kind, group, name, errors)

    def _problems(
        self,
        new: Obj,
        old: Obj | None,
        resource: ResourceType,
        subresource: str,
        warnings: list[str],
    ) -> list[FieldError]:
        errors = metadata.finalizer_problems(new, old) if old is not None else []
        if resource.custom is not None:
            status_only = subresource == "status"
            return errors + resource.custom.validate(new, old, status_only=status_only, warnings=warnings)
        errors += [error for error in schemas.validate_builtin(new, strict=False) if not error.warning]
        if resource.table == CRD_TABLE:
            errors += crd_rules.validate_crd_status(new) if subresource else crd_rules.validate_crd(new, old)
        if old is not None:
            errors += schemas.validate_builtin_update(new, old)
        else:
            errors += kind_rules.validate_new(new)
        return errors

    def _is_stale(self, live: Obj, resource: ResourceType, key: Key) -> bool:
        """Whether a custom object would be stored otherwise today: in another version, say."""
        if resource.custom is None:
            return False
        return views.stored(live, resource) != self._store.table(resource.table).items[key].obj

    def _is_ending(self, resource: ResourceType) -> bool:
        definition = self._store.table(CRD_TABLE).get("", resource.table)
        return definition is not None and definition.obj["metadata"].get("deletionTimestamp") is not None

    def _around(self) -> kinds.Surroundings:
        return kinds.Surroundings(self._store, self._stamp())

    def _stamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")


def _warn(new: Obj, old: Obj | None, resource: ResourceType, options: WriteOptions) -> None:
    """What is taken, but not without a word."""
    if resource.custom is not None:
        finalizers = (old or {"metadata": {}})["metadata"].get("finalizers") or ()
        options.warnings.extend(finalizer_warnings(new["metadata"].get("finalizers") or (), finalizers))
    else:
        options.warnings.extend(pod_warnings.warnings_of(new, old))
    if resource.table == CRD_TABLE:
        before = crd_rules.unknown_formats_of(old) if old is not None else []
        found = [form for form in crd_rules.unknown_formats_of(new) if form not in before]
        options.warnings.extend(f'unrecognized format "{form}"' for form in dict.fromkeys(found))


def _typed_versions(resource: ResourceType) -> dict[str, Schema] | None:
    """The schemas of a custom kind by apiVersion, where it has several."""
    if len(resource.versions) < 2:
        return None
    return {f"{resource.group}/{version}": custom.schema for version, custom in resource.versions.items()}


def _not_its_own(resource: ResourceType, subresource: str) -> tuple[str, ...]:
    """What a path leaves as it is, and so gives to nobody."""
    if "status" not in resource.subresources:
        return ()
    return {"": ("status",), "status": ("spec",)}.get(subresource, ())


def _is_tracked(new: Obj, old: Obj) -> bool:
    """Whether anybody owns fields; if nobody does, because that was cleared, only an apply begins anew."""
    entries = new["metadata"].get("managedFields") or old["metadata"].get("managedFields")
    return bool(entries) and entries != [{}]
