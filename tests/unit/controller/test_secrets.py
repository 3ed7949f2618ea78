"""The right to list Secrets gives all of their contents away: it can be kept from the operator."""

from __future__ import annotations

from typing import Any

from tests.unit.controller.fake_api import FakeApi

from gpuready.controller.caches import Caches
from gpuready.kube.errors import Forbidden


def caches(**options: Any) -> Caches:
    client: Any = FakeApi()
    return Caches.of(client, "gpu-operator", **options)


def plurals(found: list[Any]) -> list[str]:
    return [cache.resource.plural for cache in found]


def test_an_operator_that_is_not_to_list_secrets_does_not_try():
    assert "secrets" in plurals(caches().all)
    assert "secrets" not in plurals(caches(asks_for_secrets=False).all)


def test_without_that_right_the_operator_is_ready_and_nothing_is_reported_as_failing():
    found = caches()
    found.secrets.trouble = Forbidden("secrets is forbidden", status=403)
    assert "secrets" not in plurals(found.needed)
    assert found.troubles == []
    assert "Secret" not in found.existing(), "of none is it said that it is missing"
