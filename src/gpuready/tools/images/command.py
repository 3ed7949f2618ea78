"""Prints the images of a policy."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from gpuready.tools.images import Pulled, images_of
from gpuready.tools.terminal import joined


def run(policy_text: str, nodes_text: str, *, own_image: str = "", output: str = "table") -> int:
    """0. raises  PolicyError, UsageError"""
    pulled, remarks = images_of(policy_text, nodes_text, own_image)
    for remark in remarks:
        sys.stderr.write(joined([f"# {remark}"]) + "\n")
    sys.stdout.write(_TEXTS[output](pulled) + "\n")
    return 0


def _table(pulled: Sequence[Pulled]) -> str:
    width = max(len(each.image) for each in pulled)
    lines = [f"{'IMAGE':{width}}  FLAVOUR   USED BY"]
    for each in pulled:
        first, *others = each.used_by
        lines.append(f"{each.image:{width}}  {each.flavour:8}  {first}")
        lines += [f"{'':{width}}  {'':8}  {other}" for other in others]
    return joined(lines)


def _json(pulled: Sequence[Pulled]) -> str:
    return json.dumps({"images": [each.to_json() for each in pulled]}, indent=2)


def _names(pulled: Sequence[Pulled]) -> str:
    return joined(each.image for each in pulled)


def _pairs(pulled: Sequence[Pulled]) -> str:
    return joined(f"{each.source} {each.image}" for each in pulled)


_TEXTS = {"table": _table, "json": _json, "names": _names, "pairs": _pairs}
