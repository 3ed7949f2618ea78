"""Questions asked by POST and answered at once: whose token, who am I, may I, what may I.

Source: kubernetes, pkg/registry/{authentication,authorization}, pkg/apis/authorization/validation.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

from gpuready_sim.apiserver import apply as applying
from gpuready_sim.apiserver import metadata
from gpuready_sim.apiserver.failures import Obj, bad_request, invalid, method_not_allowed
from gpuready_sim.apiserver.negotiation import body_of
from gpuready_sim.apiserver.rbac import Attributes, Authorizer
from gpuready_sim.apiserver.registry import ResourceType
from gpuready_sim.apiserver.requests import Reply, Request, Target, User
from gpuready_sim.apiserver.resources import write_options
from gpuready_sim.apiserver.schemas import FieldError
from gpuready_sim.apiserver.store import encode
from gpuready_sim.apiserver.tokens import ISSUER, Tokens, user_info

_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


class Reviews:
    """The question comes back with its status."""

    def __init__(self, tokens: Tokens, authorizer: Authorizer, now: Callable[[], datetime.datetime]) -> None:
        self._tokens = tokens
        self._authorizer = authorizer
        self._now = now
        self._answers: dict[str, Callable[[Request, Obj], Obj]] = {
            "TokenReview": self._whose_token,
            "SelfSubjectReview": self._who_am_i,
            "SelfSubjectAccessReview": self._may_i,
            "SubjectAccessReview": self._may_they,
            "LocalSubjectAccessReview": self._may_they_here,
            "SelfSubjectRulesReview": self._what_may_i,
        }

    def ask(self, request: Request, target: Target, resource: ResourceType) -> Reply:
        """
        raises  Failure 400 or 422 for what is no question
        """
        if request.method != "POST":
            raise method_not_allowed()
        question = metadata.checked_head(body_of(request), resource, target.namespace)
        status = self._answers[resource.kind](request, question)
        if resource.kind == "SelfSubjectRulesReview":
            question = question | {"metadata": {}, "spec": {}}  # as the real one forgets it
        else:
            question = self._tracked(question, request, resource)
        return Reply(201, encode(question | {"status": status}))

    def _tracked(self, question: Obj, request: Request, resource: ResourceType) -> Obj:
        stamp = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        if resource.kind == "SelfSubjectReview":
            question["metadata"]["creationTimestamp"] = stamp
        options = write_options(request)
        return applying.track_update(
            None,
            question,
            options.manager,
            schema=resource.schema,
            api_version=resource.api_version,
            now=stamp,
        )

    # --- who ---

    def _whose_token(self, request: Request, question: Obj) -> Obj:
        spec = question.get("spec") or {}
        if not spec.get("token"):
            raise bad_request("token is required for TokenReview in authentication")
        audiences = spec.get("audiences") or [ISSUER]
        user = self._tokens.user_of(spec["token"], audiences)
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user_info(user), "audiences": audiences}

    def _who_am_i(self, request: Request, question: Obj) -> Obj:
        return {"userInfo": user_info(request.user)}

    # --- what ---

    def _may_i(self, request: Request, question: Obj) -> Obj:
        return self._decided(request.user, question, [])

    def _may_they_here(self, request: Request, question: Obj) -> Obj:
        spec = question.get("spec") or {}
        problems = []
        asked = (spec.get("resourceAttributes") or {}).get("namespace", "")
        if asked != question["metadata"].get("namespace"):
            why = "must match metadata.namespace"
            problems.append(FieldError("spec.resourceAttributes.namespace", "Invalid", asked, why))
        if "nonResourceAttributes" in spec:
            why = "disallowed on this kind of request"
            path = "spec.nonResourceAttributes"
            problems.append(FieldError(path, "Invalid", spec["nonResourceAttributes"], why))
        return self._decided(_subject(spec), question, problems)

    def _may_they(self, request: Request, question: Obj) -> Obj:
        spec = question.get("spec") or {}
        problems = []
        if not spec.get("user") and not spec.get("groups"):
            why = "at least one of user or group must be specified"
            problems.append(FieldError("spec.user", "Invalid", "", why))
        return self._decided(_subject(spec), question, problems)

    def _decided(self, user: User, question: Obj, problems: list[FieldError]) -> Obj:
        spec = question.get("spec") or {}
        on, at = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if (on is None) == (at is None):
            which = FieldError("spec.resourceAttributes", "Invalid", None, _ONE_OF)
            if on is not None:
                which = FieldError("spec.nonResourceAttributes", "Invalid", at, _ONE_OF)
            problems = [which, *problems]
        if problems:
            raise invalid("", "authorization.k8s.io", "", problems)
        decision = self._authorizer.decide(user, _attributes(on, at))
        answer: Obj = {"allowed": decision.allowed}
        return answer | ({"reason": decision.reason} if decision.reason else {})

    def _what_may_i(self, request: Request, question: Obj) -> Obj:
        namespace = (question.get("spec") or {}).get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        rules = self._authorizer.rules_of(request.user, namespace)
        on = ("verbs", "apiGroups", "resources", "resourceNames")
        return {
            "resourceRules": [_part(rule, on) for rule in rules if rule.get("resources")],
            "nonResourceRules": [
                _part(rule, ("verbs", "nonResourceURLs")) for rule in rules if rule.get("nonResourceURLs")
            ],
            "incomplete": False,
        }


def _part(rule: Obj, names: tuple[str, ...]) -> Obj:
    return {name: rule[name] for name in names if rule.get(name)}


def _subject(spec: Obj) -> User:
    return User(
        spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), spec.get("extra") or {}
    )


def _attributes(on: Obj | None, at: Obj | None) -> Attributes:
    if on is None:
        at = at or {}
        return Attributes(at.get("verb", ""), path=at.get("path", ""))
    return Attributes(
        on.get("verb", ""),
        on.get("group", ""),
        on.get("resource", ""),
        on.get("subresource", ""),
        on.get("namespace", ""),
        on.get("name", ""),
    )
