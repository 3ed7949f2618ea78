"""Keys and certificates of one cluster, made once and kept in its data directory, and the kubeconfig."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)
API_SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "10.96.0.1",
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
        write_secret(signing_path, _key_pem(ec.generate_private_key(ec.SECP256R1())))
    token_path = directory / "admin.token"
    if not token_path.exists():
        write_secret(token_path, secrets.token_urlsafe(32).encode())
    signing_key = serialization.load_pem_private_key(signing_path.read_bytes(), None)
    assert isinstance(signing_key, ec.EllipticCurvePrivateKey)
    return Identity(
        ca_pem=(directory / "ca.crt").read_text(),
        certificate=directory / "server.crt",
        key=directory / "server.key",
        signing_key=signing_key,
        admin_token=token_path.read_text(),
    )


def kubeconfig(
    ca_pem: str, token: str, url: str, *, user: str = "admin", cluster: str = "gpuready-sim"
) -> str:
    """A kubeconfig for the owner of a token, complete in itself."""
    return _kubeconfig(ca_pem, {"token": token}, url, user=user, cluster=cluster)


def client_kubeconfig(ca_pem: str, client: Issued, url: str, *, cluster: str = "gpuready-sim") -> str:
    """A kubeconfig for the owner of a client certificate, complete in itself."""
    proof = {
        "client-certificate-data": _base64(client.certificate),
        "client-key-data": _base64(client.key),
    }
    return _kubeconfig(ca_pem, proof, url, user="client", cluster=cluster)


def _kubeconfig(ca_pem: str, proof: dict[str, str], url: str, *, user: str, cluster: str) -> str:
    place = {"server": url, "certificate-authority-data": _base64(ca_pem)}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": cluster, "cluster": place}],
            "users": [{"name": user, "user": proof}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
            "current-context": cluster,
        },
        sort_keys=False,
    )


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def write_kubeconfig(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    write_secret(temporary, text.encode())
    temporary.rename(path)


def _create_certificates(directory: Path, host: str) -> None:
    """An authority and a server certificate; ca.crt comes last, as the mark that all is there."""
    authority = Authority("gpuready-sim-ca")
    issued = authority.server("kube-apiserver", [*API_SERVER_NAMES, host])
    write_secret(directory / "server.key", issued.key.encode())
    (directory / "server.crt").write_text(issued.certificate)
    (directory / "ca.crt").write_text(authority.certificate)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, PEM."""

    certificate: str
    key: str


class Authority:
    """Issues certificates; its own key is nowhere but in memory."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        public = self._key.public_key()
        ca = (
            _builder(self._name, self._name, public)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_ca_usage(), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = _pem(ca)

    def server(self, name: str, hosts: Iterable[str]) -> Issued:
        """For somebody who is reached by these names and addresses (and may also be a client)."""
        return self._issue(name, (), tuple(dict.fromkeys(hosts)))

    def client(self, name: str, groups: Sequence[str] = ()) -> Issued:
        """For a Kubernetes user: its name is the common name, its groups are the organizations."""
        return self._issue(name, groups, ())

    def _issue(self, name: str, groups: Sequence[str], hosts: Sequence[str]) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _builder(x509.Name(subject), self._name, key.public_key())
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(issuer, critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return Issued(_pem(builder.sign(self._key, hashes.SHA256())), _key_pem(key).decode())


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


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


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def write_secret(path: Path, content: bytes) -> None:
    """For the owner's eyes only."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
