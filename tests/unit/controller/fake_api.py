"""An API server in memory, as much of it as the loops of the controller use; it can refuse by name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from gpuready.kube.errors import ApiStatusError, error_of
from gpuready.kube.resources import Resource

Object = dict[str, Any]


class FakeApi:
    """`refuse` maps the name of an object to the error that each write of it gets.

    hidden   the same for lists, by plural
    """

    def __init__(self, **objects: list[Object]) -> None:
        self.objects = objects  # by plural
        self.refuse: dict[str, Exception] = {}
        self.hidden: dict[str, Exception] = {}
        self.sent: list[str] = []  # "apply daemonsets nvidia-driver-daemonset"

    async def list_decoded(self, resource: Resource, decode: Any, **scope: Any) -> tuple[list[Any], str]:
        if resource.plural in self.hidden:
            raise self.hidden[resource.plural]
        found = self.objects.get(resource.plural, [])
        return [decode(json.dumps(obj).encode()) for obj in found], "1"

    async def list_metadata(self, resource: Resource, *args: Any) -> list[Object]:
        if resource.plural in self.hidden:
            raise self.hidden[resource.plural]
        return []

    async def get(self, resource: Resource, name: str, *args: Any) -> Object:
        for obj in self.objects.get(resource.plural, []):
            if obj["metadata"]["name"] == name:
                return obj
        raise error_of(404, {"message": f"{name} not found", "reason": "NotFound"})

    async def watch(self, resource: Resource, **options: Any) -> AsyncGenerator[Any, None]:
        options["opened"]()
        await asyncio.Event().wait()
        yield

    async def apply(self, resource: Resource, obj: Mapping[str, Any], **options: Any) -> Object:
        return self._take("apply", resource, obj["metadata"]["name"], obj)

    async def create(self, resource: Resource, obj: Mapping[str, Any], *args: Any, **options: Any) -> Object:
        return self._take("create", resource, obj["metadata"].get("name", ""), obj)

    async def merge_patch(
        self, resource: Resource, name: str, patch: Any, *args: Any, **options: Any
    ) -> Object:
        return self._take("patch", resource, name, patch)

    async def strategic_patch(
        self, resource: Resource, name: str, patch: Any, *args: Any, **options: Any
    ) -> None:
        self._take("patch", resource, name, patch)

    async def json_patch(
        self, resource: Resource, name: str, patch: Any, *args: Any, **options: Any
    ) -> Object:
        return self._take("patch", resource, name, {"operations": patch})

    async def delete(self, resource: Resource, name: str, *args: Any, **options: Any) -> Object:
        return self._take("delete", resource, name, {})

    def _take(self, verb: str, resource: Resource, name: str, body: Mapping[str, Any]) -> Object:
        self.sent.append(f"{verb} {resource.plural} {name}")
        if name in self.refuse:
            raise self.refuse[name]
        if "operations" in body:
            self.written = body["operations"][-1]["value"]
        return {**body, "metadata": {**body.get("metadata", {}), "resourceVersion": str(len(self.sent))}}


def invalid(text: str = "no such thing") -> ApiStatusError:
    return error_of(422, {"message": text, "reason": "Invalid"})


def overloaded() -> ApiStatusError:
    return error_of(503, {"message": "try again"})
