"""What the control plane wants of this node: GPUNode.spec as values.

Pure, and lenient: the API server has validated the object; a field that is missing means "not said".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuready.chain import device_plugin
from gpuready.chain.device_plugin import Problem
from gpuready.node.desired import Desired, Source

PLUGIN, TOOLKIT = "device-plugin", "toolkit"


@dataclass(frozen=True)
class Wishes:
    """driver_enabled, plugin and gates are None while nobody has said anything.

    original_plugin   NVIDIA's device plugin is to offer the GPUs, not ours
    toolkit_wanted    None while nobody has said: a toolkit that works is then left alone
    gates             False: NVIDIA's validator writes them, and it alone
    proves_cuda       a program may be run on GPUs; None while nobody has said
    """

    driver_enabled: bool | None = None
    driver_trouble: Problem | None = None
    driver_kept_away: Problem | None = None
    plugin_enabled: bool = False
    original_plugin: bool = False
    plugin_refused: Problem | None = None
    plugin_kept_away: Problem | None = None
    toolkit_kept_away: Problem | None = None
    plugin: Desired | None = None
    toolkit_wanted: bool | None = None
    toolkit: Desired | None = None
    original_toolkit: bool = False
    feature_labels: bool = False
    gates: bool | None = None
    proves_cuda: bool | None = None
    uninstall: bool = False


def wishes_of(spec: Mapping[str, Any] | None, *, generation: int, boot_id: str) -> Wishes:
    """None = there is no GPUNode: nothing is wanted yet."""
    if spec is None:
        return Wishes()
    driver, plugin = spec.get("driver") or {}, spec.get("devicePlugin") or {}
    return Wishes(
        driver_enabled=bool(driver.get("enabled", True)),
        driver_trouble=Problem.from_json(driver.get("trouble")),
        driver_kept_away=Problem.from_json(driver.get("keptAway")),
        plugin_enabled=bool(plugin.get("enabled")),
        original_plugin=bool(plugin.get("original")),
        plugin_refused=Problem.from_json(plugin.get("refused")),
        plugin_kept_away=Problem.from_json(plugin.get("keptAway")),
        toolkit_kept_away=Problem.from_json((spec.get("toolkit") or {}).get("keptAway")),
        plugin=_plugin_of(plugin, generation, boot_id),
        toolkit_wanted=bool((spec.get("toolkit") or {}).get("enabled")),
        toolkit=_toolkit_of(spec.get("toolkit") or {}, generation, boot_id),
        original_toolkit=bool((spec.get("toolkit") or {}).get("original")),
        feature_labels=bool((spec.get("featureLabels") or {}).get("enabled")),
        gates=bool((spec.get("gates") or {}).get("enabled", True)),
        proves_cuda=bool((spec.get("cuda") or {}).get("enabled", True)),
        uninstall=bool(spec.get("uninstall")),
    )


def last_known(wish: Desired | None, *, boot_id: str) -> Wishes:
    """What we knew before the API server went away: our plugin runs, and waits for our gates."""
    if wish is None:
        return Wishes()
    return Wishes(plugin_enabled=True, plugin=for_boot(wish, boot_id), feature_labels=False, gates=True)


def for_boot(wish: Desired, boot_id: str) -> Desired:
    return Desired(
        operand=wish.operand,
        boot_id=boot_id,
        generation=wish.generation,
        source=Source.LAST_KNOWN,
        config=wish.config,
        error=wish.error,
        config_name=wish.config_name,
        digest=wish.digest,
    )


def for_judgement(wishes: Wishes) -> device_plugin.Desired | None:
    """The part that the device plugin's link looks at."""
    if wishes.plugin is None:
        return None
    return device_plugin.Desired(
        enabled=wishes.plugin_enabled,
        original=wishes.original_plugin,
        refused=wishes.plugin_refused,
        kept_away=wishes.plugin_kept_away,
        has_config=wishes.plugin.config is not None,
        error=Problem.from_json(wishes.plugin.error),
        config_name=wishes.plugin.config_name,
    )


def _plugin_of(plugin: Mapping[str, Any], generation: int, boot_id: str) -> Desired:
    config = plugin.get("config")
    return Desired(
        operand=PLUGIN,
        boot_id=boot_id,
        generation=int(plugin.get("generation") or generation),
        config=dict(config) if config is not None else None,
        error=plugin.get("error") or None,
        config_name=str(plugin.get("configName") or ""),
        digest=str(plugin.get("configDigest") or ""),
    )


def _toolkit_of(toolkit: Mapping[str, Any], generation: int, boot_id: str) -> Desired | None:
    if not toolkit.get("enabled"):
        return None
    told = {key: toolkit.get(key) for key in ("restart", "grant", "heldBy")}
    config = {key: value if isinstance(value, str) else "" for key, value in told.items()}
    return Desired(operand=TOOLKIT, boot_id=boot_id, generation=generation, config=config)
