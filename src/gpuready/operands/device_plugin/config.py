"""The configuration that holds now: environment over configuration over defaults.

Pure. Where the configuration comes from and whether it may be used is `desired.py`'s question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuready import names
from gpuready.api.sharing_limits import MAX_REPLICAS, MIN_REPLICAS, MPS_REFUSED
from gpuready.errors import PolicyError
from gpuready.operands.device_plugin.settings import (
    DEFAULT_ANNOTATION_PREFIX,
    DEFAULT_HOOK_PATH,
    DEFAULT_LIST_STRATEGY,
    ID_STRATEGIES,
    LIST_STRATEGIES,
    MIG_STRATEGIES,
    UUID,
    Settings,
    words_of,
)


@dataclass(frozen=True)
class Effective:
    """What the daemon does now; `driver_root`, `gds`, `gdrcopy` and `mofed` None mean: find out."""

    mig_strategy: str = "none"
    fail_on_init_error: bool = True
    driver_root: str | None = None
    dev_root: str | None = None
    strategies: tuple[str, ...] = DEFAULT_LIST_STRATEGY
    id_strategy: str = UUID
    pass_device_specs: bool = False
    annotation_prefix: str = DEFAULT_ANNOTATION_PREFIX
    hook_path: str = DEFAULT_HOOK_PATH
    replicas: int = 1
    rename_by_default: bool = False
    one_each: bool = False
    gds: bool | None = None
    gdrcopy: bool | None = None
    mofed: bool | None = None
    imex_channels: tuple[int, ...] = ()
    imex_required: bool = False


@dataclass(frozen=True)
class ConfigError:
    reason: str
    message: str
    next_step: str = ""

    def to_json(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "nextStep": self.next_step}


@dataclass(frozen=True)
class Chosen:
    """effective  what to do, None: nothing yet, do not register; error  what is wrong with what was asked.

    raw  the text that `effective` was made of, to see a change without parsing
    """

    effective: Effective | None = None
    name: str = ""
    digest: str = ""
    error: ConfigError | None = None
    waiting: str = ""
    raw: bytes = b""


def effective_of(settings: Settings, config: Mapping[str, Any]) -> Effective:
    """Resolve one setting after the other.

    config  a plugin configuration, version v1; {} for none
    raises  PolicyError naming the path, the value and what is allowed

    Source: k8s-device-plugin v0.19.3, api/config/v1/{flags,config,replicas}.go.
    """
    _check_version(config)
    flags = _mapping(config, "flags")
    plugin = _mapping(flags, "plugin")
    sharing, imex = _sharing_of(_mapping(config, "sharing")), _mapping(config, "imex")
    return Effective(
        mig_strategy=_word(_pick(settings.mig_strategy, flags.get("migStrategy"), "none"), MIG_STRATEGIES),
        fail_on_init_error=bool(_pick(settings.fail_on_init_error, flags.get("failOnInitError"), True)),
        driver_root=_pick(settings.driver_root, flags.get("nvidiaDriverRoot"), None),
        dev_root=_pick(settings.dev_root, flags.get("nvidiaDevRoot"), None),
        strategies=_strategies(_pick(settings.device_list_strategy, plugin.get("deviceListStrategy"), None)),
        id_strategy=_word(
            _pick(settings.device_id_strategy, plugin.get("deviceIDStrategy"), UUID), ID_STRATEGIES
        ),
        pass_device_specs=bool(_pick(settings.pass_device_specs, plugin.get("passDeviceSpecs"), False)),
        annotation_prefix=_pick(
            settings.cdi_annotation_prefix, plugin.get("cdiAnnotationPrefix"), DEFAULT_ANNOTATION_PREFIX
        ),
        hook_path=_pick(settings.cdi_hook_path, plugin.get("nvidiaCTKPath"), DEFAULT_HOOK_PATH),
        replicas=sharing.replicas,
        rename_by_default=sharing.rename_by_default,
        one_each=sharing.one_each,
        gds=_pick(settings.gds, flags.get("gdsEnabled"), None),
        gdrcopy=_pick(settings.gdrcopy, flags.get("gdrcopyEnabled"), None),
        mofed=_pick(settings.mofed, flags.get("mofedEnabled"), None),
        imex_channels=_channels(_pick(settings.imex_channels, imex.get("channelIDs"), None)),
        imex_required=bool(_pick(settings.imex_required, imex.get("required"), False)),
    )


def _channels(value: Any) -> tuple[int, ...]:
    """Source: k8s-device-plugin v0.19.3, api/config/v1/imex.go: none, or channel 0."""
    channels = [str(each) for each in value or ()]
    if channels not in ([], ["0"]):
        raise PolicyError(f"imex.channelIDs: {value!r}", why="allowed are [] and [0]")
    return tuple(int(each) for each in channels)


@dataclass(frozen=True)
class _Sharing:
    replicas: int = 1
    rename_by_default: bool = False
    one_each: bool = False


def _sharing_of(sharing: Mapping[str, Any]) -> _Sharing:
    if sharing.get("mps") is not None:
        raise PolicyError(
            "sharing.mps is set",
            why=MPS_REFUSED,
            next_step="use sharing.timeSlicing",
        )
    slicing = _mapping(sharing, "timeSlicing")
    for resource in slicing.get("resources") or []:
        if resource.get("name") == names.GPU_RESOURCE:
            return _Sharing(
                replicas=_replicas(resource),
                rename_by_default=bool(slicing.get("renameByDefault")),
                one_each=bool(slicing.get("failRequestsGreaterThanOne")),
            )
    return _Sharing()


def _replicas(resource: Mapping[str, Any]) -> int:
    value = resource.get("replicas")
    if not isinstance(value, int) or isinstance(value, bool) or not MIN_REPLICAS <= value <= MAX_REPLICAS:
        raise PolicyError(
            f"sharing.timeSlicing.resources[{names.GPU_RESOURCE}].replicas: {value!r}",
            why=f"it must be a whole number from {MIN_REPLICAS} to {MAX_REPLICAS}",
        )
    return value


def _check_version(config: Mapping[str, Any]) -> None:
    version = config.get("version") or "v1"
    if version != "v1":
        raise PolicyError(f"version: {version!r}", why="only v1 is known")


def _strategies(value: Any) -> tuple[str, ...]:
    if value is None or value == [] or value == "":
        return DEFAULT_LIST_STRATEGY
    words = words_of(value) if isinstance(value, str) else tuple(value)
    return tuple(_word(word, LIST_STRATEGIES) for word in words)


def _word(value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise PolicyError(f"the value {value!r}", why=f"allowed are {', '.join(allowed)}")
    return str(value)


def _mapping(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise PolicyError(f"{key}: {value!r}", why="it must be a mapping")
    return value


def _pick(from_env: Any, from_config: Any, default: Any) -> Any:
    if from_env is not None:
        return from_env
    return default if from_config is None else from_config
