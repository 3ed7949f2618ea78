"""Whether a request may be made at all: who asks, in whose name, and what the rules say.

Source: kubernetes, apiserver/pkg/endpoints/filters/{authorization,impersonation}.go,
endpoints/handlers/responsewriters/errors.go, pkg/registry/rbac/{role,rolebinding}/policybased/storage.go.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import unquote

from gpuready_sim.apiserver import rbac
from gpuready_sim.apiserver.failures import Failure, Obj, bad_request, forbidden, forbidden_path, qualified
from gpuready_sim.apiserver.rbac import Attributes, Authorizer
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.requests import Request, Target, User

_EXTRA = "impersonate-extra-"
_AUTHENTICATED, _UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"


class Access:
    """The gate that every request passes."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def admit(self, request: Request) -> None:
        """Put on the mask that the request asks for, then look whether its wearer may do this.

        raises  Failure 403
        """
        asked = _mask(request)
        if asked is not None:
            for attributes in _of_mask(asked, request):
                self._require(request.user, attributes)
            request.user = asked
        self._require(request.user, attributes_of(request))

    def require_create(self, request: Request) -> None:
        """What is begun by GET over a WebSocket counts as a creation, too: who may read may not exec.

        raises  Failure 403
        """
        self._require(request.user, replace(attributes_of(request), verb="create"))

    def _require(self, user: User, wanted: Attributes) -> None:
        decision = self._authorizer.decide(user, wanted)
        if not decision.allowed:
            raise _refusal(user, wanted, decision.reason)

    # --- giving away rights ---

    def check_grant(self, user: User, resource: ResourceType, new: Obj, old: Obj | None) -> None:
        """Nobody writes a role, or binds one, that says more than he may do himself.

        raises  Failure 403
        """
        if resource.group != rbac.GROUP or rbac.MASTERS in user.groups:
            return
        given = self._given(user, resource, new, old)
        if given is None:
            return
        namespace = new["metadata"].get("namespace", "")
        missing = rbac.uncovered(self._authorizer.rules_of(user, namespace), given)
        if missing:
            raise _too_generous(user, resource, new, rbac.compact(missing))

    def _given(self, user: User, resource: ResourceType, new: Obj, old: Obj | None) -> list[Obj] | None:
        """The rules that a write gives away; None when it gives none, or its writer may give any."""
        meta = new["metadata"]
        name, namespace = meta.get("name", ""), meta.get("namespace", "")
        if resource.plural in ("roles", "clusterroles"):
            if old is not None and old.get("rules") == new.get("rules"):
                return None
            escalate = Attributes("escalate", resource.group, resource.plural, "", namespace, name)
            return None if self._authorizer.decide(user, escalate).allowed else new.get("rules") or []
        if old is not None and (old.get("roleRef"), old.get("subjects")) == (
            new.get("roleRef"),
            new.get("subjects"),
        ):
            return None
        reference = new.get("roleRef") or {}
        plural = "roles" if reference.get("kind") == "Role" else "clusterroles"
        bind = Attributes("bind", resource.group, plural, "", namespace, reference.get("name", ""))
        if self._authorizer.decide(user, bind).allowed:
            return None
        rules = self._authorizer.rules_of_role(
            reference.get("kind", ""), reference.get("name", ""), namespace
        )
        if rules is None:
            what = f'{qualified(plural, resource.group)} "{reference.get("name", "")}" not found'
            raise Failure(
                404,
                "NotFound",
                what,
                details={"name": reference.get("name", ""), "group": resource.group, "kind": plural},
            )
        return rules


def attributes_of(request: Request) -> Attributes:
    """What a request does, in the words of rules."""
    target = request.target
    if target is None:
        return Attributes(request.method.lower().replace("head", "get"), path=request.path)
    namespace = target.name if target.plural == "namespaces" else target.namespace
    return Attributes(
        verb=request.verb,
        group=target.group,
        resource=target.plural,
        subresource=target.subresource,
        namespace=namespace,
        name=target.name or _selected_name(request, target),
    )


def _selected_name(request: Request, target: Target) -> str:
    """A list or watch of one object by its name counts as access to that object."""
    for term in request.query.get("fieldSelector", "").split(","):
        path, equals, name = term.partition("=")
        if path == "metadata.name" and equals:
            return name.removeprefix("=")
    return ""


def _refusal(user: User, wanted: Attributes, reason: str) -> Failure:
    who = f'User "{user.name}" cannot {wanted.verb}'
    tail = f": {reason}" if reason else ""
    if not wanted.resource:
        return forbidden_path(f'{who} path "{wanted.path}"{tail}')
    scope = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    why = f'{who} resource "{wanted.qualified}" in API group "{wanted.group}" {scope}{tail}'
    return forbidden(wanted.resource, wanted.group, wanted.name, why)


def _too_generous(user: User, resource: ResourceType, new: Obj, missing: list[Obj]) -> Failure:
    rules = "\n".join(rbac.as_go(rule) for rule in missing)
    why = (
        f'user "{user.name}" (groups={rbac.groups_text(user)}) is attempting to grant RBAC permissions not '
        f"currently held:\n{rules}"
    )
    return forbidden(resource.plural, resource.group, new["metadata"].get("name", ""), why)


# --- in somebody else's name ---


def _mask(request: Request) -> User | None:
    """The user in whose name the request is made; None when it is made in one's own.

    raises  Failure 400 for groups or extras without a user
    """
    headers = request.headers
    name = headers.get("impersonate-user", "")
    groups = tuple(headers["impersonate-group"].split("\n")) if "impersonate-group" in headers else ()
    extra = {
        unquote(key[len(_EXTRA) :]): value.split("\n")
        for key, value in headers.items()
        if key.startswith(_EXTRA)
    }
    uid = headers.get("impersonate-uid", "")
    if not name:
        if groups or extra or uid:
            raise bad_request("requested impersonation without impersonating a user")
        return None
    return User(name, _groups_of(name, groups), uid, extra)


def _groups_of(name: str, asked: tuple[str, ...]) -> tuple[str, ...]:
    parts = name.split(":")
    if not asked and name.startswith("system:serviceaccount:") and len(parts) == 4:
        asked = ("system:serviceaccounts", f"system:serviceaccounts:{parts[2]}")
    if name == "system:anonymous" or {_AUTHENTICATED, _UNAUTHENTICATED} & set(asked):
        return asked
    return (*asked, _AUTHENTICATED)


def _of_mask(asked: User, request: Request) -> list[Attributes]:
    """What one must be allowed to in order to wear it."""
    parts = asked.name.split(":")
    if asked.name.startswith("system:serviceaccount:") and len(parts) == 4:
        found = [Attributes("impersonate", "", "serviceaccounts", "", parts[2], parts[3])]
    else:
        found = [Attributes("impersonate", "", "users", "", "", asked.name)]
    for group in request.headers.get("impersonate-group", "").split("\n"):
        if group:
            found.append(Attributes("impersonate", "", "groups", "", "", group))
    authentication = "authentication.k8s.io"
    for key, values in asked.extra.items():
        found += [Attributes("impersonate", authentication, "userextras", key, "", value) for value in values]
    if asked.uid:
        found.append(Attributes("impersonate", authentication, "uids", "", "", asked.uid))
    return found
