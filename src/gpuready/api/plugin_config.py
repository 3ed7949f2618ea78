"""Device plugin configuration, version v1: the text of a sharing ConfigMap's key, checked; pure.

Read once by the controller; the device plugin gets the same thing as JSON, and what it would refuse is
refused here: the last good configuration then stays. Keys match whatever their case, as in the original; a
key that nobody knows is an error, because ignoring it would silently hand out whole GPUs. Only what the
original accepts and drops on purpose is dropped here too, with a warning, and flags of other versions.

Source: k8s-device-plugin v0.19.3, api/config/v1/{config,flags,replicas,resources}.go.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Annotated, Any

import msgspec

from gpuready import names
from gpuready.api.blocks import Base
from gpuready.api.doc import block, doc
from gpuready.api.openapi import Schema, schema_of
from gpuready.api.sharing_limits import MAX_REPLICAS, MIN_REPLICAS, MPS_REFUSED
from gpuready.api.validation import PolicyProblem, find_violations, problem
from gpuready.errors import PolicyError

VERSION = "v1"
MIG_STRATEGIES = ("none", "single", "mixed")
LIST_STRATEGIES = ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri")
ID_STRATEGIES = ("uuid", "index")
DISCOVERY_STRATEGIES = ("auto", "nvml", "tegra")
ALLOCATION_POLICIES = ("distributed", "packed")
MAX_RESOURCE_NAME = 63
MAX_BYTES = 256 * 1024
MAX_NODES = 10_000  # keys and values
MAX_PROBLEMS = 5  # told at once; looking for more would only cost time


class PluginFlags(Base, frozen=True, kw_only=True):
    """None: not set here, so the environment or the default counts."""

    pass_device_specs: Annotated[bool | None, doc("Hand out device nodes as well.")] = None
    device_list_strategy: Annotated[
        list[str] | None, doc("How the container learns of its GPUs; a text or a list.")
    ] = None
    device_id_strategy: Annotated[str | None, doc("What stands for a GPU.", enum=ID_STRATEGIES)] = (
        msgspec.field(name="deviceIDStrategy", default=None)
    )
    cdi_annotation_prefix: Annotated[str | None, doc("Prefix of CDI annotations.")] = None
    nvidia_ctk_path: Annotated[str | None, doc("Path of the CDI hook on the host.")] = msgspec.field(
        name="nvidiaCTKPath", default=None
    )
    container_driver_root: Annotated[str | None, doc("Where the driver root is mounted.")] = None
    shared_devices_allocation_policy: Annotated[
        str | None, doc("Which replicas are preferred.", enum=ALLOCATION_POLICIES)
    ] = None


class GfdFlags(Base, frozen=True, kw_only=True):
    oneshot: Annotated[bool | None, doc("Label once and end.")] = None
    no_timestamp: Annotated[bool | None, doc("Leave out the timestamp label.")] = None
    sleep_interval: Annotated[int | str | None, doc("Time between labellings.")] = None
    output_file: Annotated[str | None, doc("Where labels are written.")] = None
    machine_type_file: Annotated[str | None, doc("Where the machine type is read.")] = None


class Flags(Base, frozen=True, kw_only=True):
    """None: not set here, so the environment or the default counts."""

    mig_strategy: Annotated[str | None, doc("How MIG devices are offered.", enum=MIG_STRATEGIES)] = None
    fail_on_init_error: Annotated[bool | None, doc("End when NVML cannot be used.")] = None
    mps_root: Annotated[str | None, doc("MPS directory on the host.")] = None
    nvidia_driver_root: Annotated[str | None, doc("Driver root on the host.")] = None
    nvidia_dev_root: Annotated[str | None, doc("Root of the device nodes on the host.")] = None
    gdrcopy_enabled: Annotated[bool | None, doc("Hand out GDRCopy devices.")] = None
    gds_enabled: Annotated[bool | None, doc("Hand out GPUDirect Storage devices.")] = None
    mofed_enabled: Annotated[bool | None, doc("Hand out network devices.")] = None
    use_node_feature_api: Annotated[bool | None, doc("Write NodeFeature objects.")] = msgspec.field(
        name="useNodeFeatureAPI", default=None
    )
    device_discovery_strategy: Annotated[
        str | None, doc("How GPUs are found.", enum=DISCOVERY_STRATEGIES)
    ] = None
    plugin: Annotated[PluginFlags, doc("Flags of the device plugin.")] = block(PluginFlags)
    gfd: Annotated[GfdFlags, doc("Flags of GPU feature discovery.")] = block(GfdFlags)


class SharedResource(Base, frozen=True, kw_only=True):
    name: Annotated[str, doc("The resource whose devices are shared, such as nvidia.com/gpu.")]
    replicas: Annotated[
        int, doc("Pods that may share one device.", minimum=MIN_REPLICAS, maximum=MAX_REPLICAS)
    ]


class Sharing(Base, frozen=True, kw_only=True):
    rename_by_default: Annotated[bool, doc("Offer shared devices as NAME.shared.")] = False
    fail_requests_greater_than_one: Annotated[
        bool, doc("Refuse a container that asks for more than one replica.")
    ] = False
    resources: Annotated[list[SharedResource], doc("What is shared.")]

    def replicas_of(self, resource: str) -> int:
        """How many pods may share one device of `resource`; 1 when it is not shared."""
        return next((each.replicas for each in self.resources if each.name == resource), 1)

    def advertised(self, resource: str) -> str:
        """The name under which `resource` is offered."""
        renamed = self.rename_by_default and self.replicas_of(resource) > 1
        return resource + names.SHARED_SUFFIX if renamed else resource


class SharingModes(Base, frozen=True, kw_only=True):
    time_slicing: Annotated[Sharing | None, doc("Pods take turns on a device.")] = None
    mps: Annotated[Sharing | None, doc("Pods share a device through MPS; refused so far.")] = None


class Imex(Base, frozen=True, kw_only=True):
    channel_ids: Annotated[list[int], doc("IMEX channels: none, or channel 0.")] = msgspec.field(
        name="channelIDs", default_factory=list
    )
    required: Annotated[bool, doc("Fail where there is no IMEX channel.")] = False


class PluginConfig(Base, frozen=True, kw_only=True):
    version: str = VERSION
    flags: Flags = block(Flags)
    sharing: SharingModes = block(SharingModes)
    imex: Imex = block(Imex)

    @property
    def shared(self) -> Sharing | None:
        """The sharing that counts."""
        return self.sharing.time_slicing

    def to_json(self) -> dict[str, Any]:
        """JSON-ready, in the shape of the file; parses back to an equal configuration."""
        return {"version": self.version, **_without_empty_blocks(msgspec.to_builtins(self))}


class ParsedConfig(msgspec.Struct, frozen=True):
    config: PluginConfig
    warnings: tuple[str, ...] = ()  # what was accepted and dropped, one sentence each


def _without_empty_blocks(value: dict[str, Any]) -> dict[str, Any]:
    inner = {k: _without_empty_blocks(v) if isinstance(v, dict) else v for k, v in value.items()}
    return {key: each for key, each in inner.items() if each != {}}


def parse_plugin_config(text: str) -> PluginConfig:
    """The configuration in YAML or JSON; an empty text is the default configuration.

    raises PolicyError naming path, value and what is allowed, for the first problems found
    """
    return parse_with_warnings(text).config


def parse_with_warnings(text: str) -> ParsedConfig:
    """Like `parse_plugin_config`, with what was dropped on the way."""
    given = _loaded(text)
    warnings: list[str] = []
    problems = _first(_rename_keys(given, _schema(), "", warnings))
    if len(problems) < MAX_PROBLEMS:  # so every key has been looked at
        _apply_fixed_rules(given, warnings)
        problems = _first(chain(problems, _unsupported(given), find_violations(given, _schema())))
        problems = problems or _first(_rules(given))
    if problems:
        raise PolicyError(
            "; ".join(each.message for each in problems),
            why="the device plugin configuration is not valid",
            next_step="correct it in the ConfigMap; the last good configuration stays in use meanwhile",
        )
    return ParsedConfig(msgspec.convert(_without_nulls(given), PluginConfig), tuple(warnings))


def _first(problems: Iterator[PolicyProblem]) -> list[PolicyProblem]:
    return list(islice(problems, MAX_PROBLEMS))


def _loaded(text: str) -> dict[str, Any]:
    from gpuready.yaml_text import YamlError, parse_yaml

    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise PolicyError(
            f"the device plugin configuration is longer than {MAX_BYTES // 1024} KiB",
            next_step="shorten it; the last good configuration stays in use meanwhile",
        )
    try:
        given = parse_yaml(text, max_nodes=MAX_NODES)
    except YamlError as exc:
        raise PolicyError(
            f"the device plugin configuration cannot be read: {exc.what}",
            why=exc.why,
            next_step="correct it in the ConfigMap; the last good configuration stays in use meanwhile",
        ) from exc
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise PolicyError("the device plugin configuration is no map", next_step="begin with version: v1")
    return given


@functools.cache
def _schema() -> Schema:
    schema = schema_of(PluginConfig)
    flags = schema["properties"]["flags"]["properties"]["plugin"]["properties"]
    flags["deviceListStrategy"]["items"]["enum"] = list(LIST_STRATEGIES)
    return schema


# --- keys -----------------------------------------------------------------------------------------------

# Known to the original and dropped by it (renaming is switched off), so unknown to our model.
_DROPPED = {"": ("resources",), "resources": ("rename", "devices")}


def _rename_keys(value: Any, schema: Schema, path: str, warnings: list[str]) -> Iterator[PolicyProblem]:
    """Bring keys to the schema's case, in place; complain of unknown ones, drop harmless ones."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _rename_keys(item, schema.get("items", {}), f"{path}[{index}]", warnings)
    if not isinstance(value, dict) or "properties" not in schema:
        return
    known = {name.lower(): name for name in schema["properties"]}
    dropped = _DROPPED.get(_last_field(path), ())
    seen: dict[str, Any] = {}
    for key in list(value):
        where, lower = _where(path, key), str(key).lower()
        if lower in seen:
            message = f'{where}: is the same key as "{_clipped(seen[lower])}"; keep one of them'
            yield problem(where, None, "given once", message)
        seen[lower] = key
        name = known.get(lower)
        if name is not None:
            value[name] = value.pop(key)
            yield from _rename_keys(value[name], schema["properties"][name], where, warnings)
        elif lower not in dropped:
            del value[key]
            if _is_harmless(path, lower, known):
                warnings.append(f"{where}: unknown, ignored")
            else:
                yield _unknown(path, key, known)


def _is_harmless(path: str, key: str, known: Mapping[str, str]) -> bool:
    """A flag of another version, or a place for anchors; anything else could be misplaced sharing."""
    if not path:
        return key.startswith("x-")
    return path.lower().startswith("flags") and _close(key, known) is None


def _unknown(path: str, key: Any, known: Mapping[str, str]) -> PolicyProblem:
    where, close = _where(path, key), _close(str(key).lower(), known)
    if close is not None:
        meant = _where(path, close)
        return problem(where, None, meant, f'{where}: is no key; "{close}" is meant?')
    if not path and str(key).lower() in ("timeslicing", "mps"):
        return problem(where, None, "sharing", f"{where}: is no key here; it belongs under sharing")
    return problem(where, None, "", f"{where}: is no key; allowed: {', '.join(sorted(known.values()))}")


def _close(key: str, known: Mapping[str, str]) -> str | None:
    found = difflib.get_close_matches(key[:MAX_RESOURCE_NAME], known, n=1, cutoff=0.75)
    return known[found[0]] if found else None


def _where(path: str, key: Any) -> str:
    return f"{path}.{_clipped(key)}" if path else _clipped(key)


def _clipped(key: Any) -> str:
    return str(key)[:MAX_RESOURCE_NAME]


def _last_field(path: str) -> str:
    return re.sub(r"\[\d+\]$", "", path).rpartition(".")[2].lower()


def _apply_fixed_rules(given: dict[str, Any], warnings: list[str]) -> None:
    """What the original does to every configuration after reading it; source: config.go:85."""
    if _pop(given, "resources"):
        warnings.append("resources: ignored, resources cannot be renamed")
    if given.get("version") == "":
        given["version"] = VERSION
    for mode in ("timeSlicing", "mps"):
        section = (given.get("sharing") or {}).get(mode) if isinstance(given.get("sharing"), dict) else None
        resources = section.get("resources") if isinstance(section, dict) else None
        for index, entry in enumerate(resources if isinstance(resources, list) else ()):
            if isinstance(entry, dict):
                _fix_entry(entry, f"sharing.{mode}.resources[{index}]", warnings)
    plugin = (given.get("flags") or {}).get("plugin") if isinstance(given.get("flags"), dict) else None
    if isinstance(plugin, dict) and isinstance(plugin.get("deviceListStrategy"), str):
        plugin["deviceListStrategy"] = [each.strip() for each in plugin["deviceListStrategy"].split(",")]


def _fix_entry(entry: dict[str, Any], path: str, warnings: list[str]) -> None:
    name = entry.get("name")
    if isinstance(name, str) and name and "/" not in name:
        name = entry["name"] = f"nvidia.com/{name}"
    rename = _pop(entry, "rename")
    if rename and rename not in (name, f"{name}{names.SHARED_SUFFIX}"):
        warnings.append(f"{path}.rename: ignored, resources cannot be renamed")
    devices = _pop(entry, "devices")
    if devices not in (None, "all"):
        warnings.append(f"{path}.devices: ignored, all devices are shared")


def _pop(mapping: dict[str, Any], name: str) -> Any:
    key = next((key for key in mapping if str(key).lower() == name), None)
    return mapping.pop(key) if key is not None else None


# --- rules beyond the schema ----------------------------------------------------------------------------

# What a GPU, or a part of one, is offered as.
_OFFERED = re.compile(r"^nvidia\.com/(gpu|mig-[a-z0-9]([-.a-z0-9]*[a-z0-9])?)$")


def _unsupported(given: Mapping[str, Any]) -> Iterator[PolicyProblem]:
    sharing = given.get("sharing")
    if isinstance(sharing, dict) and sharing.get("mps") is not None:
        yield problem("sharing.mps", None, "absent", f"sharing.mps: {MPS_REFUSED}; use sharing.timeSlicing")


def _rules(given: Mapping[str, Any]) -> Iterator[PolicyProblem]:
    version = given.get("version", VERSION)
    if version != VERSION:
        yield problem("version", version, VERSION)
    slicing = (given.get("sharing") or {}).get("timeSlicing")
    if slicing is not None:
        yield from _resource_names(slicing["resources"], "sharing.timeSlicing.resources")
    channels = (given.get("imex") or {}).get("channelIDs") or []
    if channels not in ([], [0]):
        yield problem("imex.channelIDs", channels, "[] or [0]")


def _resource_names(resources: list[dict[str, Any]], path: str) -> Iterator[PolicyProblem]:
    seen: set[str] = set()
    for index, entry in enumerate(resources):
        name, where = entry["name"], f"{path}[{index}].name"
        if len(name) > MAX_RESOURCE_NAME or not _OFFERED.fullmatch(name):
            yield problem(where, name, "a resource of a GPU: nvidia.com/gpu or nvidia.com/mig-*")
        elif name in seen:
            yield problem(where, name, "listed once", f"{where}: {name} is listed twice")
        seen.add(name)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
