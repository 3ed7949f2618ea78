"""Who may do what: roles, bindings, and the rules that a user has by them.

Source: kubernetes, plugin/pkg/auth/authorizer/rbac/rbac.go, pkg/registry/rbac/validation/rule.go,
pkg/apis/rbac/v1/evaluation_helpers.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpuready_sim.apiserver.failures import Obj
from gpuready_sim.apiserver.requests import User
from gpuready_sim.apiserver.store import Change, Entry, Store

GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"roles.{GROUP}", f"clusterroles.{GROUP}"
ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS = f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"
TABLES = frozenset({ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS})
MASTERS = "system:masters"


@dataclass(frozen=True)
class Attributes:
    """What somebody wants to do.

    resource   "" for a path that is no resource
    path       of what is no resource
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def qualified(self) -> str:
        """The resource with its subresource, as rules name it: "pods/log"."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True)
class Grant:
    """One rule that somebody has, and by which binding.

    namespace  where it holds; "" for everywhere
    why        'ClusterRoleBinding "x" of ClusterRole "y" to Group "z"'
    """

    rule: Obj
    namespace: str
    why: str


Missing = tuple[str, str]  # the namespace of a binding, and that its role is not there


@dataclass(frozen=True)
class Decision:
    allowed: bool
    reason: str = ""


class Authorizer:
    """Decides from the roles and bindings in the store; what a user has is kept until one of them changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._grants: dict[tuple[str, tuple[str, ...]], tuple[list[Grant], list[Missing]]] = {}
        store.listeners.append(self._follow)

    def _follow(self, table: str, change: Change) -> None:
        if table in TABLES:
            self._grants.clear()

    def decide(self, user: User, wanted: Attributes) -> Decision:
        if MASTERS in user.groups:
            return Decision(True)
        grants, broken = self._of(user)
        for grant in grants:
            here = not grant.namespace or grant.namespace == wanted.namespace
            if here and permits(grant.rule, wanted):
                return Decision(True, f"RBAC: allowed by {grant.why}")
        return Decision(False, _complaint([one for where, one in broken if where in ("", wanted.namespace)]))

    def rules_of(self, user: User, namespace: str) -> list[Obj]:
        """Every rule that holds in a namespace ("": everywhere)."""
        return [grant.rule for grant in self._of(user)[0] if grant.namespace in ("", namespace)]

    def rules_of_role(self, kind: str, name: str, namespace: str) -> list[Obj] | None:
        """None when there is no such role."""
        entry = self._role(kind, name, namespace)
        return None if entry is None else entry.obj.get("rules") or []

    def _of(self, user: User) -> tuple[list[Grant], list[Missing]]:
        key = (user.name, user.groups)
        found = self._grants.get(key)
        if found is None:
            broken: list[Missing] = []
            found = self._grants[key] = (list(self._grants_of(user, broken)), broken)
        return found

    def _grants_of(self, user: User, broken: list[Missing]) -> Iterator[Grant]:
        """`broken` gets the roles that bindings name and that are not there."""
        for table in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            for entry in self._store.table(table).sorted_entries():
                yield from self._by_binding(entry, user, broken)

    def _by_binding(self, entry: Entry, user: User, broken: list[Missing]) -> Iterator[Grant]:
        binding, namespace = entry.obj, entry.key[0]
        subject = next((one for one in binding.get("subjects") or [] if _is(one, user, namespace)), None)
        if subject is None:
            return
        reference = binding["roleRef"]
        role = self._role(reference["kind"], reference["name"], namespace)
        if role is None:
            plural = "role" if reference["kind"] == "Role" else "clusterrole"
            broken.append((namespace, f'{plural}.{GROUP} "{reference["name"]}" not found'))
            return
        why = _why(binding, reference, subject)
        for rule in role.obj.get("rules") or []:
            yield Grant(rule, namespace, why)

    def _role(self, kind: str, name: str, namespace: str) -> Entry | None:
        table, where = (ROLES, namespace) if kind == "Role" else (CLUSTER_ROLES, "")
        return self._store.table(table).get(where, name)


def permits(rule: Obj, wanted: Attributes) -> bool:
    verbs = rule.get("verbs") or ()
    if "*" not in verbs and wanted.verb not in verbs:
        return False
    if not wanted.resource:
        return any(_covers_path(pattern, wanted.path) for pattern in rule.get("nonResourceURLs") or ())
    groups = rule.get("apiGroups") or ()
    if "*" not in groups and wanted.group not in groups:
        return False
    if not _names_resource(rule.get("resources") or (), wanted):
        return False
    names = rule.get("resourceNames") or ()
    return not names or wanted.name in names


def _names_resource(resources: Iterable[str], wanted: Attributes) -> bool:
    for one in resources:
        if one in ("*", wanted.qualified):
            return True
        if wanted.subresource and one == f"*/{wanted.subresource}":
            return True
    return False


def _covers_path(pattern: str, path: str) -> bool:
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    return pattern == path


def _is(subject: Obj, user: User, namespace: str) -> bool:
    name = subject.get("name", "")
    match subject.get("kind"):
        case "User":
            return bool(name == user.name)
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            where = subject.get("namespace") or namespace
            return bool(where) and user.name == f"system:serviceaccount:{where}:{name}"
        case _:
            return False


def _why(binding: Obj, reference: Obj, subject: Obj) -> str:
    meta = binding["metadata"]
    place = f"{meta['name']}/{meta['namespace']}" if "namespace" in meta else meta["name"]
    who = f"{subject['name']}/{subject['namespace']}" if subject.get("namespace") else subject["name"]
    return (
        f'{binding["kind"]} "{place}" of {reference["kind"]} "{reference["name"]}" '
        f'to {subject["kind"]} "{who}"'
    )


def _complaint(broken: list[str]) -> str:
    if not broken:
        return ""
    return f"RBAC: {broken[0]}" if len(broken) == 1 else f"RBAC: [{', '.join(dict.fromkeys(broken))}]"


# --- giving away ---


def uncovered(owned: Iterable[Obj], given: Iterable[Obj]) -> list[Obj]:
    """What of the given rules is not held, rule by rule as small as they get; empty when all of it is."""
    held = list(owned)
    return [part for rule in given for part in _parts(rule) if not any(_holds(one, part) for one in held)]


def _parts(rule: Obj) -> Iterator[Obj]:
    """One verb on one resource of one group, and one name or path."""
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield {"nonResourceURLs": [path], "verbs": [verb]}
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                part: Obj = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                names = rule.get("resourceNames") or ()
                yield from ([part | {"resourceNames": [name]} for name in names] if names else [part])


def _holds(owned: Obj, part: Obj) -> bool:
    if not _has(owned.get("verbs"), part["verbs"][0]):
        return False
    if "nonResourceURLs" in part:
        path = part["nonResourceURLs"][0]
        return any(_covers_path(one, path) for one in owned.get("nonResourceURLs") or ())
    if not _has(owned.get("apiGroups"), part["apiGroups"][0]):
        return False
    resource, _, subresource = part["resources"][0].partition("/")
    of = Attributes("", resource=resource, subresource=subresource)
    if not _names_resource(owned.get("resources") or (), of):
        return False
    names = owned.get("resourceNames") or ()
    return not names or ("resourceNames" in part and part["resourceNames"][0] in names)


def _has(words: Iterable[str] | None, word: str) -> bool:
    return any(one in ("*", word) for one in words or ())


def compact(parts: Iterable[Obj]) -> list[Obj]:
    """The same rules with the verbs of one resource together again."""
    joined: dict[str, Obj] = {}
    for part in parts:
        key = str({name: value for name, value in part.items() if name != "verbs"})
        known = joined.setdefault(key, part | {"verbs": []})
        known["verbs"] = [*known["verbs"], *(verb for verb in part["verbs"] if verb not in known["verbs"])]
    return list(joined.values())


def as_go(rule: Obj) -> str:
    """{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"""
    words = {
        "apiGroups": "APIGroups",
        "resources": "Resources",
        "resourceNames": "ResourceNames",
        "nonResourceURLs": "NonResourceURLs",
        "verbs": "Verbs",
    }
    shown = [f"{word}:{_listed(rule[name])}" for name, word in words.items() if rule.get(name)]
    return "{" + ", ".join(shown) + "}"


def _listed(texts: Iterable[str]) -> str:
    return "[" + " ".join(f'"{text}"' for text in texts) + "]"


def groups_text(user: User) -> str:
    return _listed(user.groups)
