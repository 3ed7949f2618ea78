"""How bodies are read: numbers, times, YAML, values of the wrong type, all in the words of Go."""

from __future__ import annotations

import pytest

from gpuready_sim.apiserver import go_time, restoring, yaml_bodies
from gpuready_sim.apiserver.go_values import Whole, decode, plain, shortest, syntax
from gpuready_sim.apiserver.quantity import canonical_quantity
from gpuready_sim.apiserver.schemas import misfit, schema_of


def _pod(**container: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1e6, "1e+06"),
        (100000.0, "100000"),
        (1.5e-7, "1.5e-07"),
        (0.001, "0.001"),
        (2.0**63, "9.223372036854776e+18"),
    ],
)
def test_floats_are_printed_with_as_few_digits_as_tell_them_apart(number: float, text: str) -> None:
    assert shortest(number) == text


def test_values_are_printed_as_go_would_have_them_typed() -> None:
    assert syntax({"b": [1, None], "a": "x"}) == (
        'map[string]interface {}{"a":"x", "b":[]interface {}{1, interface {}(nil)}}'
    )


def test_a_number_keeps_its_text_until_it_is_worth_something() -> None:
    read = decode(b'[1.0, 9223372036854775808, 1.5, 7, "\\ud800"]')

    assert read[0].text == "1.0"
    assert plain(read[:4]) == [1, 9223372036854775808, 1.5, 7]
    assert [isinstance(one, Whole) for one in plain(read[:4])] == [True, True, False, False]
    assert read[4] == "\ufffd"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2026-01-01T00:00:00.5+02:00", ""),
        ("2026-13-01T00:00:00Z", 'parsing time "2026-13-01T00:00:00Z": month out of range'),
        ("2026-02-30T00:00:00Z", 'parsing time "2026-02-30T00:00:00Z": day out of range'),
        (
            "2026-01-01",
            'parsing time "2026-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"',
        ),
        (
            'é"',
            'parsing time "\\xc3\\xa9\\"" as "2006-01-02T15:04:05Z07:00": '
            'cannot parse "\\xc3\\xa9\\"" as "2006"',
        ),
    ],
)
def test_a_time_is_refused_at_the_part_that_does_not_fit(text: str, why: str) -> None:
    assert go_time.complaint(text) == why


@pytest.mark.parametrize(
    ("container", "why"),
    [
        (
            {"livenessProbe": {"httpGet": {"port": 1.5}}},
            "json: cannot unmarshal number 1.5 into Go struct field "
            "HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
        ),
        (
            {"resources": {"limits": "x"}},
            "json: cannot unmarshal string into Go struct field "
            "ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
        ),
        ({"name": 5, "resources": {"limits": {"cpu": "1mm"}}}, "unable to parse quantity's suffix"),
        ({"name": "a", "ports": [{"containerPort": 80}]}, ""),
    ],
    ids=[
        "through an embedded struct",
        "a named type",
        "a type that reads itself comes first",
        "nothing wrong",
    ],
)
def test_a_value_of_the_wrong_type_is_named_as_in_go(container: dict[str, object], why: str) -> None:
    assert misfit(_pod(**container)) == why


def test_a_map_is_restored_with_its_numbers_converted() -> None:
    schema = schema_of("", "v1", "Pod")
    assert schema is not None

    made = restoring.restored(_pod(ports=[{"containerPort": 80.0, "hostPort": 2**32 + 1}]), schema)

    assert made["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 1}]


@pytest.mark.parametrize(
    ("container", "why"),
    [
        ({"name": 5}, "cannot convert int64 to string"),
        ({"name": True}, "unrecognized type: string"),
        ({"ports": "x"}, "cannot restore slice from string"),
        ({"resources": []}, "cannot restore struct from: slice"),
        ({"ports": [{"containerPort": 1.5}]}, "cannot convert float64 to int32"),
    ],
)
def test_what_has_no_place_in_its_struct_is_not_restored(container: dict[str, object], why: str) -> None:
    schema = schema_of("", "v1", "Pod")
    assert schema is not None

    with pytest.raises(restoring.Unrestorable, match=f"^{why}$"):
        restoring.restored(_pod(**container), schema)


def test_yaml_is_that_of_go_yaml() -> None:
    text = b"a: [yes, 0o17, 08, 1_000, 1.0, 1e400, ~, 2020-01-01, '5']\n<<: &m {b: x}\nc: *m\n---\n{broken"

    assert yaml_bodies.parse(text) == {
        "a": [True, 15, 8, 1000, 1, "1e400", None, "2020-01-01", "5"],
        "b": "x",
        "c": {"b": "x"},
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: .inf", "json: unsupported value: +Inf"),
        ('a: "\\/"', "yaml: found unknown escape character"),
        ("a: *b", "yaml: unknown anchor 'b' referenced"),
        ("%YAML 1.2\n---\na: b", "yaml: found incompatible YAML document"),
        ("a: {b: c\n", "yaml: line 1: did not find expected ',' or '}'"),
        ("{null: a}", 'unsupported map key of type: %!s(<nil>), key: <nil>, value: "a"'),
    ],
)
def test_yaml_that_is_no_json_is_refused(text: str, why: str) -> None:
    with pytest.raises(yaml_bodies.Unreadable) as caught:
        yaml_bodies.parse(text.encode())

    assert str(caught.value) == why


def test_keys_that_are_said_twice_are_named_with_their_lines() -> None:
    assert yaml_bodies.said_twice(b"a: {yes: 1,\n  on: 2}\na: 3\n") == [
        "line 2: key true already set in map",
        'line 3: key "a" already set in map',
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("+1", "+1"),
        ("5.", "5."),
        ("007", "007"),
        ("1.5", "1500m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        (" 2 ", "2"),
    ],
)
def test_a_quantity_that_is_canonical_behind_its_sign_is_kept(text: str, shown: str) -> None:
    assert canonical_quantity(text) == shown
