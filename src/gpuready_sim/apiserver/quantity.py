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


@lru_cache(maxsize=4096)
def canonical_quantity(text: str | int | float) -> str:
    """The quantity as the server writes it: 1000m is 1, 0.5 is 500m, 1024Mi is 1Gi, 8000 is 8k.

    raises   ValueError with the server's sentence
    """
    value = parse_quantity(text)
    match = QUANTITY.fullmatch(str(text))
    exponent, suffix = (match[2], match[3]) if match else (None, None)
    if suffix and suffix.endswith("i") and abs(value) >= 1024:
        return _scaled(value, Fraction(1024), ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    nanos = -((-value * 10**9) // 1)  # the server rounds up to what it can hold
    names = DECIMAL_EXPONENTS if exponent else DECIMAL_SUFFIXES
    return _scaled(Fraction(nanos), Fraction(1000), names)


DECIMAL_SUFFIXES: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
DECIMAL_EXPONENTS: Final = ("e-9", "e-6", "e-3", "", "e3", "e6", "e9", "e12", "e15", "e18")


def _scaled(value: Fraction, base: Fraction, names: tuple[str, ...]) -> str:
    """The number with the largest unit that leaves it whole."""
    if value == 0:
        return "0"
    unit = 0
    while unit + 1 < len(names) and (value / base).denominator == 1:
        value /= base
        unit += 1
    return f"{-((-value) // 1)}{names[unit]}"
