"""Bodies as they are written: YAML, broken JSON, media types, operations of JSON patches."""

from __future__ import annotations

from ..transcript import Ask, Scenario
from .words import GPU_NODES, MAPS, config_map, get, gpu_node, patch, post

A = f"{MAPS}/a"
N = f"{GPU_NODES}/$NS"
HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
JSON = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":%s}'
ANNOTATIONS = "/metadata/annotations"
MERGE = "application/merge-patch+json"


def _applied(text: str, **params: str) -> Ask:
    return Ask("PATCH", A, text, type="apply", params={"fieldManager": "yam", "force": "true", **params})


def _sent(media: str, text: str, method: str = "PUT", **params: str) -> Ask:
    return Ask(method, A, text, type=media, params=params)


def _operations(*operations: object) -> Ask:
    return patch("jsonpatch", A, list(operations))


def _op(name: str, path: object, *value: object, **more: object) -> dict[str, object]:
    return {"op": name, "path": path, **({"value": value[0]} if value else {}), **more}


SCALARS = (
    *("yes", "on", "Yes", "y", "N", "no", "OFF", "True", "tRue", "~", "Null", "nuLL", "''", "<<", "="),
    *("0x10", "0o17", "017", "08", "0b11", "1_000", "+5", "1.0", "1e3", ".5", "1.", "1e400", ".inf", "-.Inf"),
    *(".nan", "9223372036854775808", "123456789012345678901234567890", "2020-01-01", "190:20:30", "!!str 5"),
    *(
        "!!binary aGk=",
        "!custom x",
        "[a, b]",
        "{a: b}",
        "- x",
        '"\\u00e9"',
        '"\\/"',
        '"\\ud83d\\ude00"',
        "a: b",
    ),
    *("a #c", "@x", "*x", "&x y", "!", "?", "a\tb"),
)
DOCUMENTS = (
    "data:\n\tk: x\n",
    "data:\n  k: x\n   l: y\n",
    "data: &d {k: x}\nbinaryData: *d\n",
    "data: {k: z, <<: {k: x}}\n",
    "data: {<<: [{k: x}, {m: z}]}\n",
    "data: {5: x}\n",
    "data: {true: x}\n",
    "data: {1.5: x}\n",
    "data: {null: x}\n",
    "data: {[a]: x}\n",
    "data: {k: 'x\n",
    "data: {k: x\n",
    "data: *none\n",
    'data: {k: "\\q"}\n',
    "---\n{broken",
    "...\n{broken",
    "data: {k: \x07}\n",
)
TWICE = "data: {k: x, k: y}\n"
WHOLE = ("", "---\n", "null", "5", "x", "[1]", "{}", "a: b", "apiVersion: v1", "kind: ConfigMap", "# only")
BROKEN = ("", " ", "null", "5", '"x"', "{", "[]", "[1]", '{"data":{"k":"1",}}', "data: x", "{} {}")
OPERATIONS = (
    *("", "null", "5", "{", "{}", "[1]", "[null]", "[{}]", '[{"op":"add"}]', "[] x"),
    '[{"op":5,"path":"/data/k","value":"1"}]',
    '[{"op":"add","path":5,"value":"1"}]',
    '[{"op":"add","path":"/data/k","value":"1","extra":1}]',
    '[{"op":"add","op":"remove","path":"/data/k"}]',
    '[{"op":"add","path":"/data/z","value":1e400}]',
    '[{"Op":"add","path":"/data/z","value":"1"}]',
    '[{"op":null,"path":"/data/k"}]',
)
GENERATION = '[{"op":"test","path":"/metadata/generation","value":%s}]'
SOME = [post(MAPS, config_map("a", {"k": "1"}))]

SCENARIOS = [
    Scenario(
        "what is applied is YAML of an older kind, of which the first document counts",
        [
            *SOME,
            *(_applied(f"{HEAD}data: {{k: {scalar}}}\n") for scalar in SCALARS),
            *(_applied(HEAD + rest) for rest in DOCUMENTS),
            *(_applied(text) for text in WHOLE),
            _applied("apiVersion: 1\nkind: ConfigMap\n"),
            _applied("apiVersion: v1\nkind: 5\n"),
            _applied(f"%YAML 1.1\n---\n{HEAD}"),
            _applied(f"%YAML 1.2\n---\n{HEAD}"),
            _applied(f"---\n{HEAD}data: {{k: one}}\n---\n{HEAD}data: {{k: two}}\n"),
            _applied(f"---\n---\n{HEAD}"),
            _applied(f"\ufeff{HEAD}"),
            _applied(HEAD.replace("\n", "\r\n")),
            get(A),
        ],
    ),
    Scenario(
        "what is applied may be JSON, and more than that",
        [
            *SOME,
            *(
                _applied(JSON % data)
                for data in (
                    *('{"k":"1",}', '{"k":"1"} # c', "{'k':'1'}", '{k: "1"}', '{k:"1"}', '{"k":1.0}'),
                    *('{"k":"a\\/b"}', '{"k":"\\ud83d\\ude00"}', '{"k":"\\u00e9"}', '{"k":"a\tb"}'),
                )
            ),
            _applied((JSON % '{"k":"2"}').replace(",", ",\n\t")),
            _applied((JSON % '{"k":"3"}') + "trailing"),
            _applied((JSON % '{"k":"4"}') + "\n---\n{}"),
            *(
                _applied(text, fieldValidation=how)
                for text in (JSON % '{"k":"5","k":"6"}', f"{HEAD}data:\n  yes: x\n  yes: y\n  l: a\n  l: b\n")
                for how in ("Strict", "Warn", "Ignore")
            ),
            get(A),
        ],
    ),
    Scenario(
        "a media type is read as far as it goes, and no further",
        [
            *SOME,
            *(
                _sent(media, '{"data":{"k":"1"}}', "PATCH")
                for media in (
                    *(f"{MERGE}; charset=utf-8", f"{MERGE};charset=utf-16", MERGE.upper(), f"{MERGE} ;x=y"),
                    *(
                        "application/json",
                        "text/plain",
                        "application/yaml",
                        "application/apply-patch+json",
                        "*/*",
                    ),
                )
            ),
            *(
                _sent(media, JSON % '{"k":"3"}')
                for media in (
                    *(
                        "application/json; charset=latin1",
                        "Application/JSON",
                        "text/json",
                        "text/plain",
                        "*/*",
                    ),
                    *(
                        "application/json;bad",
                        "application/json; =",
                        "application/yaml;charset=utf-8",
                        "garbage",
                    ),
                    *("text/yaml", "application/x-yaml", "application/vnd.kubernetes.protobuf", MERGE),
                )
            ),
        ],
    ),
    Scenario(
        "bodies that are written otherwise than they should be",
        [
            *SOME,
            *(
                _sent(media, text, "PATCH", fieldValidation=how)
                for media in (MERGE, "application/strategic-merge-patch+json")
                for how in ("Warn", "Ignore")
                for text in BROKEN
            ),
            *(_sent("application/json", text) for text in (*BROKEN, "\ufeff{}", f"{HEAD}")),
            *(
                _sent("application/yaml", text)
                for text in (
                    "",
                    "null",
                    "[]",
                    "x",
                    "[",
                    f"{HEAD}data: {{k: yes}}\n",
                    f"{HEAD}data: {{k: x, k: y}}\n",
                )
            ),
            _sent("application/yaml", f"{HEAD}{TWICE}", fieldValidation="Strict"),
            _sent("application/yaml", f"{HEAD}nonsense: 1\n", fieldValidation="Strict"),
            _sent("application/yaml", f"{HEAD}---\nkind: x\n"),
            _sent("application/yaml", f"{HEAD}\timmutable: x\n"),
        ],
    ),
    Scenario(
        "operations of a JSON patch at their corners",
        [
            post(MAPS, config_map("a", {"k": "1"}, finalizers=["x.dev/a", "x.dev/b"])),
            *(
                _sent("application/json-patch+json", text, "PATCH", fieldValidation=how, dryRun="All")
                for how in ("Strict", "Warn", "Ignore")
                for text in OPERATIONS
            ),
            _operations(_op("move", "/metadata/finalizers/0", **{"from": "/metadata/finalizers/0"})),
            _operations(_op("move", "/metadata/finalizers/1/x", **{"from": "/metadata/finalizers/0"})),
            _operations(_op("move", "/data/k/x", **{"from": "/data/k"})),
            _operations(_op("copy", "/data/l", **{"from": ""})),
            _operations(_op("copy", "", **{"from": "/data"})),
            _operations(_op("move", "", **{"from": "/data"})),
            _operations(_op("test", "/data", {"k": "1"}), _op("add", "/data/m", "2")),
            _operations(_op("test", "/data/none", {})),
            _operations(_op("test", "/data/none", None)),
            _operations(_op("test", "", None)),
            _operations(
                _op("add", "/metadata/annotations", {"a/b": "1"}), _op("remove", "/metadata/annotations/a~1b")
            ),
            _operations(*[_op("test", "/data/k", "1")] * 10_001),
            post(GPU_NODES, gpu_node()),
            *(
                Ask(
                    "PATCH",
                    N,
                    f'[{{"op":"test","path":"/metadata/generation","value":{number}}}]',
                    type="jsonpatch",
                )
                for number in ("1", "1.0", "1e0", '"1"', "true", "null")
            ),
            patch("jsonpatch", N, [_op("remove", "/apiVersion")]),
            patch("jsonpatch", N, [_op("add", "/spec/driver", {"env": [{"value": None}]})]),
            patch("merge", N, {"spec": {"driver": {"env": [{"value": None}]}}}, fieldValidation="Strict"),
            Ask("DELETE", N),
            patch("merge", A, {"metadata": {"finalizers": None}}),
        ],
    ),
]
