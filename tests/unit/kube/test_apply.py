from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from tests.unit.kube.scripted_server import ScriptedServer, gives

from gpuready import names
from gpuready.kube.apply import ECHO_S, Applier, Change, Occupied, decide, taken_over, with_digest
from gpuready.kube.resources import DAEMONSETS

ABSENT = gives({"kind": "Status", "reason": "NotFound", "message": "not found", "code": 404}, 404)


def daemonset(image: str = "a:1") -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": "ns"},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}},
    }


def stored(desired: dict[str, Any], *, version: str = "5", managers: tuple[str, ...] = ()) -> dict[str, Any]:
    """The object as the API server returns it."""
    live = copy.deepcopy(with_digest(desired))
    live["metadata"] |= {"resourceVersion": version, "uid": "u"}
    live["metadata"]["managedFields"] = [
        {"manager": each, "operation": "Update", "fieldsV1": {"f:spec": {}}} for each in managers
    ]
    live["spec"]["template"]["spec"]["dnsPolicy"] = "ClusterFirst"  # a default of the server's
    return live


async def test_an_unchanged_object_costs_no_request(server: ScriptedServer) -> None:
    async with server.client() as client:
        done = await Applier(client).apply(DAEMONSETS, daemonset(), stored(daemonset()))

    assert (done.change, done.changed, server.requests) == (Change.NONE, False, [])


async def test_what_was_found_unchanged_is_not_compared_again_until_one_of_the_two_is_another(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []

    def noting(marked: Any, live: Any, **more: Any) -> Any:
        compared.append(live["metadata"]["resourceVersion"])
        return decide(marked, live, **more)

    monkeypatch.setattr("gpuready.kube.apply.decide", noting)
    server.answers = [gives(stored(daemonset(), version="8"))]
    live, newer = stored(daemonset(), version="5"), stored(daemonset(), version="6")
    edited = _edited("7")
    async with server.client() as client:
        applier = Applier(client)
        seen = (live, live, newer, newer, edited)
        done = [await applier.apply(DAEMONSETS, daemonset(), each) for each in seen]

    assert compared == ["5", "6", "7"]
    assert [each.changed for each in done] == [False, False, False, False, True]


async def test_an_object_that_somebody_changes_again_and_again_is_repaired_at_a_measured_pace(
    server: ScriptedServer,
) -> None:
    """Twenty times at once, then every two seconds; another text of ours does not wait."""
    now = 0.0
    server.answers = [gives(stored(daemonset(image), version="6")) for image in ["a:1"] * 22 + ["b:1"]]

    async with server.client() as client:
        applier = Applier(client, clock=lambda: now)
        edits = [_edited(str(version)) for version in range(100, 140)]
        done = [await applier.apply(DAEMONSETS, daemonset(), live) for live in edits]
        now = 2.0
        later = [await applier.apply(DAEMONSETS, daemonset(), live) for live in edits[:3]]
        ours = await applier.apply(DAEMONSETS, daemonset("b:1"), edits[3])

    assert [each.changed for each in done] == [True] * 21 + [False] * 19  # the first told us of no fight
    assert done[-1].again_in_s == 2.0
    assert [each.changed for each in later] == [True, False, False]
    assert ours.changed


def _edited(version: str) -> dict[str, Any]:
    live = stored(daemonset(), version=version)
    live["spec"]["template"]["spec"]["containers"][0]["image"] = "hand:1"
    live["metadata"]["annotations"][names.DIGEST_ANNOTATION] = "theirs"
    return live


async def test_an_absent_object_is_created_with_its_digest(server: ScriptedServer) -> None:
    server.answers = [ABSENT, gives(stored(daemonset()))]

    async with server.client() as client:
        done = await Applier(client).apply(DAEMONSETS, daemonset(), None)

    sent = msgspec.json.decode(server.bodies[1])
    assert [each.method for each in server.requests] == ["GET", "PATCH"]
    assert done.change is Change.CREATED
    assert sent["metadata"]["annotations"][names.DIGEST_ANNOTATION]


async def test_a_hand_edit_is_repaired_and_named(server: ScriptedServer) -> None:
    live = stored(daemonset())
    live["spec"]["template"]["spec"]["containers"][0]["image"] = "hand:1"
    server.answers = [gives(stored(daemonset(), version="6"))]

    async with server.client() as client:
        done = await Applier(client).apply(DAEMONSETS, daemonset(), live)

    assert done.change is Change.REPAIRED
    assert [(each.live, each.desired) for each in done.differences] == [("hand:1", "a:1")]


async def test_a_changed_wish_is_applied_once_although_the_cache_lags(server: ScriptedServer) -> None:
    live = stored(daemonset("a:1"))
    server.answers = [gives(stored(daemonset("a:2"), version="6"))]

    async with server.client() as client:
        applier = Applier(client)
        first = await applier.apply(DAEMONSETS, daemonset("a:2"), live)
        again = await applier.apply(DAEMONSETS, daemonset("a:2"), live)

    assert (first.change, again.change) == (Change.DESIRED, Change.NONE)
    assert len(server.requests) == 1


async def test_a_status_written_meanwhile_does_not_make_us_apply_again(server: ScriptedServer) -> None:
    """Version 6 was there before our write made version 7 of it; the cache shows one after the other."""
    now = [0.0]
    server.answers = [gives(stored(daemonset("a:2"), version="7"))] * 2

    async with server.client() as client:
        applier = Applier(client, clock=lambda: now[0])
        await applier.apply(DAEMONSETS, daemonset("a:2"), stored(daemonset("a:1"), version="5"))
        again = await applier.apply(DAEMONSETS, daemonset("a:2"), stored(daemonset("a:1"), version="6"))
        assert (again.change, again.awaits_echo, len(server.requests)) == (Change.NONE, True, 1)

        now[0] += ECHO_S
        late = await applier.apply(DAEMONSETS, daemonset("a:2"), stored(daemonset("a:1"), version="6"))
        assert late.change is Change.DESIRED, "a cluster that was restored from a backup counts from there"


async def test_a_new_object_is_made_once_although_the_cache_does_not_show_it_yet(
    server: ScriptedServer,
) -> None:
    now = [0.0]
    server.answers = [ABSENT, gives(stored(daemonset()))] * 3
    async with server.client() as client:
        applier = Applier(client, clock=lambda: now[0])
        await applier.apply(DAEMONSETS, daemonset(), None)

        again = await applier.apply(DAEMONSETS, daemonset(), None)
        assert (again.change, again.awaits_echo, len(server.requests)) == (Change.NONE, True, 2)

        await applier.apply(DAEMONSETS, daemonset(), stored(daemonset()))
        await applier.apply(DAEMONSETS, daemonset(), None)
        assert len(server.requests) == 4, "shown, and then deleted: made again at once"

        now[0] += ECHO_S
        await applier.apply(DAEMONSETS, daemonset(), None)
        assert len(server.requests) == 6, "not shown for so long: deleted before we saw it"


async def test_a_value_that_the_server_insists_on_is_not_fought_over(server: ScriptedServer) -> None:
    stubborn = stored(daemonset("a:2"), version="6")
    stubborn["spec"]["template"]["spec"]["containers"][0]["image"] = "mirror/a:2"
    server.answers = [gives(stubborn)]

    async with server.client() as client:
        applier = Applier(client)
        await applier.apply(DAEMONSETS, daemonset("a:2"), stored(daemonset("a:1")))
        again = await applier.apply(DAEMONSETS, daemonset("a:2"), stubborn)

    assert again.change is Change.NONE
    assert len(server.requests) == 1


async def test_an_object_of_the_original_is_taken_over_before_the_first_apply(server: ScriptedServer) -> None:
    live = stored(daemonset(), managers=("gpu-operator", "kubectl-label"))
    server.answers = [gives({}), gives(stored(daemonset(), version="7"))]

    async with server.client() as client:
        done = await Applier(client).apply(DAEMONSETS, daemonset(), live)

    version, move = msgspec.json.decode(server.bodies[0])
    assert done.change is Change.TAKEN_OVER
    assert [each.headers["Content-Type"] for each in server.requests] == [
        "application/json-patch+json",
        "application/apply-patch+yaml",
    ]
    assert version == {"op": "replace", "path": "/metadata/resourceVersion", "value": "5"}
    assert [each["manager"] for each in move["value"]] == ["gpuready", "kubectl-label"]


async def test_what_the_cache_does_not_show_is_looked_for_and_taken_over(server: ScriptedServer) -> None:
    live = daemonset("a:0") | {"metadata": {**daemonset()["metadata"], "resourceVersion": "5"}}
    live["metadata"]["managedFields"] = [{"manager": "gpu-operator", "operation": "Update", "fieldsV1": {}}]
    server.answers = [gives(live), gives({}), gives(stored(daemonset(), version="7"))]

    async with server.client() as client:
        done = await Applier(client).apply(DAEMONSETS, daemonset(), None)

    assert done.change is Change.TAKEN_OVER
    assert [each.method for each in server.requests] == ["GET", "PATCH", "PATCH"]


def strangers(image: str, **owner: Any) -> dict[str, Any]:
    live = daemonset(image)
    live["metadata"]["managedFields"] = [
        {
            "manager": "kubectl-create",
            "operation": "Update",
            "fieldsV1": {"f:spec": {"f:template": {"f:spec": {"f:containers": {}}}}},
        }
    ]
    if owner:
        live["metadata"]["ownerReferences"] = [{"apiVersion": "nvidia.com/v1", "controller": True, **owner}]
    return live


async def test_somebody_elses_object_is_not_written_over_but_named_with_its_field_and_manager(
    server: ScriptedServer,
) -> None:
    server.answers = [gives(strangers("theirs:1"))]

    async with server.client() as client:
        with pytest.raises(Occupied) as refused:
            await Applier(client).apply(DAEMONSETS, daemonset(), None)

    for words in ("DaemonSet d", "theirs:1", "a:1", "(set by kubectl-create)", "delete or rename"):
        assert words in str(refused.value)
    assert [each.method for each in server.requests] == ["GET"]


async def test_somebody_elses_object_that_says_the_same_serves_as_well(server: ScriptedServer) -> None:
    server.answers = [gives(strangers("a:1"))]

    async with server.client() as client:
        done = await Applier(client).apply(DAEMONSETS, daemonset(), None)

    assert (done.change, len(server.requests)) == (Change.NONE, 1)


async def test_an_object_of_the_same_owner_that_a_backup_brought_back_is_no_strangers(
    server: ScriptedServer,
) -> None:
    wanted = daemonset()
    wanted["metadata"]["ownerReferences"] = strangers("", kind="ClusterPolicy", uid="new")["metadata"][
        "ownerReferences"
    ]
    server.answers = [gives(strangers("a:0", kind="ClusterPolicy", uid="old")), gives(stored(wanted))]

    async with server.client() as client:
        done = await Applier(client).apply(DAEMONSETS, wanted, None)

    assert done.change is Change.DESIRED


def test_what_the_predecessor_owned_is_ours_by_apply_together_with_what_we_had() -> None:
    entries = [
        {"manager": "gpu-operator", "operation": "Update", "fieldsV1": {"f:spec": {"f:a": {}}}},
        {"manager": "gpuready", "operation": "Apply", "fieldsV1": {"f:spec": {"f:b": {}}}},
        {"manager": "gpu-operator", "operation": "Update", "subresource": "status", "fieldsV1": {}},
    ]

    ours, *rest = taken_over(entries, {"gpu-operator"}, "gpuready")

    assert (ours["manager"], ours["operation"]) == ("gpuready", "Apply")
    assert ours["fieldsV1"] == {"f:spec": {"f:a": {}, "f:b": {}}}
    assert rest == [entries[2]]


def test_the_original_managing_only_the_status_is_nothing_to_take_over() -> None:
    live = stored(daemonset())
    live["metadata"]["managedFields"] = [{"manager": "gpu-operator", "subresource": "status", "fieldsV1": {}}]

    assert decide(with_digest(daemonset()), live) == (Change.NONE, ())
