"""Built-in kinds: schemas, OpenAPI documents, validation in the server's words, defaults."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready_sim.apiserver import kinds
from gpuready_sim.apiserver.field_errors import FieldError, aggregate, not_supported
from gpuready_sim.apiserver.quantity import canonical_quantity, is_quantity, parse_quantity
from gpuready_sim.apiserver.registry import Registry
from gpuready_sim.apiserver.schemas import (
    BUILTINS,
    default_builtin,
    openapi_v3,
    openapi_v3_of_crd,
    prune_builtin,
    schema_of,
    validate_builtin,
    validate_builtin_update,
)
from gpuready_sim.apiserver.store import Store

Object = dict[str, Any]


def pod(**spec: Any) -> Object:
    spec = {"containers": [{"name": "c", "image": "nginx:1"}]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d"}, "spec": spec}


def daemon_set(**spec: Any) -> Object:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template} | spec
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": spec}


def messages(obj: Object, *, strict: bool = True) -> list[str]:
    return [error.message() for error in validate_builtin(obj, strict=strict)]


def test_every_builtin_kind_has_a_schema() -> None:
    for one in BUILTINS:
        assert schema_of(one.group, one.version, one.kind) is not None, one
    assert schema_of("", "v1", "Nonsense") is None


def test_no_two_kinds_share_a_name() -> None:
    names = [(one.group, name) for one in BUILTINS for name in (one.plural, *one.short_names)]

    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("path", "relation", "keys"),
    [
        ("spec.containers", "map", ("name",)),
        ("spec.containers.ports", "map", ("containerPort", "protocol")),
        ("spec.tolerations", "atomic", ()),
        ("spec.nodeSelector", "atomic", ()),
        ("metadata.finalizers", "set", ()),
        ("metadata.labels", "granular", ()),
        ("metadata.ownerReferences", "map", ("uid",)),
    ],
)
def test_how_fields_of_a_pod_merge(path: str, relation: str, keys: tuple[str, ...]) -> None:
    schema = schema_of("", "v1", "Pod")
    assert schema is not None
    for name in path.split("."):
        schema = (schema.element() if schema.type == "array" else schema).child(name)

    assert (schema.relation, schema.list_map_keys) == (relation, keys)


def test_recursive_types_are_no_trouble() -> None:
    schema = schema_of("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    assert schema is not None
    node = schema.child("spec").child("versions").element().child("schema").child("openAPIV3Schema")
    for _ in range(5):
        node = node.child("properties").child("x")

    assert "properties" in node.properties


def test_schemas_are_read_only_when_asked() -> None:
    code = (
        "import gzip; opened = []; gzip_open = gzip.decompress;"
        "gzip.decompress = lambda data: opened.append(1) or gzip_open(data);"
        "import gpuready_sim.apiserver.schemas as s; print(len(opened), end=' ');"
        "s.schema_of('', 'v1', 'Pod'); s.schema_of('', 'v1', 'Pod'); print(len(opened))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said.split() == ["0", "1"]


# --- OpenAPI ---


def test_explain_and_apply_find_what_they_look_for() -> None:
    document = openapi_v3("apps", "v1")
    gvk = {"group": "apps", "version": "v1", "kind": "DaemonSet"}

    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == gvk
    assert {"fieldValidation", "dryRun"} <= {one["name"] for one in patch["parameters"]}
    assert document["paths"]["/apis/apps/v1/daemonsets"]["get"]["x-kubernetes-group-version-kind"] == gvk
    schemas = document["components"]["schemas"]
    assert schemas["io.k8s.api.apps.v1.DaemonSet"]["x-kubernetes-group-version-kind"] == [gvk]
    spec = schemas["io.k8s.api.apps.v1.DaemonSetSpec"]
    assert spec["properties"]["template"]["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.api.core.v1.PodTemplateSpec"}
    ]
    assert "template" in spec["properties"]["template"]["description"]


@pytest.mark.parametrize("where", sorted({(one.group, one.version) for one in BUILTINS}))
def test_every_reference_of_a_document_leads_somewhere(where: tuple[str, str]) -> None:
    document = openapi_v3(*where)
    names = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}

    assert set(references(document)) <= names


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [one for child in node.values() for one in references(child)]
    return [one for child in node for one in references(child)] if isinstance(node, list) else []


def test_a_custom_kind_gets_a_document_with_typed_metadata() -> None:
    crd = {
        "spec": {
            "group": "x.dev",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [
                {
                    "name": "v1",
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        }
    }

    document = openapi_v3_of_crd(crd, "v1")

    assert "/apis/x.dev/v1/namespaces/{namespace}/foos/{name}/status" in document["paths"]
    assert document["components"]["schemas"]["dev.x.v1.Foo"]["properties"]["metadata"]["allOf"]
    assert set(references(document)) <= {
        f"#/components/schemas/{name}" for name in document["components"]["schemas"]
    }


# --- validation ---


def test_unknown_fields_are_warnings_unless_strict() -> None:
    obj = pod(foo=1, containers=[{"name": "c", "image": "i", "bar": 2}])

    assert [(e.message(), e.warning) for e in validate_builtin(obj, strict=False)] == [
        ('unknown field "spec.containers[0].bar"', True),
        ('unknown field "spec.foo"', True),
    ]
    assert not any(error.warning for error in validate_builtin(obj, strict=True))
    assert "foo" not in prune_builtin(obj)["spec"]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (
            pod(containers=[{"name": "c", "image": "i", "ports": [{"containerPort": "80"}]}]),
            "json: cannot unmarshal string into Go struct field "
            "ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            pod() | {"metadata": {"name": "p", "labels": {"a": True}}},
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            pod(containers={}),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type "
            "[]v1.Container",
        ),
    ],
)
def test_wrong_types_read_as_gos_decoder_writes_them(obj: Object, message: str) -> None:
    assert messages(obj) == [message]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (pod(containers=[]), "spec.containers: Required value"),
        (pod(containers=[{"name": "c"}]), "spec.containers[0].image: Required value"),
        (pod(containers=[{"name": "c", "image": "i"}] * 2), 'spec.containers[1].name: Duplicate value: "c"'),
        (
            pod(restartPolicy="Sometimes"),
            'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", '
            '"OnFailure", "Never"',
        ),
        (
            pod(containers=[{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/x"}]}]),
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ),
        (
            pod(containers=[{"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": 1}}}]),
            "spec.containers[0].resources.limits: Required value: Limit must be set for non "
            "overcommitable resources",
        ),
        (
            pod(
                containers=[{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "500m"}}}]
            ),
            'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
        ),
        (
            pod(
                containers=[
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}
                ]
            ),
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or '
            "equal to cpu limit of 1",
        ),
        (
            daemon_set(selector={"matchLabels": {"a": "c"}}),
            'spec.template.metadata.labels: Invalid value: {"a":"b"}: '
            "`selector` does not match template `labels`",
        ),
        (
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "n"},
                "spec": {"taints": [{"key": "a", "effect": "NoWay"}]},
            },
            'metadata.taints[0].effect: Unsupported value: "NoWay": supported values: "NoSchedule", '
            '"PreferNoSchedule", "NoExecute"',
        ),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}},
            "metadata.name: Required value: name or generateName is required",
        ),
    ],
)
def test_what_a_kind_demands_is_told_in_the_servers_words(obj: Object, message: str) -> None:
    assert messages(obj) == [message]


@pytest.mark.parametrize("name", ["Foo", "a_b", "-a", "a" * 254])
def test_bad_names_are_refused(name: str) -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}

    assert all(text.startswith(f'metadata.name: Invalid value: "{name}"') for text in messages(obj))
    assert messages(obj)


def test_roles_may_have_names_that_others_may_not() -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "system:node"},
    }

    assert messages(role) == []


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        (daemon_set(), daemon_set(selector={"matchLabels": {"x": "y"}}), "spec.selector"),
        (pod(), pod(nodeName="n"), "spec"),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "immutable": True, "data": {"a": "1"}},
            {"apiVersion": "v1", "kind": "ConfigMap", "immutable": True, "data": {"a": "2"}},
            "data",
        ),
    ],
)
def test_what_must_not_change_cannot(old: Object, new: Object, path: str) -> None:
    assert [error.path for error in validate_builtin_update(new, old)] == [path]
    assert validate_builtin_update(old, old) == []


def test_an_image_of_a_pod_may_change() -> None:
    assert validate_builtin_update(pod(containers=[{"name": "c", "image": "nginx:2"}]), pod()) == []


def test_errors_are_worded_as_by_the_server() -> None:
    error = not_supported("spec.driver.kernelModuleType", "x", ("auto", "open", "proprietary"))

    assert error.message() == (
        'spec.driver.kernelModuleType: Unsupported value: "x": supported values: "auto", '
        '"open", "proprietary"'
    )
    assert error.cause() == {
        "reason": "FieldValueNotSupported",
        "message": 'Unsupported value: "x": supported values: "auto", "open", "proprietary"',
        "field": "spec.driver.kernelModuleType",
    }
    assert aggregate([error, FieldError("a", "Required")]) == f"[{error.message()}, a: Required value]"


# --- defaults ---


def test_a_pod_gets_the_defaults_that_clients_rely_on() -> None:
    probe = {"httpGet": {"port": 80}}
    given_container = {
        "name": "c",
        "image": "nginx",
        "livenessProbe": probe,
        "ports": [{"containerPort": 80}],
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    volumes = [
        {"name": "a"},
        {"name": "b", "hostPath": {"path": "/x"}},
        {"name": "c", "configMap": {"name": "m"}},
    ]

    spec = default_builtin(pod(containers=[given_container], volumes=volumes))["spec"]

    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["schedulerName"] == "default-scheduler"
    (container,) = spec["containers"]
    assert container["imagePullPolicy"] == "Always"
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["resources"]["requests"] == {"nvidia.com/gpu": "1"}
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert container["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert spec["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "hostPath": {"path": "/x", "type": ""}},
        {"name": "c", "configMap": {"name": "m", "defaultMode": 420}},
    ]
    assert probe == {"httpGet": {"port": 80}}


def test_a_daemon_set_rolls_by_default() -> None:
    spec = default_builtin(daemon_set())["spec"]

    assert spec["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
    }
    assert spec["revisionHistoryLimit"] == 10
    assert "tolerations" not in spec["template"]["spec"]


def test_a_namespace_is_held_by_its_finalizer_which_its_creator_does_not_own() -> None:
    obj = default_builtin({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
    assert "spec" not in obj

    namespaces = Registry.with_builtins().find("", "v1", "namespaces")
    assert namespaces is not None
    kinds.prepare_create(obj, namespaces, kinds.Surroundings(Store(), "2026-01-01T00:00:00Z"))

    assert obj["spec"] == {"finalizers": ["kubernetes"]}
    assert obj["status"] == {"phase": "Active"}
    assert obj["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}


def test_plain_secret_strings_are_encoded() -> None:
    obj = default_builtin(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}
    )

    assert (obj["data"], obj["type"], "stringData" in obj) == ({"a": "Yg=="}, "Opaque", False)


@pytest.mark.parametrize(
    "one", [one for one in BUILTINS if one.storage], ids=lambda one: f"{one.group}/{one.kind}"
)
def test_defaults_are_stable_and_fit_the_schema(one: Any) -> None:
    obj = default_builtin({"apiVersion": one.api_version, "kind": one.kind, "metadata": {"name": "x"}})

    assert default_builtin(obj) == obj
    assert not [e for e in validate_builtin(obj, strict=True) if e.type in ("Unknown", "Decode")]


def test_a_pod_is_checked_and_defaulted_in_less_than_a_millisecond() -> None:
    obj = pod(
        containers=[
            {"name": f"c{i}", "image": "i", "env": [{"name": "A", "value": "b"}] * 10} for i in range(3)
        ]
    )
    times = []
    for _ in range(20):
        start = time.process_time()
        validate_builtin(obj, strict=True)
        default_builtin(obj)
        times.append(time.process_time() - start)

    assert min(times) < 0.001


# --- quantities ---


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), (2, 2), ("1Ki", 1024), ("1k", 1000), ("1e3", 1000), ("1.5Gi", 1.5 * 2**30), ("-1", -1)],
)
def test_quantities(text: str | int, value: float) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (1, "1"),
        ("1000m", "1"),
        ("0.5", "500m"),
        ("8000", "8k"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("1e4", "10e3"),
        ("0", "0"),
        ("-2000", "-2k"),
        ("100u", "100u"),
    ],
)
def test_quantities_are_written_in_one_way(text: str | int, written: str) -> None:
    assert canonical_quantity(text) == written


@pytest.mark.parametrize("text", ["", "x", "1kib", "1 Gi", "--1", True, "1e"])
def test_what_is_no_quantity(text: Any) -> None:
    assert not is_quantity(text)


@given(st.integers(0, 10**6), st.sampled_from(["", "m", "k", "Ki", "M", "Mi"]))
def test_more_is_more(n: int, suffix: str) -> None:
    assert parse_quantity(f"{n + 1}{suffix}") > parse_quantity(f"{n}{suffix}")
