"""Subresources that do something: bind, evict, issue a token, finalize a namespace."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from gpuready_sim.apiserver import deletion, eviction
from gpuready_sim.apiserver.failures import (
    Failure,
    Obj,
    bad_request,
    conflict,
    invalid,
    method_not_allowed,
    not_found,
)
from gpuready_sim.apiserver.negotiation import body_of, object_of
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.requests import Reply, Request, Target
from gpuready_sim.apiserver.resources import Resources, write_options
from gpuready_sim.apiserver.scale import Scales
from gpuready_sim.apiserver.schemas import FieldError
from gpuready_sim.apiserver.selectors import selector_of
from gpuready_sim.apiserver.store import encode
from gpuready_sim.apiserver.tokens import ISSUER, Binding, Tokens
from gpuready_sim.apiserver.write_options import WriteOptions

_BUDGETS = "poddisruptionbudgets.policy"
_SERVER = "kube-apiserver"
_SHORTEST_TOKEN_S = 600
_LONGEST_TOKEN_S = 1 << 32
_HOUR_S = 3600


class Actions:
    """Answers what is neither an object nor a list of them."""

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
            "scale": Scales(resources).answer,
        }

    def has(self, subresource: str) -> bool:
        return subresource in self._subresources

    def act(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        """
        raises  Failure
        """
        return self._subresources[target.subresource](request, target, resource)

    # --- pods ---

    def _bind(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        """Assign a pod to a node, once."""
        _require_post(request)
        body = body_of(request)
        of = body.get("target") or {}
        if of.get("kind") not in (None, "", "Node"):
            error = FieldError(
                "target.kind", "NotSupported", of["kind"], 'supported values: "Node", "<empty>"'
            )
            raise Failure(500, "", error.message())
        _refuse_another(body, target, "Binding")
        node = of.get("name", "")
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
        _refuse_another(body, target, "Eviction")
        pod = self._pod(target)
        options = deletion.parse_options(body.get("deleteOptions") or {}, request.query)
        deletion.check_preconditions(pod, resource, options)
        if not eviction.needs_no_budget(pod):
            self._ask_budget(pod, WriteOptions(manager=_SERVER, dry_run=options.dry_run))
        self._resources.writes.delete(resource, (target.namespace, target.name), options)
        return _done(201)

    def _ask_budget(self, pod: Obj, options: WriteOptions) -> None:
        """
        raises  Failure 429 when the budget over the pod has no disruption left, 500 when there are several
        """
        namespace = pod["metadata"]["namespace"]
        budgets = [
            entry
            for entry in self._store.table(_BUDGETS).sorted_entries(namespace)
            if selector_of((entry.obj.get("spec") or {}).get("selector")).matches(pod)
        ]
        if len(budgets) > 1:
            why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
            raise Failure(500, "", why + "support.")
        if not budgets or eviction.is_spared(pod, budgets[0].obj):
            return
        eviction.check(budgets[0].obj)
        name, stamp = pod["metadata"]["name"], self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        budget = self._resources.registry.of_table(_BUDGETS)
        self._resources.writes.update(
            budget,
            budgets[0].key,
            lambda live: eviction.counted(live, name, stamp),
            options,
            "status",
        )

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
        self._check_lifetime(lifetime_s)
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

    def _check_lifetime(self, lifetime_s: int) -> None:
        path = "spec.expirationSeconds"
        why = ""
        if lifetime_s < _SHORTEST_TOKEN_S:
            why = "may not specify a duration less than 10 minutes"
        elif lifetime_s > _LONGEST_TOKEN_S:
            why = "may not specify a duration larger than 2^32 seconds"
        if why:
            error = FieldError(path, "Invalid", lifetime_s, why)
            raise invalid("TokenRequest", "authentication.k8s.io", "", [error])

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

    # --- namespaces ---

    def _finalize_namespace(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        """PUT namespaces/x/finalize: replace spec.finalizers."""
        if request.method != "PUT":
            raise method_not_allowed()
        body = object_of(request, resource.kind, custom=False)
        written = self._resources.writes.put(
            resource, ("", target.name), body, write_options(request), "finalize"
        )
        return Reply(200, written.entry.raw)


def _require_post(request: Request) -> None:
    if request.method != "POST":
        raise method_not_allowed()


def _refuse_another(body: Obj, target: Target, kind: str) -> None:
    """
    raises  Failure 400 for a body that is about another pod than its path
    """
    given, meta = body.get("kind") or kind, body.get("metadata") or {}
    if given != kind:
        version = str(body.get("apiVersion") or "v1").rpartition("/")[2]
        group = "policy" if kind == "Eviction" else "core"
        why = f"converting ({version}.{given}) to ({group}.{kind}): unknown conversion"
        raise bad_request(f'{given} in version "{version}" cannot be handled as a {kind}: {why}')
    if meta.get("namespace") not in (None, "", target.namespace):
        what = "the namespace of the provided object does not match the namespace sent on the request"
        raise bad_request(what)
    if meta.get("name", "") != target.name:
        raise bad_request(f"name in URL does not match name in {kind} object")


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
