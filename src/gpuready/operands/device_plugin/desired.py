"""Which configuration to follow, read anew each time something may have changed.

With a node agent: what it mirrored for this boot. Without one (`desired_dir` empty): CONFIG_FILE. A bad
configuration never replaces a good one: the last good stays and the error is shown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuready.errors import GPUReadyError, PolicyError
from gpuready.node.files import read_regular
from gpuready.node.root import Root
from gpuready.operands.device_plugin.config import Chosen, ConfigError, effective_of
from gpuready.operands.device_plugin.settings import Settings

FILE = "device-plugin.json"


def choose(settings: Settings, root: Root, boot: str, before: Chosen) -> Chosen:
    """Read the configuration now; `before` is the last answer: its good one outlives a bad one."""
    path = _path_of(settings, root)
    if path is None:
        return before if before.effective else Chosen(effective=effective_of(settings, {}))
    try:
        raw = read_regular(path)
    except OSError:
        return _absent(settings, path, before)
    if raw == before.raw and (before.effective or before.error):
        return before
    try:
        return _parse(settings, raw, boot, before)
    except (PolicyError, ValueError, TypeError, AttributeError, RecursionError) as exc:
        return _bad(exc, raw, before)


def _path_of(settings: Settings, root: Root) -> Path | None:
    if settings.desired_dir:
        return root.join(settings.desired_dir) / FILE
    return root.join(settings.config_file) if settings.config_file else None


def is_wanted(settings: Settings, root: Root) -> bool:
    """False while a node agent wishes nothing of us: not yet, or no more."""
    path = _path_of(settings, root)
    return not settings.desired_dir or path is None or path.exists()


def watched_paths(settings: Settings, root: Root) -> list[Path]:
    path = _path_of(settings, root)
    return [path] if path else []


def _absent(settings: Settings, path: Path, before: Chosen) -> Chosen:
    """The file may be on its way; what was good stays good."""
    if before.effective:
        return before
    what = "the node agent's answer" if settings.desired_dir else "the configuration"
    return Chosen(waiting=f"{what}: {path.name} is not there yet")


def _parse(settings: Settings, raw: bytes, boot: str, before: Chosen) -> Chosen:
    if not settings.desired_dir:
        config = parse_text(raw.decode())
        return Chosen(
            effective_of(settings, config), Path(settings.config_file).name, digest_of(raw), raw=raw
        )
    row = json.loads(raw)
    if boot and row.get("bootId") != boot:
        if before.effective:
            return before
        return Chosen(waiting="the node agent's answer for this boot: the file is of an earlier one")
    return _from_agent(settings, row, raw, before)


def _from_agent(settings: Settings, row: Mapping[str, Any], raw: bytes, before: Chosen) -> Chosen:
    error = _error_of(row.get("error"))
    name, digest = row.get("configName") or "", row.get("digest") or ""
    if row.get("config") is None and error is not None:
        return replace(before, error=error, raw=raw, waiting="")
    effective = effective_of(settings, row.get("config") or {})
    return Chosen(effective, name, digest, error, raw=raw)


def _error_of(row: Mapping[str, Any] | None) -> ConfigError | None:
    if not row:
        return None
    return ConfigError(row.get("reason", "ConfigInvalid"), row.get("message", ""), row.get("nextStep", ""))


def _bad(exc: Exception, raw: bytes, before: Chosen) -> Chosen:
    if isinstance(exc, GPUReadyError):
        message = f"{exc.what}: {exc.why}" if exc.why else exc.what
        error = ConfigError("ConfigInvalid", message, exc.next_step or "correct the configuration")
    else:
        error = ConfigError("ConfigUnreadable", f"the configuration cannot be read: {exc}", "correct it")
    return replace(before, error=error, raw=raw, waiting="")


def parse_text(text: str) -> Mapping[str, Any]:
    """A configuration as YAML (or JSON, which is YAML), held to the same rules as one from a ConfigMap.

    Imported here, since a plugin with a node agent beside it never needs a YAML parser.

    raises  PolicyError
    """
    from gpuready.api.plugin_config import parse_plugin_config

    return parse_plugin_config(text).to_json()


def digest_of(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]
