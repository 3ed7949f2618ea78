"""Amounts as the API server writes them: 1000 shares of a GPU come back as "1k"; pure.

Source: apimachinery, pkg/api/resource/quantity.go (the canonical form takes the largest suffix that fits).
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

_QUANTITY = re.compile(r"([+-]?[0-9.]+)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?[0-9]{1,4})?", re.ASCII)
_SUFFIX = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_MOST = 2**63 - 1  # what the API server counts to


def find_quantity(text: Any) -> Decimal | None:
    """ "1500m" is 1.5, "1Ki" is 1024; None for what is no amount, or one that nobody means."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        return None
    try:
        number, suffix = Decimal(match[1]), match[2] or ""
    except ArithmeticError:
        return None
    if suffix.endswith("i"):
        return number * Decimal(1024 ** (1 + "KMGTPE".index(suffix[0])))
    if suffix in _SUFFIX:
        return number.scaleb(_SUFFIX[suffix])
    return number.scaleb(int(suffix[1:])) if suffix else number


def find_whole(text: Any) -> int | None:
    """A number of devices, 0 or more; None for anything else."""
    number = find_quantity(text)
    if number is None or not 0 <= number <= _MOST or number != number.to_integral_value():
        return None
    return int(number)
