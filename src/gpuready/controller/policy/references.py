"""What pods refer to by name, and which of it is not there. Pure.

A pod that names a missing ConfigMap, Secret or PriorityClass, or a key that its ConfigMap does not have, does
not start, or is not even made. All of them are looked for in the finished objects, so that no field of the
policy can be forgotten. What keys a Secret has is not looked at: the operator asks for no Secret's content.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuready.api.validation import KEY, OBJECT_NAME, is_key, is_object_name, shown
from gpuready.operands.contract import REFERENCE_MISSING, ClusterView, Refusal

CONFIG_MAP, SECRET, PRIORITY_CLASS = "ConfigMap", "Secret", "PriorityClass"


@dataclass(frozen=True, order=True)
class Reference:
    """key: of which this one is needed, "" = only the object."""

    kind: str
    name: str
    key: str = ""

    @property
    def can_exist(self) -> bool:
        """False where no object can have this name, or this key: nobody could ever make it."""
        return (not self.name or is_object_name(self.name)) and (not self.key or is_key(self.key))

    @property
    def is_built_in(self) -> bool:
        """Every API server makes these two itself."""
        return self.kind == PRIORITY_CLASS and self.name.startswith("system-")


def references_of(obj: Mapping[str, Any]) -> set[Reference]:
    """Of its pods; optional ones do not count."""
    pod = obj.get("spec", {}).get("template", {}).get("spec") or {}
    return {each for each in _references(pod) if not each.is_built_in}


def find_missing(
    objects: Iterable[Mapping[str, Any]],
    spec: Mapping[str, Any],
    view: ClusterView,
    made: Collection[tuple[str, str]],
) -> Refusal | None:
    """Why pods of these objects could not start.

    spec   of the policy, to say which of its fields names what is missing
    made   (kind, name) of what is about to be made
    """
    named = {reference for obj in objects for reference in references_of(obj)}
    asked = [each for each in sorted(named) if (each.kind, each.name) not in made]
    if impossible := [each for each in asked if not each.can_exist]:
        return _refusal_of_names(impossible, spec)
    absent = {(each.kind, each.name) for each in asked if not _is_there(each, view)}
    missing = [each for each in asked if (each.kind, each.name) in absent and not each.key]
    missing += [each for each in asked if (each.kind, each.name) not in absent and not _has_key(each, view)]
    if not missing:
        return None
    said = "; ".join(_said(each, spec, view.namespace) for each in missing)
    step = _next_step(missing[0], view.namespace)
    return Refusal(REFERENCE_MISSING, f"{said}. What runs is left as it is", step)


def _refusal_of_names(impossible: Sequence[Reference], spec: Mapping[str, Any]) -> Refusal:
    said = []
    for each in dict.fromkeys(Reference(each.kind, *_impossible_part(each)) for each in impossible):
        text = each.key or each.name
        fields = ", ".join(sorted(_fields_saying(text, spec, "spec"))) or f"a pod's {each.kind}"
        said.append(f"{fields}: {shown(text)} is not {KEY if each.key else OBJECT_NAME}")
    return Refusal(
        REFERENCE_MISSING,
        f"{'; '.join(said)}. What runs is left as it is",
        "correct this field of the policy",
    )


def _impossible_part(reference: Reference) -> tuple[str, str]:
    """(name, "") or ("", key)"""
    if reference.name and not is_object_name(reference.name):
        return reference.name, ""
    return "", reference.key


def _is_there(reference: Reference, view: ClusterView) -> bool:
    """Of a kind that we may not see, everything is."""
    return reference.name in view.existing.get(reference.kind, (reference.name,))


def _has_key(reference: Reference, view: ClusterView) -> bool:
    if not reference.key or reference.kind != CONFIG_MAP or CONFIG_MAP not in view.existing:
        return True
    return reference.key in view.configs.get(reference.name, (reference.key,))


def _references(pod: Mapping[str, Any]) -> Iterator[Reference]:
    if name := pod.get("priorityClassName"):
        yield Reference(PRIORITY_CLASS, name)
    for secret in pod.get("imagePullSecrets") or ():
        yield Reference(SECRET, secret["name"])
    for volume in pod.get("volumes") or ():
        yield from _of_sources([volume, *(volume.get("projected") or {}).get("sources", ())])
    for container in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ())):
        for source in container.get("envFrom") or ():
            yield from _named(source.get("configMapRef"), source.get("secretRef"))
        for variable in container.get("env") or ():
            source = variable.get("valueFrom") or {}
            yield from _named(source.get("configMapKeyRef"), source.get("secretKeyRef"))
        yield from _files_read(container, pod.get("volumes") or ())


def _of_sources(sources: Iterable[Mapping[str, Any]]) -> Iterator[Reference]:
    for source in sources:
        yield from _named(source.get("configMap"), source.get("secret"))


def _named(config_map: Mapping[str, Any] | None, secret: Mapping[str, Any] | None) -> Iterator[Reference]:
    for kind, row in ((CONFIG_MAP, config_map), (SECRET, secret)):
        if row and not row.get("optional"):
            name = row.get("name") or row.get("secretName") or ""
            keys = [row.get("key"), *(item["key"] for item in row.get("items") or ())]
            yield Reference(kind, name)
            yield from (Reference(kind, name, key) for key in keys if key)


# The original's config manager ends when the file of this name is not in that directory.
_CHOICE, _CHOICES = "DEFAULT_CONFIG", "CONFIG_FILE_SRCDIR"


def _files_read(container: Mapping[str, Any], volumes: Sequence[Mapping[str, Any]]) -> Iterator[Reference]:
    """Keys that a container mounts as one file, or whose file a variable of it names."""
    whole = {
        volume["name"]: volume["configMap"]["name"]
        for volume in volumes
        if "configMap" in volume and not volume["configMap"].get("items")
    }
    env = {each["name"]: str(each.get("value") or "") for each in container.get("env") or ()}
    values = [*env.values(), f"{env.get(_CHOICES)}/{env.get(_CHOICE)}" if env.get(_CHOICE) else ""]
    for mount in container.get("volumeMounts") or ():
        config = whole.get(mount["name"])
        if config is None:
            continue
        if key := mount.get("subPath"):
            yield Reference(CONFIG_MAP, config, key)
            continue
        inside = f"{mount['mountPath'].rstrip('/')}/"
        for value in values:
            if value.startswith(inside) and "/" not in value.removeprefix(inside):
                yield Reference(CONFIG_MAP, config, value.removeprefix(inside))


def _said(reference: Reference, spec: Mapping[str, Any], namespace: str) -> str:
    where = "" if reference.kind == PRIORITY_CLASS else f"{namespace}/"
    fields = ", ".join(sorted(_fields_naming(reference, spec, "spec")))
    which = f", which {fields} names" if fields else ""
    if reference.key:
        return f"the {reference.kind} {where}{reference.name}{which}, has no key {reference.key}"
    return f"there is no {reference.kind} {where}{reference.name}{which}"


def _fields_naming(reference: Reference, value: Any, path: str) -> Iterator[str]:
    """Of those whose value may name an object of this kind."""
    yield from (
        field
        for field in _fields_saying(reference.name, value, path)
        if field.rpartition(".")[2] in _NAMED_BY[reference.kind]
    )


_NAMED_BY = {
    PRIORITY_CLASS: ("priorityClassName",),
    SECRET: ("imagePullSecrets", "secretName", "secretEnv"),
    CONFIG_MAP: ("name", "configMapName", "config"),
}


def _fields_saying(text: str, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _fields_saying(text, inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _fields_saying(text, inner, path)
    elif value == text:
        yield path


def _next_step(reference: Reference, namespace: str) -> str:
    kind, name = reference.kind, reference.name
    if reference.key:
        return f"kubectl edit configmap -n {namespace} {name}, or correct the policy"
    if kind == PRIORITY_CLASS:
        return f"kubectl create priorityclass {name} --value=VALUE, or correct the policy"
    if kind == SECRET:
        return f"create the Secret {name} in the namespace {namespace}, or correct the policy"
    return f"kubectl create configmap -n {namespace} {name} --from-file=FILE, or correct the policy"
