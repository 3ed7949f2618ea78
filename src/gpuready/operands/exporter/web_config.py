"""TLS and basic authentication by the file that Prometheus' exporters share (exporter-toolkit).

Unknown fields are refused, as there: a misspelt `basic_auth_users` would leave the door open.

Source: exporter-toolkit, docs/web-configuration.md.
"""

from __future__ import annotations

import asyncio
import base64
import ctypes
import hashlib
import hmac
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuready.errors import UsageError
from gpuready.node.files import read_regular

_TLS_FIELDS = {
    "cert_file",
    "key_file",
    "client_auth_type",
    "client_ca_file",
    "client_allowed_sans",
    "min_version",
    "max_version",
    "cipher_suites",
    "prefer_server_cipher_suites",
    "curve_preferences",
}
_VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
_CLIENTS = {
    "": ssl.CERT_NONE,
    "NoClientCert": ssl.CERT_NONE,
    "RequestClientCert": ssl.CERT_NONE,  # asked for and never looked at: no difference to the client
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_BCRYPT = re.compile(r"\$2[abxy]?\$(\d\d)\$")
_HIGHEST_COST = 16  # about four seconds
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = ("content-length", "content-type", "content-encoding", "connection", "transfer-encoding")
_NOT_HERE = ("client_allowed_sans", "cipher_suites", "curve_preferences")  # Python's names for them differ
# Verified when the name is unknown, so that a guess at names takes as long as a guess at passwords.
_NOBODY = "$2b$10$abcdefghijklmnopqrstuuj7m4XYqbm74SxoBcXyw8to0CQ061DVG"


@dataclass(frozen=True)
class WebConfig:
    """users: name -> bcrypt hash. headers: sent with every answer."""

    tls: Mapping[str, Any] | None = None
    users: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def load(path: Path) -> WebConfig:
    """raises  UsageError that names file, field and what is allowed"""
    from gpuready import yaml_text

    try:
        raw = yaml_text.parse_yaml(read_regular(path).decode(), source=str(path)) or {}
    except (OSError, UnicodeDecodeError) as exc:
        raise _wrong(path, getattr(exc, "strerror", None) or str(exc)) from exc
    _only(path, raw, {"tls_server_config", "http_server_config", "basic_auth_users"}, "the file")
    tls = raw.get("tls_server_config")
    if tls is not None:
        _only(path, tls, _TLS_FIELDS, "tls_server_config")
        tls = {**tls, "folder": path.parent}
    http = raw.get("http_server_config") or {}
    _only(path, http, {"http2", "headers"}, "http_server_config")
    users = raw.get("basic_auth_users") or {}
    _only(path, users, None, "basic_auth_users")
    for name, hashed in users.items():
        match = _BCRYPT.match(str(hashed))
        if match is None:
            raise _wrong(path, f"the password of {name} is no bcrypt hash", "htpasswd -nBC 10 NAME makes one")
        if int(match[1]) > _HIGHEST_COST:
            why = f"the password of {name} has the cost {match[1]}: each look at it would take minutes"
            raise _wrong(path, why, f"make it anew with a cost of at most {_HIGHEST_COST}")
    _only(path, http.get("headers") or {}, None, "headers")
    for name, value in (http.get("headers") or {}).items():
        if not _TOKEN.fullmatch(str(name)) or not str(value).isprintable():
            raise _wrong(path, f"the header {str(name)!r} cannot be sent")
        if str(name).lower() in _OURS:
            raise _wrong(path, f"the header {name} is the server's own", "remove it")
    headers = {str(name): str(value) for name, value in (http.get("headers") or {}).items()}
    return WebConfig(tls, {str(name): str(hashed) for name, hashed in users.items()}, headers)


def tls_context(config: WebConfig, path: Path) -> ssl.SSLContext | None:
    """None without tls_server_config. raises UsageError"""
    tls = config.tls
    if tls is None:
        return None
    for name in _NOT_HERE:
        if tls.get(name):
            raise _wrong(path, f"{name} is not supported here", f"remove {name}")
    kind = str(tls.get("client_auth_type") or "")
    if kind not in _CLIENTS:
        raise _wrong(path, f"client_auth_type {kind} is not supported here; use {', '.join(_CLIENTS)[2:]}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.minimum_version = _VERSIONS[str(tls.get("min_version") or "TLS12")]
        if tls.get("max_version"):
            context.maximum_version = _VERSIONS[str(tls["max_version"])]
        renew_certificate(context, tls)
        if tls.get("client_ca_file"):
            context.load_verify_locations(_regular(tls, "client_ca_file"))
    except KeyError as exc:
        raise _wrong(path, f"TLS version {exc}; allowed are {', '.join(_VERSIONS)}") from exc
    except (OSError, ssl.SSLError) as exc:
        raise _wrong(path, f"certificate, key or CA: {exc.strerror or exc}") from exc
    except (ValueError, TypeError) as exc:
        raise _wrong(path, f"certificate, key or CA: {exc}") from exc
    context.verify_mode = _CLIENTS[kind]
    return context


def renew_certificate(context: ssl.SSLContext, tls: Mapping[str, Any]) -> None:
    """Connections from now on get the certificate that lies there now. raises OSError, ssl.SSLError"""
    context.load_cert_chain(_regular(tls, "cert_file"), _regular(tls, "key_file"))


def _regular(tls: Mapping[str, Any], field: str) -> Path:
    """Where the file lies; OpenSSL would wait for ever for one that is a pipe. raises OSError, ValueError"""
    path: Path = tls["folder"] / str(tls.get(field))
    read_regular(path)
    return path


class Door:
    """Checks the Authorization header; a password once found right is not worked out again."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self._known: set[bytes] = set()
        self._one_at_a_time = asyncio.Lock()  # bcrypt is slow on purpose: a flood must not take every core

    async def allows(self, authorization: str) -> bool:
        name, password = _credentials(authorization)
        if not name:
            return False
        hashed = self._users.get(name, "")
        mark = hashlib.sha256("\0".join((name, password, hashed)).encode()).digest()
        if mark in self._known:
            return True
        async with self._one_at_a_time:
            is_right = await asyncio.to_thread(is_password, password, hashed or _NOBODY)
        if is_right and hashed:
            self._known.add(mark)
        return is_right and bool(hashed)


def is_password(password: str, hashed: str) -> bool:
    """bcrypt, by the C library's own crypt(3).

    raises  UsageError where that library knows no bcrypt
    """
    crypt = _crypt()
    crypt.restype, crypt.argtypes = ctypes.c_char_p, [ctypes.c_char_p, ctypes.c_char_p]
    made: bytes | None = crypt(password.encode().split(b"\0")[0][:72], hashed.encode())
    return made is not None and hmac.compare_digest(made, hashed.encode())


def _crypt() -> Any:
    for name in ("libcrypt.so.1", "libcrypt.so.2", None):
        try:
            return ctypes.CDLL(name).crypt
        except (OSError, AttributeError):
            continue
    raise UsageError("basic_auth_users cannot be checked", why="this image has no libcrypt")


def _credentials(authorization: str) -> tuple[str, str]:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:  # neither base64 nor text
        return "", ""
    return name, password


def _only(path: Path, raw: object, allowed: set[str] | None, where: str) -> None:
    if not isinstance(raw, dict):
        raise _wrong(path, f"{where} is not an object")
    for key in raw:
        if allowed is not None and key not in allowed:
            raise _wrong(path, f"unknown field {key} in {where}; allowed are {', '.join(sorted(allowed))}")


def _wrong(path: Path, why: str, next_step: str = "correct the file") -> UsageError:
    return UsageError(f"the web configuration {path.name} cannot be used", why=why, next_step=next_step)
