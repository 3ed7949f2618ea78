"""The chart as helm renders it, and what its tests share."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuready_sim.kubernetes import clients

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts/gpuready"
HERE = Path(__file__).parent
Object = dict[str, Any]


def helms() -> list[clients.Client]:
    return clients.find("helm")


needs_helm = pytest.mark.skipif(not helms(), reason="helm is not here; next: make clients")


def helm(
    *arguments: str, text: str = "", by: clients.Client | None = None
) -> subprocess.CompletedProcess[str]:
    """The newest helm that is here, or the one given."""
    argv = [str((by or helms()[0]).path), *arguments]
    return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60, check=False)


@functools.cache
def _template(
    values: str, apis: tuple[str, ...], namespace: str = "gpu-operator"
) -> subprocess.CompletedProcess[str]:
    served = [word for api in apis for word in ("--api-versions", api)]
    return helm("template", "gpuready", str(CHART), "-n", namespace, *served, "-f", "-", text=values)


def rendered(
    values: Mapping[str, Any] | None = None, *, apis: Iterable[str] = (), namespace: str = "gpu-operator"
) -> list[Object]:
    """The objects of a release named gpuready; `apis` are served beside Kubernetes' own."""
    done = _template(yaml.safe_dump(dict(values or {})), tuple(apis), namespace)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if document]


def refused(values: Mapping[str, Any]) -> str:
    """What helm says when it will not render these values."""
    done = _template(yaml.safe_dump(dict(values)), ())
    assert done.returncode != 0, "these values were accepted"
    return done.stderr


def only(objects: Iterable[Object], kind: str, name: str = "") -> Object:
    found = [o for o in objects if o["kind"] == kind and name in ("", o["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} objects {kind} {name}"
    return found[0]


def keys(objects: Iterable[Object]) -> set[str]:
    return {f"{o['kind']}/{o['metadata']['name']}" for o in objects}
