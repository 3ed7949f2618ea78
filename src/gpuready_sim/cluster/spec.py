"""cluster.yaml: the nodes of a simulated cluster. Pure.

    nodes:
    - name: h100                       # with count: name-0, name-1, ...
      count: 2
      gpus: {H100-SXM5-80GB: 8}        # or a list of models, in slot order
      driver: {where: host, version: 570.86.10}
      kernel: 5.15.0-116-generic
      os: {id: ubuntu, version: "22.04"}
      labels: {team: ml}
      taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
      containerd: 1.7.24               # a containerd that can be configured; or
      crio: 1.34.2                     # a CRI-O; without either, no runtime answers
      cpu: 64
      memory: 512Gi
    nodeGraceSeconds: 8                # a node silent this long becomes NotReady
    podApi: 127.0.0.1:16443            # where pods find the API server: a proxy in front of it

Only `nodes` and each `name` are required. An error names the path, the value and what is allowed.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpuready_sim.apiserver.names import label_value_errors, qualified_name_errors
from gpuready_sim.apiserver.quantity import parse_quantity
from gpuready_sim.errors import SimulatorError
from gpuready_sim.hardware.catalogue import MODELS

DEFAULT_DRIVER_VERSION = "570.86.10"
DEFAULT_KERNEL = "5.15.0-116-generic"
MAX_GPUS = 32
DRIVER_PLACES = ("host", "container", "none")
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NAME_WORDS = "lower case letters, digits and '-', at most 63, as for any node"
KEY_WORDS = "a label key such as nvidia.com/gpu"
LABEL_WORDS = "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
MIN_GRACE_S = 1
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LOOPBACK_PORT = re.compile(r"127(\.\d{1,3}){3}:\d{1,5}")
_RELEASE = re.compile(r"(1\.[67]|2\.[0-3])\.\d+")
_CRIO_RELEASE = re.compile(r"1\.(2[6-9]|3\d)\.\d+")
_DRIVER_VERSION = re.compile(r"\d+(\.\d+){1,2}")

DEFAULT_CLUSTER = """\
nodes:
- name: cpu-0
- name: l4-0
  gpus: {L4: 2}
  driver: {where: host}
  containerd: 2.2.1
"""


class SpecError(SimulatorError):
    """cluster.yaml says something that cannot be built."""


@dataclass(frozen=True)
class NodeSpec:
    """One machine. `driver_version` is None unless the driver is on the host."""

    name: str
    gpus: tuple[str, ...] = ()  # catalogue keys, in slot order
    driver_where: str = "none"
    driver_version: str | None = None
    kernel: str = DEFAULT_KERNEL
    os_id: str = "ubuntu"
    os_version: str = "22.04"
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    containerd: str = ""  # release of a containerd that reads its files; "" = only its name is known
    crio: str = ""  # or of a CRI-O
    cpu: str = "16"
    memory: str = "64Gi"


@dataclass(frozen=True)
class ClusterSpec:
    """`pod_api` is "" where pods find the API server at its own address."""

    nodes: tuple[NodeSpec, ...]
    node_grace_s: float = 8.0
    pod_api: str = ""

    @classmethod
    def load(cls, path: Path) -> ClusterSpec:
        return cls.parse(read_spec(path), source=str(path))

    @classmethod
    def parse(cls, text: str, *, source: str = "cluster.yaml") -> ClusterSpec:
        """raises SpecError"""
        try:
            tree = yaml.load(text, Loader=yaml.CSafeLoader)
        except yaml.YAMLError as exc:
            raise SpecError(f"{source} is no YAML", why=_fault_of(exc), next_step="correct the file") from exc
        reader = _Reader(tree, source)
        reader.only("nodes", "nodeGraceSeconds", "podApi")
        entries = reader.list_at("nodes", required=True)
        nodes = [node for entry in entries for node in _nodes(entry)]
        if not nodes:
            raise reader.error("nodes", tree.get("nodes"), "a list with at least one node")
        _refuse_doubles(nodes, source)
        grace_s = float(reader.number_at("nodeGraceSeconds", 8, least=MIN_GRACE_S))
        return cls(tuple(nodes), grace_s, _pod_api(reader))


def _fault_of(exc: yaml.YAMLError) -> str:
    """What the parser says without the text around it."""
    mark = getattr(exc, "problem_mark", None)
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{place}{getattr(exc, 'problem', None) or exc}".replace("\n", " ")


def read_spec(path: Path) -> str:
    """raises SpecError"""
    try:
        return path.read_text()
    except (OSError, UnicodeError) as exc:
        raise SpecError(
            f"cannot read {path}",
            why=getattr(exc, "strerror", None) or str(exc),
            next_step="give --file a cluster.yaml; examples/ has some",
        ) from exc


def is_driver_version(text: str) -> bool:
    return bool(_DRIVER_VERSION.fullmatch(text))


def _pod_api(reader: _Reader) -> str:
    text = reader.text_at("podApi")
    if text and not _LOOPBACK_PORT.fullmatch(text):
        raise reader.error("podApi", text, "an address of this machine with a port, as 127.0.0.1:16443")
    return text


def _nodes(entry: _Reader) -> list[NodeSpec]:
    entry.only(
        "name",
        "count",
        "gpus",
        "driver",
        "kernel",
        "os",
        "labels",
        "taints",
        "containerd",
        "crio",
        "cpu",
        "memory",
    )
    name = entry.text_at("name")
    if not name or not _NAME.fullmatch(name):
        raise entry.error("name", name, NAME_WORDS)
    gpus = _gpus(entry)
    where, version = _driver(entry, bool(gpus))
    system = entry.child("os")
    system.only("id", "version")
    names = [f"{name}-{i}" for i in range(entry.count_at("count"))] if "count" in entry else [name]
    for one in names:
        if not _NAME.fullmatch(one):
            raise entry.error("name", one, NAME_WORDS)
    return [
        NodeSpec(
            name=one,
            gpus=gpus,
            driver_where=where,
            driver_version=version,
            kernel=entry.text_at("kernel", DEFAULT_KERNEL),
            os_id=system.text_at("id", "ubuntu"),
            os_version=system.text_at("version", "22.04"),
            labels=_labels(entry.child("labels")),
            taints=_taints(entry),
            containerd=_containerd(entry),
            crio=_crio(entry),
            cpu=entry.quantity_at("cpu", "16"),
            memory=entry.quantity_at("memory", "64Gi"),
        )
        for one in names
    ]


def _gpus(entry: _Reader) -> tuple[str, ...]:
    value = entry.get("gpus")
    if value is None:
        return ()
    if isinstance(value, Mapping):
        pairs = [(f"gpus.{model}", model, count) for model, count in value.items()]
    elif isinstance(value, list):
        pairs = [_listed_gpu(entry, i, item) for i, item in enumerate(value)]
    else:
        raise entry.error("gpus", value, "{model: count} or a list of models")
    models: list[str] = []
    for path, model, count in pairs:
        if model not in MODELS:
            known = ", ".join(MODELS)
            raise entry.error(path, model, f"one of the known models: {known}", guess=_near(model, MODELS))
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise entry.error(path, count, "a whole number, 1 or more")
        models += [str(model)] * count
    if len(models) > MAX_GPUS:
        raise entry.error("gpus", f"{len(models)} GPUs", f"at most {MAX_GPUS} in one node")
    return tuple(models)


def _listed_gpu(entry: _Reader, index: int, item: object) -> tuple[str, object, object]:
    path = f"gpus[{index}]"
    if isinstance(item, Mapping):
        reader = entry.child(path, item)
        reader.only("model", "count")
        return f"{path}.model", item.get("model"), item.get("count", 1)
    return path, item, 1


def _driver(entry: _Reader, has_gpus: bool) -> tuple[str, str | None]:
    value = entry.get("driver")
    if value is None:
        return ("host", DEFAULT_DRIVER_VERSION) if has_gpus else ("none", None)
    reader = entry.child("driver", {"where": value} if isinstance(value, str) else None)
    reader.only("where", "version")
    where = reader.text_at("where", "host")
    if where not in DRIVER_PLACES:
        raise reader.error(
            "where", where, f"one of {', '.join(DRIVER_PLACES)}", guess=_near(where, DRIVER_PLACES)
        )
    version = reader.text_at("version")
    if where != "host":
        if version:
            raise reader.error(
                "version", version, "only with where: host (a driver container brings its image's version)"
            )
        return where, None
    if version and not is_driver_version(version):
        raise reader.error("version", version, "a driver version such as 570.86.10")
    return where, version or DEFAULT_DRIVER_VERSION


def _containerd(entry: _Reader) -> str:
    release = entry.text_at("containerd")
    if release and not _RELEASE.fullmatch(release):
        raise entry.error("containerd", release, "a release such as 1.7.24 or 2.2.1")
    return release


def _crio(entry: _Reader) -> str:
    release = entry.text_at("crio")
    if release and not _CRIO_RELEASE.fullmatch(release):
        raise entry.error("crio", release, "a release such as 1.34.2, 1.26 or newer")
    if release and entry.text_at("containerd"):
        raise entry.error("crio", release, "left out where containerd is given: a node has one runtime")
    return release


def _labels(labels: _Reader) -> dict[str, str]:
    found = labels.strings()
    for key, value in found.items():
        if qualified_name_errors(key):
            raise labels.error(key, key, KEY_WORDS)
        if label_value_errors(value):
            raise labels.error(key, value, LABEL_WORDS)
    return found


def _taints(entry: _Reader) -> tuple[Mapping[str, str], ...]:
    taints: dict[tuple[str, str], Mapping[str, str]] = {}
    for reader in entry.list_at("taints"):
        taint = _taint(reader)
        key, effect = taint["key"], taint["effect"]
        if (key, effect) in taints:
            raise reader.error("key", key, f"another one: this node has a taint {key}:{effect} already")
        taints[key, effect] = taint
    return tuple(taints.values())


def _taint(taint: _Reader) -> dict[str, str]:
    taint.only("key", "value", "effect")
    key, effect = taint.text_at("key"), taint.text_at("effect", "NoSchedule")
    if qualified_name_errors(key):
        raise taint.error("key", key, KEY_WORDS)
    if effect not in TAINT_EFFECTS:
        raise taint.error(
            "effect", effect, f"one of {', '.join(TAINT_EFFECTS)}", guess=_near(effect, TAINT_EFFECTS)
        )
    value = taint.text_at("value")
    if label_value_errors(value):
        raise taint.error("value", value, LABEL_WORDS)
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def _refuse_doubles(nodes: Sequence[NodeSpec], source: str) -> None:
    seen: set[str] = set()
    for node in nodes:
        if node.name in seen:
            raise SpecError(
                f"{source}: two nodes are called {node.name}",
                why="a node's name is its identity; count: N makes name-0 to name-(N-1)",
                next_step="rename one of them",
            )
        seen.add(node.name)


class _Reader:
    """A mapping of the file that knows its own path, for errors."""

    def __init__(self, value: object, source: str, path: str = "") -> None:
        self._source = source
        self._path = path
        if not isinstance(value, Mapping):
            raise self.error("", value, "a mapping of keys to values")
        self._value: Mapping[str, Any] = value

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def get(self, key: str) -> Any:
        return self._value.get(key)

    def child(self, key: str, value: Mapping[str, Any] | None = None) -> _Reader:
        content = value if value is not None else self._value.get(key) or {}
        return _Reader(content, self._source, self._at(key))

    def only(self, *allowed: str) -> None:
        for key in self._value:
            if key not in allowed:
                raise self.error(str(key), None, f"one of {', '.join(allowed)}", guess=_near(key, allowed))

    def list_at(self, key: str, *, required: bool = False) -> list[_Reader]:
        value = self._value.get(key)
        if value is None and not required:
            return []
        if not isinstance(value, list):
            raise self.error(key, value, "a list")
        return [_Reader(item, self._source, self._at(f"{key}[{i}]")) for i, item in enumerate(value)]

    def text_at(self, key: str, default: str = "") -> str:
        value = self._value.get(key)
        if value is None:
            return default
        if isinstance(value, bool | list | Mapping):
            raise self.error(key, value, "a text")
        if isinstance(value, float):
            # 22.10 without quotes is the number 22.1: say so instead of using it.
            raise self.error(
                key, value, 'a text in quotes, such as "22.04" (without them YAML reads a number)'
            )
        return str(value)

    def strings(self) -> dict[str, str]:
        """The whole mapping, as texts."""
        for key in self._value:
            if not isinstance(key, str):
                raise self.error(str(key), key, "a text in quotes")
        return {key: self.text_at(key) for key in self._value}

    def number_at(self, key: str, default: float, *, least: float) -> float:
        value = self._value.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
            raise self.error(key, value, f"a number, {least:g} or more")
        return value

    def count_at(self, key: str) -> int:
        value = self._value.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.error(key, "nothing" if value is None else value, "a whole number, 0 or more")
        return value

    def quantity_at(self, key: str, default: str) -> str:
        """More than nothing of it."""
        value = self._value.get(key, default)
        try:
            positive = parse_quantity(str(value)) > 0
        except ValueError:
            positive = False
        if not positive:
            raise self.error(key, value, "a quantity above 0 such as 16, 500m or 64Gi")
        return str(value)

    def error(self, key: str, value: object, allowed: str, *, guess: str = "") -> SpecError:
        path = self._at(key) or "the file"
        shown = f"{path}: {value!r} is not allowed" if value is not None else f"{path} is not allowed here"
        hint = f"use {guess!r}" if guess else "correct the file"
        return SpecError(f"{self._source}: {shown}", why=f"it must be {allowed}", next_step=hint)

    def _at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path and key else self._path or key


def _near(word: object, known: Iterable[str]) -> str:
    """The known word that was probably meant: it starts so, or is spelt much alike; empty when none is."""
    text, names = str(word).lower(), {k.lower(): k for k in known}
    starting = [name for name in names if text and name.startswith(f"{text}-")]
    found = starting or difflib.get_close_matches(text, names, n=1, cutoff=0.6)
    return names[found[0]] if len(found) == 1 else ""
