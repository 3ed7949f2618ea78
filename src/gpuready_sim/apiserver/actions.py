"""Subresources that do something, and questions asked by POST: bind, evict, issue and review tokens."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from gpuready_sim.apiserver import deletion
from gpuready_sim.apiserver.failures import (
    Obj,
    bad_request,
    conflict,
    invalid,
    method_not_allowed,
    not_found,
    too_many_requests,
)
from gpuready_sim.apiserver.negotiation import body_of
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.requests import Reply, Request, Target
from gpuready_sim.apiserver.resources import Resources, write_options
from gpuready_sim.apiserver.schemas import FieldError
from gpuready_sim.apiserver.selectors import selector_of
from gpuready_sim.apiserver.store import encode
from gpuready_sim.apiserver.tokens import ISSUER, Binding, Tokens, user_info

_SHORTEST_TOKEN_S = 600
_LONGEST_TOKEN_S = 1 << 32
_HOUR_S = 3600


class Actions:
    """Answers everything that is neither an object nor a list of them."""

    def __init__(self, resources: Resources, tokens: Tokens, now: Callable[[], datetime.datetime]) -> None:
        self._resources = resources
        self._store = resources.store
        self._tokens = tokens
        self._now = now
        self._subresources: dict[str, Callable[[Request, Target, ResourceType], Reply]] = {
            "binding": self._bind,
            "eviction": self._evict,
            "token": self._issue_token,
            "finalize": self._finalize_namespace,
        }
        self._questions: dict[str, Callable[[Request, Obj], Obj]] = {
            "TokenReview": self._review_token,
            "SelfSubjectReview": self._who_am_i,
            "SelfSubjectAccessReview": self._allow,
            "SubjectAccessReview": self._allow,
            "LocalSubjectAccessReview": self._allow,
            "SelfSubjectRulesReview": self._all_rules,
        }

    def has(self, subresource: str) -> bool:
        return subresource in self._subresources

    def act(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        """
        raises  Failure
        """
        return self._subresources[target.subresource](request, target, resource)

    def ask(self, request: Request, resource: ResourceType) -> Reply:
        """Answer a review: the question comes back with its status."""
        if request.method != "POST":
            raise method_not_allowed()
        question = body_of(request)
        head = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {"creationTimestamp": None},
        }
        status = self._questions[resource.kind](request, question.get("spec") or {})
        return Reply(201, encode(head | {"spec": question.get("spec") or {}, "status": status}))

    # --- pods ---

    def _bind(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        """Assign a pod to a node, once."""
        _require_post(request)
        node = ((body_of(request).get("target")) or {}).get("name", "")
        if not node:
            error = FieldError("target.name", "Required", "", "")
            raise invalid("Binding", "", target.name, [error])
        pod = self._pod(target)
        assigned = (pod.get("spec") or {}).get("nodeName")
        if assigned:
            why = f'pod {target.name} is already assigned to node "{assigned}"'
            raise conflict("pods/binding", "", target.name, why)
        if pod["metadata"].get("deletionTimestamp"):
            why = f"pod {target.name} is being deleted, cannot be assigned to a host"
            raise conflict("pods/binding", "", target.name, why)
        if not write_options(request).dry_run:
            stamp = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
            key = (target.namespace, target.name)
            self._resources.writes.overwrite("pods", key, lambda live: _bound(live, node, stamp))
        return _done(201)

    def _evict(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        """Delete a pod unless a disruption budget keeps it."""
        _require_post(request)
        body = body_of(request)
        pod = self._pod(target)
        self._refuse_disruption(pod)
        options = deletion.parse_options(body.get("deleteOptions") or {}, request.query)
        self._resources.writes.delete(resource, (target.namespace, target.name), options)
        return _done(201)

    def _refuse_disruption(self, pod: Obj) -> None:
        """
        raises  Failure 429 when a budget over the pod has no disruption left
        """
        if not _is_healthy(pod):
            return
        namespace = pod["metadata"]["namespace"]
        pods = [entry.obj for entry in self._store.table("pods").sorted_entries(namespace)]
        for entry in self._store.table("poddisruptionbudgets.policy").sorted_entries(namespace):
            spec = entry.obj.get("spec") or {}
            selector = selector_of(spec.get("selector"))
            covered = [one for one in pods if selector.matches(one)]
            healthy = sum(1 for one in covered if _is_healthy(one))
            if selector.matches(pod) and healthy - 1 < _wanted_healthy(spec, len(covered)):
                name, wanted = entry.key[1], _wanted_healthy(spec, len(covered))
                text = f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
                cause = {"reason": "DisruptionBudget", "message": text}
                message = "Cannot evict pod as it would violate the pod's disruption budget."
                raise too_many_requests(message, causes=[cause])

    def _pod(self, target: Target) -> Obj:
        entry = self._store.table("pods").get(target.namespace, target.name)
        if entry is None:
            raise not_found("pods", "", target.name)
        return entry.obj

    # --- tokens ---

    def _issue_token(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        _require_post(request)
        body = body_of(request)
        spec = body.get("spec") or {}
        lifetime_s = int(spec.get("expirationSeconds") or _HOUR_S)
        self._check_lifetime(lifetime_s, target.name)
        account = self._store.table("serviceaccounts").get(target.namespace, target.name)
        if account is None:
            raise not_found("serviceaccounts", "", target.name)
        audiences = spec.get("audiences") or [ISSUER]
        binding = self._binding(account.obj, spec.get("boundObjectRef"), target)
        token, expires = self._tokens.sign(binding, audiences=audiences, lifetime_s=lifetime_s)
        end = datetime.datetime.fromtimestamp(expires, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        answer = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": target.name, "namespace": target.namespace},
            "spec": spec | {"audiences": audiences, "expirationSeconds": lifetime_s},
            "status": {"token": token, "expirationTimestamp": end},
        }
        return Reply(201, encode(answer))

    def _check_lifetime(self, lifetime_s: int, name: str) -> None:
        path = "spec.expirationSeconds"
        why = ""
        if lifetime_s < _SHORTEST_TOKEN_S:
            why = "may not specify a duration less than 10 minutes"
        elif lifetime_s > _LONGEST_TOKEN_S:
            why = "may not specify a duration larger than 2^32 seconds"
        if why:
            error = FieldError(path, "Invalid", lifetime_s, why)
            raise invalid("TokenRequest", "authentication.k8s.io", name, [error])

    def _binding(self, account: Obj, reference: Obj | None, target: Target) -> Binding:
        """What a token is bound to besides its account.

        raises  Failure 404 or 409 when that is not, or is no longer, there
        """
        if not reference:
            return Binding(account)
        kind, name = reference.get("kind"), reference.get("name", "")
        if kind not in ("Pod", "Node"):
            raise bad_request(f'cannot bind token for serviceaccount to object kind "{kind}"')
        table, namespace = ("pods", target.namespace) if kind == "Pod" else ("nodes", "")
        entry = self._store.table(table).get(namespace, name)
        if entry is None:
            raise not_found(table, "", name)
        uid = reference.get("uid")
        if uid and uid != entry.obj["metadata"]["uid"]:
            why = (
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise conflict(table, "", name, why)
        if kind == "Node":
            return Binding(account, node=entry.obj)
        node = self._store.table("nodes").get("", (entry.obj.get("spec") or {}).get("nodeName", ""))
        return Binding(account, entry.obj, node.obj if node else None)

    def _review_token(self, request: Request, spec: Obj) -> Obj:
        audiences = spec.get("audiences") or [ISSUER]
        user = self._tokens.user_of(spec.get("token", ""), audiences)
        if user is None:
            return {"authenticated": False, "user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user_info(user), "audiences": audiences}

    # --- questions ---

    def _who_am_i(self, request: Request, spec: Obj) -> Obj:
        return {"userInfo": user_info(request.user)}

    def _allow(self, request: Request, spec: Obj) -> Obj:
        return {"allowed": True, "reason": "the simulated cluster does not restrict its users"}

    def _all_rules(self, request: Request, spec: Obj) -> Obj:
        return {
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": False,
        }

    # --- namespaces ---

    def _finalize_namespace(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        """PUT namespaces/x/finalize: replace spec.finalizers."""
        if request.method != "PUT":
            raise method_not_allowed()
        finalizers = (body_of(request).get("spec") or {}).get("finalizers") or []
        key = ("", target.name)
        entry = self._store.table("namespaces").items.get(key)
        if entry is None:
            raise not_found("namespaces", "", target.name)
        writes = self._resources.writes
        writes.overwrite("namespaces", key, lambda live: live | {"spec": {"finalizers": finalizers}})
        shown = self._store.table("namespaces").items[key]
        if deletion.is_finished(shown.obj):
            writes.finish("namespaces", key)
        return Reply(200, shown.raw)


def _require_post(request: Request) -> None:
    if request.method != "POST":
        raise method_not_allowed()


def _done(code: int) -> Reply:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}
    return Reply(code, encode(status))


def _bound(pod: Obj, node: str, now: str) -> Obj:
    """The pod on its node, with the condition that says so."""
    status = pod.get("status") or {}
    others = [c for c in status.get("conditions") or [] if c.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    return pod | {
        "spec": pod["spec"] | {"nodeName": node},
        "status": status | {"conditions": [*others, scheduled]},
    }


def _is_healthy(pod: Obj) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _wanted_healthy(spec: Obj, covered: int) -> int:
    """How many of the covered pods a budget wants healthy."""
    if "minAvailable" in spec:
        return _share(spec["minAvailable"], covered)
    return covered - _share(spec.get("maxUnavailable", 0), covered)


def _share(value: object, total: int) -> int:
    """A number, or a percentage of the total, rounded up."""
    text = str(value)
    if text.endswith("%"):
        return -(-int(text[:-1]) * total // 100)
    return int(text)
