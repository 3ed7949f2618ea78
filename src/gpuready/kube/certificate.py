"""What is wrong with a certificate, in words: ours before the server refuses it, or the server's.

Just enough of X.509 to say until when one is valid.
"""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from datetime import UTC, datetime

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME, _GENERALIZED_TIME = 0xA0, 0x17, 0x18


# OpenSSL's numbers for what it does not accept, X509_V_ERR_…
_NOT_YET_VALID, _EXPIRED, _OTHER_NAME, _OTHER_ADDRESS = 9, 10, 62, 64
LOOK_S = 5.0


def find_not_after(pem: bytes) -> datetime | None:
    """End of validity of the first certificate in `pem`; None when it cannot be read.

    Source: RFC 5280, section 4.1: TBSCertificate.validity.notAfter.
    """
    match = _PEM.search(pem)
    try:
        return _not_after_of(base64.b64decode(match.group(1))) if match else None
    except ValueError:
        return None


async def why_untrusted(error: Exception, host: str, port: int, name: str) -> tuple[str, str]:
    """(why, next step) of a server whose certificate was not accepted; looks at the certificate once more.

    name  by which the server should know itself
    """
    said = getattr(error, "verify_message", "") or str(error)
    code = getattr(error, "verify_code", 0)
    if code in (_OTHER_NAME, _OTHER_ADDRESS):
        step = "use an address that its certificate names, or set tls-server-name to a name that it has"
        return f"its certificate is for other names: {said}", step
    if code == _NOT_YET_VALID:
        return "its certificate is not valid yet", f"correct this machine's clock: it says {_now_text()}"
    if code == _EXPIRED:
        return await _why_expired(host, port, name)
    return f"its certificate is not trusted: {said}", (
        "check that the address is this cluster's; if its CA was replaced, fetch a new kubeconfig "
        "(in a pod: delete the pod, so that it gets the new CA)"
    )


async def _why_expired(host: str, port: int, name: str) -> tuple[str, str]:
    ended = await _find_end(host, port, name)
    clock = f"this machine's clock says {_now_text()}"
    step = "renew the API server's certificate (kubeadm certs renew apiserver), or correct the clock"
    if ended is None:
        return f"its certificate has expired; {clock}", step
    if ended > datetime.now(UTC):
        return "a certificate of the CA that signed its own has expired", "renew the cluster's CA"
    return f"its certificate was valid until {time_text(ended)}; {clock}", step


async def _find_end(host: str, port: int, name: str) -> datetime | None:
    """Of whatever certificate is shown there; nothing is sent to it."""
    anything = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anything.check_hostname, anything.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(LOOK_S):
            _, writer = await asyncio.open_connection(host, port, ssl=anything, server_hostname=name)
            der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.close()
    except (OSError, TimeoutError):
        return None
    return _not_after_of(der or b"")


def time_text(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _now_text() -> str:
    return time_text(datetime.now(UTC))


def _not_after_of(der: bytes) -> datetime | None:
    try:
        _, certificate, _ = _element(der)
        _, to_be_signed, _ = _element(certificate)
        return _time_of(_validity(to_be_signed))
    except (ValueError, IndexError, KeyError):
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
