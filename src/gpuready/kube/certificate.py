"""Until when a client certificate is valid: just enough of X.509 to say so before the server refuses it."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME, _GENERALIZED_TIME = 0xA0, 0x17, 0x18


def find_not_after(pem: bytes) -> datetime | None:
    """End of validity of the first certificate in `pem`; None when it cannot be read.

    Source: RFC 5280, section 4.1: TBSCertificate.validity.notAfter.
    """
    match = _PEM.search(pem)
    if match is None:
        return None
    try:
        der = base64.b64decode(match.group(1))
        _, certificate, _ = _element(der)
        _, to_be_signed, _ = _element(certificate)
        return _time_of(_validity(to_be_signed))
    except (ValueError, IndexError):
        return None


def _validity(to_be_signed: bytes) -> bytes:
    tag, _, rest = _element(to_be_signed)
    skipped = 3 if tag == _VERSION else 2  # [version,] serial number, signature algorithm, issuer
    for _ in range(skipped):
        _, _, rest = _element(rest)
    _, validity, _ = _element(rest)
    return validity


def _time_of(validity: bytes) -> datetime:
    _, _, rest = _element(validity)
    tag, value, _ = _element(rest)
    form = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}[tag]
    return datetime.strptime(value.decode(), form).replace(tzinfo=UTC)


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Tag, content and what follows of the first DER element."""
    tag, length, start = data[0], data[1], 2
    if length & 0x80:
        count = length & 0x7F
        length, start = int.from_bytes(data[2 : 2 + count], "big"), 2 + count
    if start + length > len(data):
        raise ValueError("truncated DER")
    return tag, data[start : start + length], data[start + length :]
