"""String formats that CRD schemas may name. Unknown formats are ignored, as the API server ignores them.

Source: kube-openapi pkg/validation/strfmt, pkg/internal/third_party/govalidator.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final
from urllib.parse import urlsplit

GO_DURATION: Final = re.compile(
    r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*|0"
)
# Amounts with units anywhere in the text, however they are written.
LONG_DURATION: Final = re.compile(
    r"(?i)\d+\s*(ns|nano[a-zµ]*|us|µs|micro[a-zµ]*|ms|milli[a-zµ]*|s|sec[a-zµ]*|m|min[a-zµ]*|h|hr|hour[a-zµ]*"
    r"|d|day[a-zµ]*|w|wk|week[a-zµ]*)(?![a-zµ])"
)
TIME_OF_DAY: Final = re.compile(r"(\d{2}):(\d{2}):(\d{2})(\.\d+)?([zZ]|[+-]\d{2}:\d{2})")
HOSTNAME: Final = re.compile(
    r"(?i)[a-z0-9](-?[a-z0-9]{0,62})?|([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.)+[a-z]{2,63}"
)
EMAIL: Final = re.compile(r"([^<>]*<[^@\s<>]+@[^@\s<>]+>|[^@\s<>]+@[^@\s<>]+)")
CREDIT_CARD: Final = re.compile(
    r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}"
    r"|(2131|1800|35\d{3})\d{11}"
)
_PART: Final = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"


def fits(text: str, form: str) -> bool:
    rule = RULES.get(form)
    return rule is None or rule(text)


def _tried(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def rule(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return rule


def _matching(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _is_date(text: str) -> bool:
    return re.fullmatch(r"\d{4}-\d\d-\d\d", text) is not None and _tried(date.fromisoformat)(text)


def _is_time(text: str) -> bool:
    day, t, clock = text.lower().partition("t")
    found = TIME_OF_DAY.fullmatch(clock)
    return bool(t and _is_date(day) and found and found[1] <= "23" and found[2] <= "59" and found[3] <= "59")


def _is_uri(text: str) -> bool:
    if not text or re.search(r"[\x00-\x20\x7f]|%(?![0-9a-fA-F]{2})", text.partition("?")[0]):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _ipv4(text: str) -> bool:
    """Leading zeros do no harm, and an IPv6 address may end as one of these."""
    plain = re.sub(r"(?<![\da-fA-F])0+(?=\d)", "", text)
    return "." in text and _tried(ipaddress.ip_address)(plain)


def _cidr(text: str) -> bool:
    plain = re.sub(r"(?<![\da-fA-F:])0+(?=\d)", "", text)
    return "/" in text and _tried(lambda one: ipaddress.ip_network(one, strict=False))(plain)


def _is_mac(text: str) -> bool:
    pairs, fours = r"[0-9a-fA-F]{2}", r"[0-9a-fA-F]{4}"
    for separator in ":-":
        if re.fullmatch(
            f"{pairs}({separator}{pairs}){{5}}(({separator}{pairs}){{2}}|({separator}{pairs}){{14}})?", text
        ):
            return True
    return re.fullmatch(rf"{fours}(\.{fours}){{2}}(\.{fours}|(\.{fours}){{7}})?", text) is not None


def _is_isbn(text: str) -> bool:
    return _is_isbn10(text) or _is_isbn13(text)


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"\d{9}[\dX]", digits):
        return False
    return sum((i + 1) * (10 if one == "X" else int(one)) for i, one in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"\d{13}", digits):
        return False
    return sum(int(one) * (3 if i % 2 else 1) for i, one in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if CREDIT_CARD.fullmatch(digits) is None:
        return False
    doubled = [int(one) * (2 if i % 2 else 1) for i, one in enumerate(reversed(digits))]
    return sum(one - 9 if one > 9 else one for one in doubled) % 10 == 0


def _hostname(text: str) -> bool:
    short = len(text) <= 255 and all(len(label) <= 63 for label in text.split("."))
    return short and HOSTNAME.fullmatch(text) is not None


def _uuid(version: str = "[0-9a-f]", variant: str = "[0-9a-f]") -> Callable[[str], bool]:
    return _matching(
        rf"(?i)[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?{variant}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
    )


RULES: Final[Mapping[str, Callable[[str], bool]]] = {
    "date-time": _is_time,
    "datetime": _is_time,
    "date": _is_date,
    "duration": lambda text: bool(GO_DURATION.fullmatch(text) or LONG_DURATION.search(text)),
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
    "hostname": _hostname,
    "email": lambda text: EMAIL.fullmatch(text) is not None,
    "ipv4": _ipv4,
    "ipv6": lambda text: ":" in text and _tried(ipaddress.ip_address)(text),
    "cidr": _cidr,
    "mac": _is_mac,
    "byte": _matching(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "uri": _is_uri,
    "isbn": _is_isbn,
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": lambda text: len(text) == 11 and re.fullmatch(r"\d{3}[- ]?\d{2}[- ]?\d{4}", text) is not None,
    "hexcolor": _matching(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matching(rf"rgb\({_PART},{_PART},{_PART}\)"),
    "bsonobjectid": _matching(r"[0-9a-fA-F]{24}"),
    "k8s-short-name": lambda text: len(text) <= 63 and re.fullmatch(_LABEL, text) is not None,
    "k8s-long-name": lambda text: (
        len(text) <= 253 and re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", text) is not None
    ),
}
