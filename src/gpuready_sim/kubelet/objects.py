"""ConfigMaps, Secrets and tokens that the pods of a node need.

Each ConfigMap and Secret is watched by itself while pods refer to it, so a change reaches the volumes at
once (the real kubelet needs up to a minute).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from gpuready_sim.client import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, Object, SimClient
from gpuready_sim.informer import Informer
from gpuready_sim.runtime.environment import references

_RESOURCES = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}
SYNC_TIMEOUT_S = 10

Key = tuple[str, str, str]  # kind, namespace, name


class NodeObjects:
    """The objects; `on_change(kind, namespace, name)` is called when one of them changed."""

    def __init__(self, client: SimClient, on_change: Callable[[Key], None]) -> None:
        self._client = client
        self._on_change = on_change
        self._watched: dict[Key, tuple[Informer, asyncio.Task[None]]] = {}

    async def find(self, kind: str, namespace: str, name: str) -> Object | None:
        """The object as it is now; watched from here on until `keep` lets it go."""
        key = (kind, namespace, name)
        if key not in self._watched:
            self._watched[key] = self._watch(key)
        informer = self._watched[key][0]
        await asyncio.wait_for(informer.wait_synced(), SYNC_TIMEOUT_S)
        return informer.get(name, namespace)

    def cached(self, key: Key) -> Object | None:
        watched = self._watched.get(key)
        return watched[0].get(key[2], key[1]) if watched else None

    async def request_token(self, pod: Mapping[str, Any], audience: str | None, seconds: int) -> str:
        """A token of the pod's service account that is bound to the pod."""
        meta = pod["metadata"]
        spec: Object = {
            "expirationSeconds": seconds,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]},
        }
        if audience:
            spec["audiences"] = [audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await self._client.create(
            SERVICE_ACCOUNTS,
            body,
            meta["namespace"],
            name=pod["spec"].get("serviceAccountName") or "default",
            subresource="token",
        )
        return str(answer["status"]["token"])

    def keep(self, needed: set[Key]) -> None:
        """Stop watching what no pod refers to any more."""
        for key in self._watched.keys() - needed:
            self._watched.pop(key)[1].cancel()

    def close(self) -> None:
        self.keep(set())

    def _watch(self, key: Key) -> tuple[Informer, asyncio.Task[None]]:
        kind, namespace, name = key
        informer = Informer(
            self._client, _RESOURCES[kind], namespace=namespace, field_selector=f"metadata.name={name}"
        )
        informer.add_handler(lambda old, new: self._on_change(key))
        return informer, asyncio.create_task(informer.run())


def references_of(pod: Mapping[str, Any]) -> set[Key]:
    """Every ConfigMap and Secret that the pod's volumes and environments name."""
    namespace, spec = pod["metadata"]["namespace"], pod["spec"]
    found = references([*spec.get("initContainers", []), *spec["containers"]])
    for volume in spec.get("volumes") or []:
        sources = [volume, *((volume.get("projected") or {}).get("sources") or [])]
        for source in sources:
            if "configMap" in source:
                found.add(("ConfigMap", source["configMap"].get("name", "")))
            if "secret" in source:
                secret = source["secret"]
                found.add(("Secret", secret.get("secretName") or secret.get("name", "")))
    return {(kind, namespace, name) for kind, name in found}
