"""Who is who in one cluster with a real control plane: its authority, certificates and tokens.

Made new at every start, below the cluster's directory. The authority's key stays in memory.
"""

from __future__ import annotations

import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gpuready_sim.apiserver.pki import (
    API_SERVER_NAMES,
    Authority,
    Issued,
    client_kubeconfig,
    kubeconfig,
    write_kubeconfig,
    write_secret,
)
from gpuready_sim.client import Access

ADMIN = "kubernetes-admin"
CONTROLLER_MANAGER = "system:kube-controller-manager"
SCHEDULER = "system:kube-scheduler"
KUBELETS = "gpuready-sim:kubelets"
NODES = "system:nodes"  # the group of real kubelets
_USERS = (ADMIN, CONTROLLER_MANAGER, SCHEDULER, KUBELETS)
_NODE_FILES = ("ca.crt", "kubelet.crt", "kubelet.key", "kubelet.kubeconfig")


@dataclass(frozen=True)
class Files:
    """Where things are, for the command lines."""

    directory: Path

    @property
    def authority(self) -> Path:
        return self.directory / "ca.crt"

    @property
    def tokens(self) -> Path:
        return self.directory / "tokens.csv"

    @property
    def token_signing_key(self) -> Path:
        return self.directory / "service-account.key"

    @property
    def token_checking_key(self) -> Path:
        return self.directory / "service-account.pub"

    def certificate(self, name: str) -> Path:
        return self.directory / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.directory / f"{name}.key"

    def kubeconfig(self, user: str) -> Path:
        return self.directory / f"{user.rpartition(':')[2]}.kubeconfig"


@dataclass(frozen=True)
class NodeFiles:
    """Who a real node's kubelet is: as a client, by its kubeconfig, and as the server of its port."""

    authority: Path
    certificate: Path
    key: Path
    kubeconfig: Path


class Credentials:
    """Everybody's proof of identity; `files` are written by the constructor."""

    def __init__(self, directory: Path, url: str) -> None:
        directory.mkdir(parents=True, mode=0o700, exist_ok=True)
        self.files = Files(directory)
        self._url = url
        self._authority = Authority("gpuready-sim-ca")
        self._tokens = {user: secrets.token_urlsafe(32) for user in _USERS}
        self.files.authority.write_text(self._authority.certificate)
        self._keep("apiserver", self._authority.server("kube-apiserver", API_SERVER_NAMES))
        self._keep("etcd", self._authority.server("etcd", ["127.0.0.1", "localhost"]))
        self._keep("kubelet-client", self._authority.client("kube-apiserver-kubelet-client"))
        self._write_tokens()
        self._write_token_keys()
        for user in (CONTROLLER_MANAGER, SCHEDULER):
            self.write_kubeconfig(self.files.kubeconfig(user), user)

    def write_kubeconfig(self, path: Path, user: str = ADMIN) -> None:
        text = kubeconfig(self._authority.certificate, self._tokens[user], self._url, user=user)
        write_kubeconfig(path, text)

    def access(self, user: str = ADMIN) -> Access:
        return Access(self._url, self._tokens[user], self._authority.certificate)

    def kubelet_tls(self, node: str, address: str) -> ssl.SSLContext:
        """For the port of a node's kubelet: the API server trusts it, and nobody else may ask."""
        self._keep(f"kubelet-{node}", self._authority.server(f"system:node:{node}", [address, node]))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.files.authority))
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(self.files.certificate(f"kubelet-{node}"), self.files.key(f"kubelet-{node}"))
        return context

    def node(self, node: str, address: str, directory: Path) -> NodeFiles:
        """What a real kubelet is given, in a directory of its node: system:node:NAME, of the nodes' group."""
        user = f"system:node:{node}"
        server, client = self._authority.server(user, [address, node]), self._authority.client(user, (NODES,))
        files = NodeFiles(*(directory / name for name in _NODE_FILES))
        files.authority.write_text(self._authority.certificate)
        files.certificate.write_text(server.certificate)
        write_secret(files.key, server.key.encode())
        write_kubeconfig(files.kubeconfig, client_kubeconfig(self._authority.certificate, client, self._url))
        return files

    def _keep(self, name: str, issued: Issued) -> None:
        self.files.certificate(name).write_text(issued.certificate)
        write_secret(self.files.key(name), issued.key.encode())

    def _write_tokens(self) -> None:
        """token,user,uid and, where there are any, groups. What the others may do is said by RBAC."""
        lines = [f"{token},{user},{user}" for user, token in self._tokens.items()]
        lines[0] += ",system:masters"
        assert lines[0].split(",")[1] == ADMIN
        write_secret(self.files.tokens, ("\n".join(lines) + "\n").encode())

    def _write_token_keys(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        write_secret(self.files.token_signing_key, private)
        self.files.token_checking_key.write_bytes(public)
