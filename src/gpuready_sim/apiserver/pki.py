"""Keys and certificates of one cluster, made once and kept in its data directory, and the kubeconfig."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)
_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True)
class Identity:
    """What one cluster is known by.

    ca_pem        the authority's certificate, for clients
    certificate   file of the server's certificate chain; `key` is the file of its key
    signing_key   signs service account tokens
    admin_token   bearer token of the administrator
    """

    ca_pem: str
    certificate: Path
    key: Path
    signing_key: ec.EllipticCurvePrivateKey
    admin_token: str


def load_or_create(directory: Path, host: str) -> Identity:
    """The identity kept in `directory`, made when it is not there yet."""
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / "ca.crt").exists():
        _create_certificates(directory, host)
    signing_path = directory / "service-account.key"
    if not signing_path.exists():
        _write_secret(signing_path, _key_pem(ec.generate_private_key(ec.SECP256R1())))
    token_path = directory / "admin.token"
    if not token_path.exists():
        _write_secret(token_path, secrets.token_urlsafe(32).encode())
    signing_key = serialization.load_pem_private_key(signing_path.read_bytes(), None)
    assert isinstance(signing_key, ec.EllipticCurvePrivateKey)
    return Identity(
        ca_pem=(directory / "ca.crt").read_text(),
        certificate=directory / "server.crt",
        key=directory / "server.key",
        signing_key=signing_key,
        admin_token=token_path.read_text(),
    )


def kubeconfig(identity: Identity, url: str, *, cluster: str = "gpuready-sim") -> str:
    """A kubeconfig for the administrator, complete in itself."""
    ca = base64.b64encode(identity.ca_pem.encode()).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": cluster, "cluster": {"server": url, "certificate-authority-data": ca}}],
            "users": [{"name": "admin", "user": {"token": identity.admin_token}}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": "admin"}}],
            "current-context": cluster,
        },
        sort_keys=False,
    )


def write_kubeconfig(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    _write_secret(temporary, text.encode())
    temporary.rename(path)


def _create_certificates(directory: Path, host: str) -> None:
    """An authority and a server certificate; ca.crt comes last, as the mark that all is there."""
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpuready-sim-ca")])
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_ca_usage(), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    server = (
        _builder(name, ca_name, key.public_key())
        .add_extension(x509.SubjectAlternativeName(_alternative_names(host)), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    _write_secret(directory / "server.key", _key_pem(key))
    (directory / "server.crt").write_bytes(server.public_bytes(serialization.Encoding.PEM))
    (directory / "ca.crt").write_bytes(ca.public_bytes(serialization.Encoding.PEM))


def _builder(name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + 3650 * _DAY)
    )


def _ca_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative_names(host: str) -> list[x509.GeneralName]:
    addresses = dict.fromkeys(["127.0.0.1", "10.96.0.1"])
    names = dict.fromkeys(_NAMES)
    try:
        addresses[str(ipaddress.ip_address(host))] = None
    except ValueError:
        names[host] = None
    found: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
    return found + [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write_secret(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
