"""How to reach the API server: its address, whom to trust, and who we are.

In a pod: the service account's files. On a desk: a kubeconfig with a certificate or a token.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpuready import names
from gpuready.errors import UsageError
from gpuready.given_files import read_given
from gpuready.kube.certificate import find_not_after, time_text
from gpuready.yaml_text import parse_yaml

SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_MAX_AGE_S = 60.0
_ANOTHER_FILE = "set KUBECONFIG or pass --kubeconfig with the right file"
_FETCH_ANEW = "fetch a new kubeconfig from whoever runs the cluster"


class NoAccess(UsageError):
    """We do not know how to reach an API server, or hold no usable credentials for it."""


class TokenFile:
    """A token that others rotate: read again when the file changes, and at least every minute.

    named   the path in messages, where others know the file by another
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic, *, named: str = "") -> None:
        self.path = path
        self._named = named or str(path)
        self._clock = clock
        self._token = ""
        self._mtime_ns = -1
        self._read_at = float("-inf")

    def token(self) -> str:
        """raises  NoAccess when there is none, and never was"""
        try:
            mtime_ns = self.path.stat().st_mtime_ns
            if mtime_ns != self._mtime_ns or self._clock() - self._read_at >= TOKEN_MAX_AGE_S:
                self._token = _printable(read_given(self.path))
                self._mtime_ns, self._read_at = mtime_ns, self._clock()
        except (OSError, ValueError) as exc:  # also in the middle of being written: the last one may still do
            if not self._token:
                why = exc.strerror if isinstance(exc, OSError) else str(exc)
                raise NoAccess(f"cannot read the token {self._named}", why=why or "") from exc
        return self._token

    def may_have_changed(self) -> bool:
        """The server refused the token: the file is read again at the next call."""
        self._mtime_ns = -1
        return True

    @property
    def where(self) -> str:
        return self._named


def _printable(content: bytes) -> str:
    """raises  ValueError for what cannot be sent in a header"""
    text = content.decode("ascii", errors="replace").strip()
    if not text:
        raise ValueError("the file is empty")
    if not text.isascii() or not text.isprintable():
        raise ValueError("what it holds is no token")
    return text


class FixedToken:
    def __init__(self, token: str, where: str = "") -> None:
        self._token = token
        self.where = where

    def token(self) -> str:
        return self._token

    def may_have_changed(self) -> bool:
        return False


@dataclass(frozen=True)
class Access:
    server: str  # "https://10.0.0.1:443", no slash at the end
    tls: ssl.SSLContext | None = None  # None: plain HTTP
    token: TokenFile | FixedToken | None = None
    namespace: str = "default"
    tls_server_name: str | None = None
    source: str = field(default="", compare=False)
    # What is below is read anew from the same place when the server refuses us or we refuse the server.
    read_again: Callable[[], Access] | None = field(default=None, compare=False, repr=False)
    fingerprint: str = field(default="", compare=False, repr=False)
    client_certificate: bytes = field(default=b"", compare=False, repr=False)

    def renewed(self) -> Access | None:
        """What the same files say now, None when that is what we have.

        raises  NoAccess when they cannot be used any more
        """
        fresh = self.read_again() if self.read_again else self
        return fresh if fresh.fingerprint != self.fingerprint else None

    def find_trouble(self, now: datetime) -> NoAccess | None:
        """What is wrong with the credentials, as far as it shows without the server."""
        if self.client_certificate and (ended := find_not_after(self.client_certificate)) and ended < now:
            return _expired_certificate(self.source, ended)
        if self.token is None:
            return None
        ended = find_expiry(self.token.token())
        if ended is None or ended >= now:
            return None
        where = self.token.where or self.source
        step = (
            "delete the pod, so that it gets a new one"
            if where.startswith(SERVICE_ACCOUNT_DIR)
            else _FETCH_ANEW
        )
        return NoAccess(f"the token in {where} was valid until {time_text(ended)}", next_step=step)


def find_expiry(token: str) -> datetime | None:
    """Until when a JSON web token is valid; None for another token. Its signature is not looked at."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return datetime.fromtimestamp(float(claims["exp"]), UTC)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, RecursionError, OSError):
        return None


def in_cluster(env: Mapping[str, str] = os.environ) -> Access:
    """The service account of this pod, found below GPUREADY_ROOT."""
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise NoAccess("this is not a pod", why="KUBERNETES_SERVICE_HOST is not set")
    folder = service_account_dir(env)
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    ca = _read_file(folder / "ca.crt", "the cluster's CA", f"{SERVICE_ACCOUNT_DIR}/ca.crt")
    return Access(
        server=f"https://{authority}",
        tls=_trusting(ca),
        token=TokenFile(folder / "token", named=f"{SERVICE_ACCOUNT_DIR}/token"),
        namespace=_namespace_in(folder),
        source=SERVICE_ACCOUNT_DIR,
        read_again=lambda: in_cluster(env),
        fingerprint=_fingerprint(ca),
    )


def service_account_dir(env: Mapping[str, str] = os.environ) -> Path:
    return Path(env.get(names.ROOT_ENV, "/")) / SERVICE_ACCOUNT_DIR.lstrip("/")


def from_kubeconfig(
    path: str | None = None, context: str | None = None, env: Mapping[str, str] = os.environ
) -> Access:
    """Read a kubeconfig as kubectl does: `path`, else every file in KUBECONFIG, else ~/.kube/config.

    raises NoAccess when there is none, a name in it leads nowhere, or the certificate has expired
    """
    config, source = _merged(_config_files(path, env))
    wanted = context or str(config.get("current-context") or "")
    if not wanted:
        raise NoAccess(f"{source} has no current context", next_step="kubectl config use-context NAME")
    ctx = _named(config, "contexts", "context", wanted, source)
    cluster = _named(config, "clusters", "cluster", str(ctx.get("cluster", "")), source)
    user = _named(config, "users", "user", str(ctx.get("user", "")), source) if ctx.get("user") else {}
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise NoAccess(
            f'{source}: cluster "{ctx.get("cluster")}" has no usable server',
            why=f'it says "{server}"',
            next_step="give it the API server's address, as https://HOST:PORT",
        )
    whose = f'{source}, user "{ctx.get("user")}"'
    secure = server.startswith("https")
    return Access(
        server=server,
        tls=_tls_of(cluster, user, whose) if secure else None,
        token=_token_of(user, source, whose),
        namespace=str(ctx.get("namespace") or "default"),
        tls_server_name=cluster.get("tls-server-name"),
        source=f"{source}, context {wanted}",
        read_again=lambda: from_kubeconfig(path, context, env),
        fingerprint=_fingerprint_of(cluster, user),
        client_certificate=_data_of(user, "client-certificate") if secure else b"",
    )


def _fingerprint_of(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> str:
    files = [
        _data_of(cluster, "certificate-authority"),
        *(_data_of(user, name) for name in ("client-certificate", "client-key")),
    ]
    texts = (cluster.get("server"), cluster.get("tls-server-name"), user.get("token"), user.get("tokenFile"))
    return _fingerprint(*files, *(str(text).encode() for text in texts))


def _fingerprint(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def _config_files(path: str | None, env: Mapping[str, str]) -> list[Path]:
    if path:
        return [Path(path)]
    listed = [Path(each) for each in env.get("KUBECONFIG", "").split(os.pathsep) if each]
    files = listed or [Path(env.get("HOME", str(Path.home()))) / ".kube" / "config"]
    there = [each for each in files if _may_be_there(each)]
    if not there:
        raise NoAccess(
            f"there is no kubeconfig at {', '.join(map(str, files))}",
            next_step="set KUBECONFIG or pass --kubeconfig",
        )
    return there


def _may_be_there(file: Path) -> bool:
    """What stands in a folder that we may not enter is told when it is read."""
    try:
        file.stat()
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def _merged(files: list[Path]) -> tuple[dict[str, Any], str]:
    """kubectl's rule: the first file that names something wins."""
    merged: dict[str, Any] = {"clusters": [], "contexts": [], "users": []}
    for file in files:
        config = _parsed(file)
        if not merged.get("current-context"):
            merged["current-context"] = config.get("current-context")
        for section in ("clusters", "contexts", "users"):
            known = {entry.get("name") for entry in merged[section]}
            new = [
                dict(e, _folder=file.parent) for e in config.get(section) or [] if e.get("name") not in known
            ]
            merged[section].extend(new)
    return merged, ", ".join(map(str, files))


def _parsed(file: Path) -> dict[str, Any]:
    """A kubeconfig, as far as it has the shape of one."""
    try:
        config = parse_yaml(_read_file(file, "the kubeconfig").decode(), source=str(file)) or {}
    except UnicodeDecodeError as exc:
        raise NoAccess(f"{file} is no kubeconfig", why="it is no text", next_step=_ANOTHER_FILE) from exc
    if not isinstance(config, dict):
        raise NoAccess(f"{file} is no kubeconfig", why="it holds no map", next_step=_ANOTHER_FILE)
    for section in ("clusters", "contexts", "users"):
        rows = config.get(section) or []
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise NoAccess(
                f"{file} is no kubeconfig",
                why=f"its {section} are no list of entries with a name",
                next_step=_ANOTHER_FILE,
            )
    return config


def _named(config: Mapping[str, Any], section: str, inner: str, name: str, source: str) -> dict[str, Any]:
    for entry in config[section]:
        if entry.get("name") == name:
            return dict(entry.get(inner) or {}, _folder=entry["_folder"])
    there = ", ".join(str(entry.get("name")) for entry in config[section]) or "none"
    step = "kubectl config get-contexts, then pass one of them with --context" if inner == "context" else ""
    raise NoAccess(
        f'{source} has no {inner} "{name}"',
        why=f"it has: {there}",
        next_step=step or f'correct the context that names the {inner} "{name}"',
    )


def _tls_of(cluster: Mapping[str, Any], user: Mapping[str, Any], source: str) -> ssl.SSLContext:
    if cluster.get("insecure-skip-tls-verify"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context = _trusting(_data_of(cluster, "certificate-authority"), source.partition(", user")[0])
    certificate, key = _data_of(user, "client-certificate"), _data_of(user, "client-key")
    if certificate and key:
        _refuse_expired(certificate, source)
        _load_chain(context, certificate, key, source)
    return context


def _refuse_expired(certificate: bytes, source: str) -> None:
    ends = find_not_after(certificate)
    if ends is not None and ends < datetime.now(UTC):
        raise _expired_certificate(source, ends)


def _expired_certificate(source: str, ended: datetime) -> NoAccess:
    return NoAccess(
        f"{source}: the client certificate has expired",
        why=f"it was valid until {time_text(ended)}",
        next_step=_FETCH_ANEW,
    )


def _load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes, source: str) -> None:
    """`ssl` takes files only; the file is private and gone at once."""
    with tempfile.NamedTemporaryFile() as file:  # mode 0600
        file.write(certificate + b"\n" + key)
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except (ssl.SSLError, OSError) as exc:
            raise NoAccess(
                f"{source}: the client certificate and key cannot be used",
                why=str(exc),
                next_step=_FETCH_ANEW,
            ) from exc


def _token_of(user: Mapping[str, Any], source: str, whose: str) -> TokenFile | FixedToken | None:
    if user.get("tokenFile"):
        return TokenFile(Path(user["_folder"]) / str(user["tokenFile"]))
    if user.get("token"):
        return FixedToken(_header_safe(str(user["token"]), whose), whose)
    for unsupported in ("exec", "auth-provider"):
        if user.get(unsupported):
            raise NoAccess(
                f'{source} logs in through "{unsupported}"',
                why="only certificates and tokens are supported",
                next_step="make a kubeconfig with a token: kubectl create token ACCOUNT",
            )
    return None


def _header_safe(token: str, whose: str) -> str:
    try:
        return _printable(token.encode())
    except ValueError as exc:
        raise NoAccess(f"{whose}: the token cannot be used", why=str(exc), next_step=_FETCH_ANEW) from exc


def _data_of(entry: Mapping[str, Any], field_name: str) -> bytes:
    inline = entry.get(f"{field_name}-data")
    if inline:
        try:
            return base64.b64decode(str(inline), validate=True)
        except ValueError as exc:
            raise NoAccess(
                f"{field_name}-data in the kubeconfig is no base64", why=str(exc), next_step=_FETCH_ANEW
            ) from exc
    file = entry.get(field_name)
    return _read_file(Path(entry["_folder"]) / str(file), field_name) if file else b""


def _trusting(authority: bytes, source: str = "") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not authority:
        context.load_default_certs()
        return context
    try:
        context.load_verify_locations(cadata=authority.decode())
    except (ssl.SSLError, UnicodeDecodeError) as exc:
        where = f"{source}: " if source else ""
        raise NoAccess(
            f"{where}the cluster's CA certificate cannot be used",
            why="it is no certificate in PEM",
            next_step=_FETCH_ANEW,
        ) from exc
    return context


def _read_file(path: Path, what: str, named: str = "") -> bytes:
    try:
        return read_given(path)
    except OSError as exc:
        raise NoAccess(
            f"cannot read {what} {named or path}",
            why=exc.strerror or "",
            next_step="" if named else _ANOTHER_FILE,
        ) from exc


def _namespace_in(folder: Path) -> str:
    try:
        return (folder / "namespace").read_text().strip() or "default"
    except OSError:
        return "default"
