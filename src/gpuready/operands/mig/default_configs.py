"""The MIG configurations and the host's GPU programs that a policy without ConfigMaps of its own gets. Pure.

The names are the original's, so that a node label `nvidia.com/mig.config` keeps its meaning; tables and text
are ours.

Source: mig.md §4.1 and §5 (gpu-operator v26.3.3, assets/state-mig-manager).
"""

from __future__ import annotations

import functools
from typing import Any

from gpuready.yaml_text import dump_yaml

Counts = dict[str, int]

# Units that hold GPUs and are stopped around a change, where the driver is the host's.
_HOST_UNITS = (
    "nvsm",
    "nvsm-mqtt",
    "nvsm-core",
    "nvsm-api-gateway",
    "nvsm-notifier",
    "nv_peer_mem",
    "nvidia-dcgm",
    "dcgm",
    "dcgm-exporter",
)

# Instances that fill a GPU, by profile; one configuration "all-<profile>" each. A row is a family.
_UNIFORM = """
1g.5gb 7, 1g.5gb.me 1, 2g.10gb 3, 3g.20gb 2, 4g.20gb 1, 7g.40gb 1
1g.10gb.me 1, 1g.20gb 4, 2g.20gb 3, 3g.40gb 2, 4g.40gb 1, 7g.80gb 1
1g.6gb 4, 1g.6gb.me 1, 2g.12gb 2, 2g.12gb.me 1, 4g.24gb 1
1g.12gb 7, 1g.12gb.me 1, 1g.24gb 4, 2g.24gb 3, 3g.47gb 2, 4g.47gb 1, 7g.94gb 1
3g.48gb 2, 4g.48gb 1, 7g.96gb 1
1g.18gb 7, 1g.18gb.me 1, 2g.35gb 3, 3g.71gb 2, 4g.71gb 1, 7g.141gb 1
1g.36gb 4, 2g.36gb 3, 3g.72gb 2, 4g.72gb 1, 7g.144gb 1
1g.23gb 7, 1g.23gb.me 1, 1g.45gb 4, 2g.45gb 3, 3g.90gb 2, 4g.90gb 1, 7g.180gb 1
1g.47gb 4, 2g.47gb 3, 3g.93gb 2, 4g.93gb 1, 7g.186gb 1, 3g.95gb 2, 4g.95gb 1, 7g.189gb 1
1g.34gb 7, 1g.34gb.me 1, 1g.67gb 4, 2g.67gb 3, 3g.135gb 2, 4g.135gb 1, 7g.269gb 1
1g.35gb.me 1, 1g.70gb 4, 2g.70gb 3, 3g.139gb 2, 4g.139gb 1, 7g.278gb 1
1g.24gb.gfx 4, 1g.24gb.me 1, 1g.24gb.me.all 1, 1g.24gb-me 4, 2g.48gb 2, 2g.48gb.gfx 2
2g.48gb.me.all 1, 2g.48gb-me 2, 4g.96gb 1, 4g.96gb.gfx 1
"""

# PCI device ids of GPUs with one geometry.
_GB40 = ("20B0", "20B1", "20F1", "20F6")
_GB80 = ("2330", "2331", "2322", "20B2", "20B5", "20F3", "20F5", "2324")
_GB94, _GB96 = ("2321", "233A"), ("2342", "233D", "20B6", "2329")
_A30, _H200, _H200_NVL, _GH200_144 = ("20B7",), ("2335",), ("233B",), ("2348",)
_B200, _GB200, _B300, _GB300, _RTX_PRO_6000 = ("2901",), ("2941",), ("3182",), ("31C2",), ("2BB5",)

# Names that mean another layout on another model.
_BY_MODEL: dict[str, tuple[tuple[tuple[str, ...], Counts], ...]] = {
    "1g.10gb": ((_GB80, {"1g.10gb": 7}), (_GB40, {"1g.10gb": 4})),
    "1g.35gb": (((*_H200, *_H200_NVL), {"1g.35gb": 4}), (_GB300, {"1g.35gb": 7})),
    "balanced": (
        (_GB200, {"1g.23gb": 2, "2g.47gb": 1, "3g.93gb": 1}),
        (_RTX_PRO_6000, {"1g.24gb": 2, "2g.48gb": 1}),
        (_B200, {"1g.23gb": 2, "2g.45gb": 1, "3g.90gb": 1}),
        (_GH200_144, {"1g.18gb": 2, "2g.36gb": 1, "3g.72gb": 1}),
        ((*_H200, *_H200_NVL), {"1g.18gb": 2, "2g.35gb": 1, "3g.71gb": 1}),
        (_GB94, {"1g.12gb": 2, "2g.24gb": 1, "3g.47gb": 1}),
        (_GB80, {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}),
        (_GB40, {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}),
        (_A30, {"1g.6gb": 2, "2g.12gb": 1}),
        (_GB96, {"1g.12gb": 2, "2g.24gb": 1, "3g.48gb": 1}),
        (_B300, {"1g.34gb": 2, "2g.67gb": 1, "3g.135gb": 1}),
        (_GB300, {"1g.35gb": 2, "2g.70gb": 1, "3g.139gb": 1}),
    ),
}


@functools.cache
def mig_parted_yaml() -> str:
    """Text for key config.yaml: version v1, every configuration by name."""
    configs = {
        "all-disabled": [{"devices": "all", "mig-enabled": False}],
        "all-enabled": [_entry({})],
        **{f"all-{profile}": [_entry({profile: count})] for profile, count in _uniform()},
        **{f"all-{name}": [_entry(c, ids) for ids, c in rows] for name, rows in _BY_MODEL.items()},
    }
    return dump_yaml({"version": "v1", "mig-configs": dict(sorted(configs.items()))})


def _uniform() -> list[tuple[str, int]]:
    rows = [each.split() for each in _UNIFORM.replace("\n", ",").split(",") if each.strip()]
    return [(profile, int(count)) for profile, count in rows]


@functools.cache
def gpu_clients_yaml() -> str:
    """Text for key clients.yaml."""
    return dump_yaml({"version": "v1", "systemd-services": [f"{unit}.service" for unit in _HOST_UNITS]})


def _entry(counts: Counts, device_ids: tuple[str, ...] = ()) -> dict[str, Any]:
    selected = {"device-filter": [f"0x{device}10DE" for device in device_ids]} if device_ids else {}
    return {**selected, "devices": "all", "mig-enabled": True, "mig-devices": counts}
