"""Kubernetes quantities: "500m", "1Gi", 2 → exact numbers.

Source: kubernetes, apimachinery pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")
SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000 ** (i + 1)) for i, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Fraction(1024 ** (i + 1)) for i, suffix in enumerate("KMGTPE")},
}
MESSAGE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@lru_cache(maxsize=4096)
def parse_quantity(text: str | int | float) -> Fraction:
    """The exact number.

    raises   ValueError with the server's sentence
    """
    if isinstance(text, bool):
        raise ValueError(MESSAGE)
    match = QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(MESSAGE)
    number, exponent, suffix = match.groups()
    if exponent:
        return Fraction(number) * Fraction(10) ** int(exponent[1:])
    return Fraction(number) * SUFFIXES.get(suffix or "", Fraction(1))


def is_quantity(value: Any) -> bool:
    try:
        parse_quantity(value)
    except (ValueError, TypeError):
        return False
    return True
