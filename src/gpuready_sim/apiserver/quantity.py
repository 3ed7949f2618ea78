"""Kubernetes quantities: "500m", "1Gi", 2 → exact numbers.

Source: kubernetes, apimachinery pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

QUANTITY: Final = re.compile(r"([+-]?[0-9]*\.?[0-9]*)(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)")
# How Go takes it apart; what stands for the suffix may still be none.
SPLIT: Final = re.compile(r"[+-]?[0-9]*(\.[0-9]*)?[eEinumkKMGTP]*[-+]?[0-9]*")
SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000 ** (i + 1)) for i, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Fraction(1024 ** (i + 1)) for i, suffix in enumerate("KMGTPE")},
}
MESSAGE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_MESSAGE: Final = "unable to parse quantity's suffix"


def complaint(value: Any) -> str:
    """What the server says of a value that is no quantity; empty when it is one."""
    text = str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else "?"
    if not text or not SPLIT.fullmatch(text):
        return MESSAGE
    return "" if QUANTITY.fullmatch(text) else SUFFIX_MESSAGE


@lru_cache(maxsize=4096)
def parse_quantity(text: str | int | float) -> Fraction:
    """The exact number.

    raises   ValueError with the server's sentence
    """
    if isinstance(text, bool):
        raise ValueError(MESSAGE)
    written = str(text).strip()
    match = QUANTITY.fullmatch(written)
    if match is None or not written:
        raise ValueError(MESSAGE)
    number, exponent, suffix = match.groups()
    if not number.strip("+-."):
        return Fraction(0)  # a suffix alone
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
    written = str(text).strip()
    match = QUANTITY.fullmatch(written)
    exponent, suffix = (match[2], match[3]) if match else (None, None)
    if match and _is_kept(match[1].lstrip("+-"), exponent, suffix or ""):
        return written
    if suffix and suffix.endswith("i") and abs(value) >= 1024:
        return _scaled(value, Fraction(1024), ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    nanos = -((-value * 10**9) // 1)  # the server rounds up to what it can hold
    names = DECIMAL_EXPONENTS if exponent else DECIMAL_SUFFIXES
    return _scaled(Fraction(nanos), Fraction(1000), names)


_MOST_DIGITS: Final = 18


def _is_kept(number: str, exponent: str | None, suffix: str) -> bool:
    """Whether the server takes the text for canonical, whatever stands in front of it: +1, 5., 007."""
    whole, _, part = number.partition(".")
    whole = whole.lstrip("0") or "0"
    if suffix.endswith("i"):
        factors = 3 * (BINARY_SUFFIXES.index(suffix) + 1)
        return not part and len(whole) + factors < 15 and int(whole) % 8 != 0
    scale = int(exponent[1:]) if exponent else 3 * (DECIMAL_SUFFIXES.index(suffix) - 3)
    digits = whole + part
    return (
        len(digits) <= _MOST_DIGITS
        and scale - len(part) >= -9
        and (scale - len(part)) % 3 == 0
        and not digits.endswith("000")
        and digits[0] != "0"
    )


BINARY_SUFFIXES: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
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
