"""Who a bearer token belongs to: the administrator, or a service account's signed token.

Tokens are JSON web tokens (ES256) with the claims of the real ones: bound to a service account, and to
a pod with its node where asked. A token dies with the object to which it is bound.

Source: kubernetes, pkg/serviceaccount/claims.go.
"""

from __future__ import annotations

import base64
import hmac
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from gpuready_sim.apiserver.failures import Obj
from gpuready_sim.apiserver.pki import Identity
from gpuready_sim.apiserver.requests import User
from gpuready_sim.apiserver.store import Store, decode, encode

ISSUER = "https://kubernetes.default.svc.cluster.local"
ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"), "kubernetes-admin")
_KNOWN_TOKENS = 4096


@dataclass(frozen=True)
class Binding:
    """What a token is for."""

    account: Obj
    pod: Obj | None = None
    node: Obj | None = None


class Tokens:
    """Signs and checks tokens."""

    def __init__(self, identity: Identity, store: Store, now: Callable[[], float]) -> None:
        self._key = identity.signing_key
        self._admin = identity.admin_token.encode()
        self._store = store
        self._now = now
        self._verified: dict[str, Obj] = {}  # claims of tokens whose signature was right

    def sign(self, binding: Binding, *, audiences: Sequence[str], lifetime_s: int) -> tuple[str, float]:
        """A new token and the time at which it expires (seconds since the epoch)."""
        now = int(self._now())
        claims: Obj = {
            "aud": list(audiences) or [ISSUER],
            "exp": now + lifetime_s,
            "iat": now,
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": _private_claims(binding),
            "nbf": now,
            "sub": _account_name(binding.account),
        }
        head = _base64(encode({"alg": "ES256", "kid": "gpuready-sim", "typ": "JWT"}))
        signed = head + b"." + _base64(encode(claims))
        r, s = utils.decode_dss_signature(self._key.sign(signed, ec.ECDSA(hashes.SHA256())))
        signature = _base64(r.to_bytes(32, "big") + s.to_bytes(32, "big"))
        return (signed + b"." + signature).decode(), float(claims["exp"])

    def user_of(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> User | None:
        """The user of a token, or None when it is unknown, expired, or for others."""
        if hmac.compare_digest(token.encode(), self._admin):
            return ADMIN
        claims = self._claims(token)
        if claims is None or not claims["nbf"] <= self._now() < claims["exp"]:
            return None
        if not set(claims["aud"]) & set(audiences or (ISSUER,)):
            return None
        return self._bound_user(claims)

    def audiences_of(self, token: str) -> list[str]:
        claims = self._claims(token)
        return list(claims["aud"]) if claims else [ISSUER]

    def _claims(self, token: str) -> Obj | None:
        known = self._verified.get(token)
        if known is None:
            known = self._verify(token)
            if known is not None:
                if len(self._verified) >= _KNOWN_TOKENS:
                    self._verified.clear()
                self._verified[token] = known
        return known

    def _verify(self, token: str) -> Obj | None:
        try:
            head, payload, signature = token.split(".")
            raw = _unbase64(signature)
            der = utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
            signed = f"{head}.{payload}".encode()
            self._key.public_key().verify(der, signed, ec.ECDSA(hashes.SHA256()))
            claims: Obj = decode(_unbase64(payload))
        except (ValueError, InvalidSignature, msgspec.DecodeError):
            return None
        return claims if claims.get("iss") == ISSUER else None

    def _bound_user(self, claims: Obj) -> User | None:
        """The service account, if everything that the token is bound to still exists."""
        private = claims["kubernetes.io"]
        namespace = private["namespace"]
        account = private["serviceaccount"]
        if not self._lives("serviceaccounts", namespace, account):
            return None
        extra: dict[str, list[str]] = {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]}
        if pod := private.get("pod"):
            if not self._lives("pods", namespace, pod):
                return None
            extra["authentication.kubernetes.io/pod-name"] = [pod["name"]]
            extra["authentication.kubernetes.io/pod-uid"] = [pod["uid"]]
        if node := private.get("node"):
            extra["authentication.kubernetes.io/node-name"] = [node["name"]]
            extra["authentication.kubernetes.io/node-uid"] = [node.get("uid", "")]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return User(claims["sub"], groups, account["uid"], extra)

    def _lives(self, table: str, namespace: str, reference: Obj) -> bool:
        entry = self._store.table(table).get(namespace, reference["name"])
        return entry is not None and entry.obj["metadata"]["uid"] == reference["uid"]


def _private_claims(binding: Binding) -> Obj:
    meta = binding.account["metadata"]
    claims: Obj = {
        "namespace": meta["namespace"],
        "serviceaccount": {"name": meta["name"], "uid": meta["uid"]},
    }
    for word, obj in (("pod", binding.pod), ("node", binding.node)):
        if obj is not None:
            claims[word] = {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}
    return claims


def _account_name(account: Obj) -> str:
    meta = account["metadata"]
    return f"system:serviceaccount:{meta['namespace']}:{meta['name']}"


def _base64(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def _unbase64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def user_info(user: User) -> dict[str, Any]:
    """A user as it stands in reviews."""
    info: dict[str, Any] = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info
