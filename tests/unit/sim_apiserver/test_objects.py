"""Create, read, update, patch and delete, as the API server answers them."""

from __future__ import annotations

import asyncio
import json

from .harness import (
    APPLY,
    CONFIG_MAPS,
    CRDS,
    JSON_PATCH,
    NODES,
    PODS,
    SERVICES,
    STRATEGIC,
    WIDGETS,
    Api,
    Clock,
    config_map,
    node,
    pod,
    widget_definition,
)


async def test_a_created_object_gets_what_the_server_owns(api: Api) -> None:
    made = await api.made(CONFIG_MAPS, config_map(a="b"))

    meta = made["metadata"]
    assert meta["namespace"] == "default"
    assert meta["uid"]
    assert meta["creationTimestamp"] == "2026-07-01T12:00:00Z"
    assert int(meta["resourceVersion"]) > 0
    assert meta["managedFields"][0]["manager"] == "tester"
    assert "generation" not in meta


async def test_an_object_of_the_whole_cluster_loses_a_namespace_that_somebody_gave_it(api: Api) -> None:
    """The original operator writes its cluster roles so."""
    asked = node("n")
    asked["metadata"]["namespace"] = "elsewhere"
    made = await api.made(NODES, asked)
    assert "namespace" not in made["metadata"]

    made["metadata"]["namespace"] = "elsewhere"
    put = await api.replace(f"{NODES}/n", made)
    assert (put.code, "namespace" in put.json["metadata"]) == (200, False)


async def test_a_service_loses_with_its_type_what_the_server_had_filled_in_for_it(api: Api) -> None:
    def of(kind: str, **more: str) -> dict[str, object]:
        spec = {"type": kind, "ports": [{"port": 80}], **more}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}

    made = await api.patch(f"{SERVICES}/s?fieldManager=me", of("NodePort"), APPLY)
    assert made.json["spec"]["externalTrafficPolicy"] == "Cluster"

    said = await api.patch(
        f"{SERVICES}/s?fieldManager=me", of("ClusterIP", externalTrafficPolicy="Local"), APPLY
    )
    assert (said.code, "externally-accessible" in said.message) == (422, True)
    changed = await api.patch(f"{SERVICES}/s?fieldManager=me", of("ClusterIP"), APPLY)
    assert "externalTrafficPolicy" not in changed.json["spec"]


async def test_a_pod_with_a_port_twice_is_taken_but_not_without_a_word(api: Api) -> None:
    twice = pod("p")
    twice["spec"]["containers"][0]["ports"] = [{"containerPort": 80}] * 2

    warned = await api.call("POST", PODS, twice)

    place = "spec.containers[0].ports"
    assert warned.code == 201
    assert warned.header("warning") == [f'299 - "{place}[1]: duplicate port definition with {place}[0]"']


async def test_a_name_is_made_from_generate_name(api: Api) -> None:
    made = await api.made(CONFIG_MAPS, {"metadata": {"generateName": "c-"}})

    assert made["metadata"]["name"].startswith("c-")
    assert len(made["metadata"]["name"]) == len("c-") + 5


async def test_refusals_carry_the_real_reasons_and_sentences(api: Api) -> None:
    await api.made(NODES, node())

    missing = await api.get(f"{NODES}/gone")
    assert (missing.code, missing.json["reason"]) == (404, "NotFound")
    assert missing.message == 'nodes "gone" not found'
    assert missing.json["details"] == {"name": "gone", "kind": "nodes"}

    again = await api.create(NODES, node())
    assert (again.code, again.json["reason"], again.message) == (
        409,
        "AlreadyExists",
        'nodes "n1" already exists',
    )

    nameless = await api.create(NODES, {"metadata": {}})
    assert (nameless.code, nameless.json["reason"]) == (422, "Invalid")
    assert nameless.message == (
        'Node "" is invalid: metadata.name: Required value: name or generateName is required'
    )
    assert nameless.json["details"]["causes"][0]["field"] == "metadata.name"

    nowhere = await api.create("/api/v1/namespaces/nowhere/configmaps", config_map())
    assert (nowhere.code, nowhere.message) == (404, 'namespaces "nowhere" not found')

    unknown = await api.get("/api/v1/widgets")
    assert (unknown.code, unknown.message) == (404, "the server could not find the requested resource")
    nobody = await api.get("/apis/example.dev/v1/widgets")
    assert (nobody.code, nobody.text) == (404, b"404 page not found\n")

    wrong_method = await api.call("POST", f"{NODES}/n1")
    assert (wrong_method.code, wrong_method.json["reason"]) == (405, "MethodNotAllowed")


async def test_an_update_from_an_old_version_is_a_conflict(api: Api) -> None:
    first = await api.made(CONFIG_MAPS, config_map(a="1"))
    await api.replace(f"{CONFIG_MAPS}/c1", first | {"data": {"a": "2"}})

    stale = await api.replace(f"{CONFIG_MAPS}/c1", first | {"data": {"a": "3"}})

    assert (stale.code, stale.json["reason"]) == (409, "Conflict")
    assert stale.message == (
        'Operation cannot be fulfilled on configmaps "c1": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_writing_what_is_there_writes_nothing(api: Api, clock: Clock) -> None:
    made = await api.made(CONFIG_MAPS, config_map(a="1"))
    clock.advance(minutes=5)

    again = await api.patch(f"{CONFIG_MAPS}/c1", {"data": {"a": "1"}})

    assert again.json["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_every_kind_of_patch_does_what_its_media_type_says(api: Api) -> None:
    await api.made(PODS, pod())
    path = f"{PODS}/p1"

    merged = await api.patch(path, {"metadata": {"labels": {"a": "1", "b": "2"}}})
    assert merged.json["metadata"]["labels"] == {"a": "1", "b": "2"}

    removed = await api.patch(path, [{"op": "remove", "path": "/metadata/labels/a"}], JSON_PATCH)
    assert removed.json["metadata"]["labels"] == {"b": "2"}

    containers = {"spec": {"containers": [{"name": "main", "image": "gpuready:2"}]}}
    strategic = await api.patch(path, containers, STRATEGIC)
    assert strategic.json["spec"]["containers"][0]["image"] == "gpuready:2"
    assert strategic.json["spec"]["containers"][0]["volumeMounts"]

    refused = await api.patch(path, [{"op": "test", "path": "/metadata/name", "value": "x"}], JSON_PATCH)
    assert (refused.code, refused.json["reason"]) == (422, "Invalid")

    unknown = await api.patch(path, {}, "application/xml")
    assert (unknown.code, unknown.json["reason"]) == (415, "UnsupportedMediaType")


async def test_apply_creates_owns_and_meets_conflicts(api: Api) -> None:
    path = f"{CONFIG_MAPS}/c1"
    created = await api.patch(f"{path}?fieldManager=a", config_map(x="1"), APPLY)
    assert created.code == 201

    conflict = await api.patch(f"{path}?fieldManager=b", config_map(x="2"), APPLY)
    assert (conflict.code, conflict.json["reason"]) == (409, "Conflict")
    assert conflict.message == 'Apply failed with 1 conflict: conflict with "a": .data.x'
    assert conflict.json["details"]["causes"][0]["reason"] == "FieldManagerConflict"

    forced = await api.patch(f"{path}?fieldManager=b&force=true", config_map(x="2"), APPLY)
    assert forced.json["data"] == {"x": "2"}

    unchanged = await api.patch(f"{path}?fieldManager=b&force=true", config_map(x="2"), APPLY)
    assert unchanged.json == forced.json

    unnamed = await api.patch(path, config_map(x="2"), APPLY)
    assert "fieldManager: Required value: is required for apply patch" in unnamed.message


async def test_apply_takes_yaml(api: Api) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c1}\ndata: {day: 2026-01-01, 10: 'yes'}\n"

    answer = await api.patch(f"{CONFIG_MAPS}/c1?fieldManager=a", text, APPLY)

    assert answer.json["data"] == {"day": "2026-01-01", "10": "yes"}


WIDGET = {"apiVersion": "example.dev/v1", "kind": "Widget"}


async def test_generation_counts_the_specification_only(api: Api) -> None:
    await api.made(CRDS, widget_definition())
    made = await api.made(WIDGETS, {**WIDGET, "metadata": {"name": "w"}, "spec": {"size": 1}})
    assert made["metadata"]["generation"] == 1

    labelled = await api.patch(f"{WIDGETS}/w", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.json["metadata"]["generation"] == 1

    resized = await api.patch(f"{WIDGETS}/w", {"spec": {"size": 2}, "status": {"phase": "ignored"}})
    assert resized.json["metadata"]["generation"] == 2
    assert "status" not in resized.json

    told = await api.patch(f"{WIDGETS}/w/status", {"spec": {"size": 9}, "status": {"phase": "Ready"}})
    assert told.json["metadata"]["generation"] == 2
    assert told.json["spec"]["size"] == 2
    assert told.json["status"] == {"phase": "Ready"}


async def test_custom_objects_are_defaulted_pruned_and_validated(api: Api) -> None:
    await api.made(CRDS, widget_definition())
    body = {**WIDGET, "metadata": {"name": "w"}, "spec": {"name": "x", "colour": "red"}}

    strict = await api.create(f"{WIDGETS}?fieldValidation=Strict", body)
    assert (strict.code, strict.json["reason"]) == (400, "BadRequest")
    assert strict.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '
        'unknown field "spec.colour"'
    )

    warned = await api.create(f"{WIDGETS}?fieldValidation=Warn", body)
    assert warned.header("warning") == ['299 - "unknown field \\"spec.colour\\""']
    assert warned.json["spec"] == {"name": "x", "size": 3}

    bad = await api.patch(f"{WIDGETS}/w", {"spec": {"size": 0}})
    assert (bad.code, bad.json["reason"]) == (422, "Invalid")
    assert "spec.size: Invalid value: 0" in bad.message

    refused = await api.patch(f"{WIDGETS}/w", {"spec": {"size": 4}}, STRATEGIC)
    assert refused.code == 415


async def test_a_definition_is_established_at_once_and_takes_its_objects_along(api: Api) -> None:
    made = await api.made(CRDS, widget_definition())
    assert made["status"]["conditions"] is None  # nobody has looked at its names yet
    crd = (await api.get(f"{CRDS}/widgets.example.dev")).json
    conditions = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert (await api.get("/apis/example.dev/v1")).json["resources"][0]["name"] == "widgets"
    await api.made(WIDGETS, {**WIDGET, "metadata": {"name": "w", "finalizers": ["example.dev/hold"]}})

    await api.delete(f"{CRDS}/widgets.example.dev")
    await api.settled()
    assert (await api.get(f"{CRDS}/widgets.example.dev")).json["metadata"]["finalizers"]
    assert (await api.get(f"{WIDGETS}/w")).json["metadata"]["deletionTimestamp"]
    assert (await api.create(WIDGETS, {**WIDGET, "metadata": {"name": "late"}})).code == 403

    await api.patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})
    await api.settled()
    assert (await api.get(f"{CRDS}/widgets.example.dev")).code == 404
    assert (await api.get("/apis/example.dev/v1")).code == 404


async def test_dry_run_answers_as_if_and_keeps_nothing(api: Api) -> None:
    answer = await api.create(f"{CONFIG_MAPS}?dryRun=All", config_map())

    assert answer.code == 201
    assert (await api.get(f"{CONFIG_MAPS}/c1")).code == 404


async def test_a_pod_waits_for_its_node_and_a_finalizer_for_its_owner(api: Api, clock: Clock) -> None:
    await api.made(NODES, node())
    await api.made(PODS, pod())
    bound = await api.create(
        f"{PODS}/p1/binding", {"metadata": {"name": "p1"}, "target": {"kind": "Node", "name": "n1"}}
    )
    assert bound.code == 201

    deleted = await api.delete(f"{PODS}/p1")
    assert deleted.json["metadata"]["deletionTimestamp"] == "2026-07-01T12:00:30Z"
    assert deleted.json["metadata"]["deletionGracePeriodSeconds"] == 30
    assert (await api.get(f"{PODS}/p1")).code == 200

    await api.delete(f"{PODS}/p1", {"gracePeriodSeconds": 0})
    assert (await api.get(f"{PODS}/p1")).code == 404


async def test_a_pod_without_a_node_goes_at_once(api: Api) -> None:
    await api.made(PODS, pod())

    await api.delete(f"{PODS}/p1")

    assert (await api.get(f"{PODS}/p1")).code == 404


async def test_deletion_waits_for_finalizers_and_heeds_preconditions(api: Api) -> None:
    made = await api.made(CONFIG_MAPS, config_map())
    await api.patch(f"{CONFIG_MAPS}/c1", {"metadata": {"finalizers": ["example.dev/hold"]}})

    refused = await api.delete(f"{CONFIG_MAPS}/c1", {"preconditions": {"uid": "other"}})
    assert (refused.code, refused.json["reason"]) == (409, "Conflict")
    assert f"does not match the UID in record ({made['metadata']['uid']})" in refused.message

    await api.delete(f"{CONFIG_MAPS}/c1")
    assert (await api.get(f"{CONFIG_MAPS}/c1")).json["metadata"]["deletionTimestamp"]
    late = await api.patch(
        f"{CONFIG_MAPS}/c1", {"metadata": {"finalizers": ["example.dev/hold", "example.dev/late"]}}
    )
    assert "no new finalizers can be added if the object is being deleted" in late.message

    await api.patch(f"{CONFIG_MAPS}/c1", {"metadata": {"finalizers": []}})
    assert (await api.get(f"{CONFIG_MAPS}/c1")).code == 404


async def test_propagation_becomes_a_finalizer_for_the_garbage_collector(api: Api) -> None:
    await api.made(CONFIG_MAPS, config_map("a"))
    await api.made(CONFIG_MAPS, config_map("b"))

    foreground = await api.delete(f"{CONFIG_MAPS}/a", {"propagationPolicy": "Foreground"})
    orphan = await api.delete(f"{CONFIG_MAPS}/b", {"propagationPolicy": "Orphan"})

    assert foreground.code == 202
    assert foreground.json["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert orphan.json["metadata"]["finalizers"] == ["orphan"]


async def test_a_namespace_is_furnished_and_empties_itself(api: Api) -> None:
    await api.made("/api/v1/namespaces", {"metadata": {"name": "ns"}})
    assert (await api.get("/api/v1/namespaces/ns/serviceaccounts/default")).code == 200
    bundle = await api.get("/api/v1/namespaces/ns/configmaps/kube-root-ca.crt")
    assert "BEGIN CERTIFICATE" in bundle.json["data"]["ca.crt"]
    path = "/api/v1/namespaces/ns/configmaps"
    held = config_map("held")
    held["metadata"]["finalizers"] = ["example.dev/hold"]
    await api.made(path, held)

    deleted = await api.delete("/api/v1/namespaces/ns")
    await api.settled()
    assert deleted.json["status"]["phase"] == "Terminating"
    assert [item["metadata"]["name"] for item in (await api.get(path)).json["items"]] == ["held"]

    late = await api.create(path, config_map("late"))
    assert (late.code, late.json["reason"]) == (403, "Forbidden")
    assert "because it is being terminated" in late.message

    await api.patch(f"{path}/held", {"metadata": {"finalizers": None}})
    await api.settled()
    assert (await api.get("/api/v1/namespaces/ns")).code == 404


async def test_a_pod_gets_account_token_tolerations_and_priority(api: Api) -> None:
    made = await api.made(PODS, pod(priorityClassName="system-node-critical"))

    spec = made["spec"]
    assert spec["priority"] == 2000001000
    assert spec["serviceAccountName"] == "default"
    mount = spec["containers"][0]["volumeMounts"][0]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert spec["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]["path"] == "token"
    assert {t["key"] for t in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}

    unknown = await api.create(PODS, pod("p2", priorityClassName="nope"))
    assert (unknown.code, unknown.message) == (
        403,
        'pods "p2" is forbidden: no PriorityClass with name nope was found',
    )
    homeless = await api.create(PODS, pod("p2", serviceAccountName="nobody"))
    assert homeless.message == (
        'pods "p2" is forbidden: error looking up service account default/nobody: '
        'serviceaccount "nobody" not found'
    )


async def test_a_daemon_set_selects_its_own_pods_for_good(api: Api) -> None:
    path = "/apis/apps/v1/namespaces/default/daemonsets"
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod()["spec"]}
    spec = {"selector": {"matchLabels": {"app": "y"}}, "template": template}
    body = {"metadata": {"name": "d"}, "spec": spec}

    mismatch = await api.create(path, body)
    assert mismatch.code == 422
    assert "`selector` does not match template `labels`" in mismatch.message

    spec["selector"] = {"matchLabels": {"app": "x"}}
    made = await api.made(path, body)
    assert made["metadata"]["generation"] == 1
    moved = await api.patch(
        f"{path}/d",
        {
            "spec": {
                "selector": {"matchLabels": {"app": "z"}},
                "template": {"metadata": {"labels": {"app": "z"}}},
            }
        },
    )
    assert "field is immutable" in moved.message


async def test_a_budget_keeps_the_last_healthy_pod(api: Api) -> None:
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    await api.made(budgets, {"metadata": {"name": "b"}, "spec": spec})
    one = pod()
    one["metadata"]["labels"] = {"app": "x"}
    await api.made(PODS, one)
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await api.patch(f"{PODS}/p1/status", ready)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p1"}}

    kept = await api.create(f"{PODS}/p1/eviction", eviction)
    assert (kept.code, kept.json["reason"]) == (429, "TooManyRequests")
    assert kept.message == "Cannot evict pod as it would violate the pod's disruption budget."

    await api.delete(f"{budgets}/b")
    assert (await api.create(f"{PODS}/p1/eviction", eviction)).code == 201
    assert (await api.get(f"{PODS}/p1")).code == 404


async def test_events_are_one_thing_in_two_versions(api: Api) -> None:
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Node", "name": "n1", "apiVersion": "v1"},
        "reason": "GPUReady",
        "message": "all well",
        "type": "Normal",
        "lastTimestamp": "2026-07-01T12:00:00Z",
    }
    await api.made("/api/v1/namespaces/default/events", event)

    newer = await api.get("/apis/events.k8s.io/v1/namespaces/default/events/e")
    assert (newer.json["note"], newer.json["regarding"]["name"]) == ("all well", "n1")

    found = await api.get("/api/v1/events?fieldSelector=involvedObject.name=n1,reason=GPUReady")
    assert len(found.json["items"]) == 1


async def test_two_writers_at_once_lose_nothing(api: Api) -> None:
    await api.made(CONFIG_MAPS, config_map())

    await asyncio.gather(*(api.patch(f"{CONFIG_MAPS}/c1", {"data": {f"k{i}": "v"}}) for i in range(20)))

    assert len((await api.get(f"{CONFIG_MAPS}/c1")).json["data"]) == 20


async def test_requests_are_noted_with_client_and_outcome(api: Api, tmp_path_factory: object) -> None:
    await api.made(NODES, node())
    await api.get(f"{NODES}/gone")
    audit = api.server._audit
    audit.flush()

    lines = [json.loads(line) for line in audit.path.read_text().splitlines()]  # type: ignore[union-attr]

    assert [(r["client"], r["verb"], r["resource"], r["name"], r["code"]) for r in lines] == [
        ("tester", "create", "nodes", "n1", 201),
        ("tester", "get", "nodes", "gone", 404),
    ]
