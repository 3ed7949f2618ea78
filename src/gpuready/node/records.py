"""What a daemon's record must look like for its readers: the node agent, and the daemon after a restart.

Everybody who may write in /run/gpuready may spoil one, and an older version leaves some fields out.
"""

from __future__ import annotations

from gpuready.shape import Needed

_PROBLEM = {"reason": str, "message": str, "nextStep": str, "evidence": [str]}
_DEVICE = {
    "uuid": str,
    "index": int,
    "minor": int,
    "product": str,
    "memoryMib": int,
    "pciAddress": str,
    "numaNode": int,
    "health": str,
    "reason": str,
    "message": str,
    "recovery": str,
    "lastXid": Needed({"code": int, "time": str, "action": str}, ("code", "time", "action")),
    "replicas": int,
}
_REPEATED = {"resource": str, "device": str, "ids": [str], "time": str}
PLUGIN_RECORD = {
    "bootId": str,
    "registered": bool,
    "resources": [
        Needed({"name": str, "devices": int, "healthy": int}, ("name", "devices", "healthy")),
    ],
    "devices": [Needed(_DEVICE, ("uuid", "index", "product", "memoryMib"))],
    "config": {"name": str, "error": _PROBLEM},
    "problem": _PROBLEM,
    "cdi": {"driverVersion": str},
    "strategies": [str],
    "absent": [str],
    "allocations": {"count": int, "repeated": [Needed(_REPEATED, ("resource", "ids", "time"))]},
}

# Of a daemon that no link of the chain speaks for: what it says of itself, shown in GPUNode.status.operands.
OPERAND_RECORD = Needed(
    {
        "bootId": str,
        "state": str,
        "reason": str,
        "message": str,
        "details": [str],
        "nextStep": str,
    },
    ("state", "reason"),
)
_REPAIRED = Needed({"time": str, "files": [str], "keys": [str]}, ("time", "files", "keys"))
_REQUEST = Needed({"kind": str, "id": str, "reason": str}, ("kind", "id"))
TOOLKIT_RECORD = {
    "bootId": str,
    "runtime": {"name": str, "layout": str, "version": str, "config": str, "socket": str},
    "whole": bool,
    "handlers": [str],
    "programs": [str],
    "cdi": bool,
    "lacks": [str],
    "notes": [str],
    "specs": [str],
    "problem": _PROBLEM,
    "request": _REQUEST,
    "repaired": _REPAIRED,
    "restarts": int,
}
