"""The command lines of a real control plane on loopback. Pure.

Everybody proves who he is, etcd's clients too: loopback is shared by all users of a machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuready_sim.kubernetes.credentials import CONTROLLER_MANAGER, SCHEDULER, Files

HOST = "127.0.0.1"
ISSUER = "https://kubernetes.default.svc.cluster.local"
SERVICES = "10.96.0.0/16"
# Watches are told apart from the rest: they are written down when they start, not hours later.
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
"""


@dataclass(frozen=True)
class Layout:
    """Ports and directories of one cluster's control plane."""

    directory: Path
    files: Files
    api_port: int
    etcd_port: int
    etcd_peer_port: int
    node_grace_s: float = 40
    controllers: str = "*"  # as for kube-controller-manager's option

    @property
    def audit_log(self) -> Path:
        return self.directory / "audit.log"

    @property
    def audit_policy(self) -> Path:
        return self.directory / "audit-policy.yaml"

    @property
    def etcd_url(self) -> str:
        return f"https://{HOST}:{self.etcd_port}"


def etcd(layout: Layout) -> list[str]:
    files, peer = layout.files, f"https://{HOST}:{layout.etcd_peer_port}"
    certificate, key = str(files.certificate("etcd")), str(files.key("etcd"))
    return _options(
        {
            "name": "sim",
            "data-dir": layout.directory / "etcd",
            "listen-client-urls": layout.etcd_url,
            "advertise-client-urls": layout.etcd_url,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"sim={peer}",
            "client-cert-auth": True,
            "trusted-ca-file": files.authority,
            "cert-file": certificate,
            "key-file": key,
            "peer-client-cert-auth": True,
            "peer-trusted-ca-file": files.authority,
            "peer-cert-file": certificate,
            "peer-key-file": key,
            "unsafe-no-fsync": True,  # the directory is gone when the cluster is
            "log-level": "warn",
        }
    )


def api_server(layout: Layout) -> list[str]:
    files = layout.files
    return _options(
        {
            "etcd-servers": layout.etcd_url,
            "etcd-cafile": files.authority,
            "etcd-certfile": files.certificate("etcd"),
            "etcd-keyfile": files.key("etcd"),
            "bind-address": HOST,
            "advertise-address": HOST,
            "secure-port": layout.api_port,
            "endpoint-reconciler-type": "none",  # it refuses loopback addresses
            "tls-cert-file": files.certificate("apiserver"),
            "tls-private-key-file": files.key("apiserver"),
            "client-ca-file": files.authority,
            "token-auth-file": files.tokens,
            "anonymous-auth": True,
            "authorization-mode": "RBAC",
            "allow-privileged": True,
            "service-cluster-ip-range": SERVICES,
            "service-account-issuer": ISSUER,
            "service-account-key-file": files.token_checking_key,
            "service-account-signing-key-file": files.token_signing_key,
            "kubelet-certificate-authority": files.authority,
            "kubelet-client-certificate": files.certificate("kubelet-client"),
            "kubelet-client-key": files.key("kubelet-client"),
            "kubelet-preferred-address-types": "InternalIP",
            "audit-policy-file": layout.audit_policy,
            "audit-log-path": layout.audit_log,
            "audit-log-mode": "blocking",
            "profiling": False,
        }
    )


def controller_manager(layout: Layout) -> list[str]:
    files = layout.files
    config = files.kubeconfig(CONTROLLER_MANAGER)
    return _options(
        {
            "kubeconfig": config,
            "authentication-kubeconfig": config,
            "authorization-kubeconfig": config,
            "bind-address": HOST,
            "secure-port": 0,
            "leader-elect": False,
            "controllers": layout.controllers,
            "use-service-account-credentials": True,
            "service-account-private-key-file": files.token_signing_key,
            "root-ca-file": files.authority,
            "node-monitor-period": "1s",
            "node-monitor-grace-period": f"{layout.node_grace_s:g}s",
            "profiling": False,
        }
    )


def scheduler(layout: Layout) -> list[str]:
    config = layout.files.kubeconfig(SCHEDULER)
    return _options(
        {
            "kubeconfig": config,
            "authentication-kubeconfig": config,
            "authorization-kubeconfig": config,
            "bind-address": HOST,
            "secure-port": 0,
            "leader-elect": False,
            "profiling": False,
        }
    )


def _options(given: Mapping[str, object]) -> list[str]:
    return [f"--{name}={_word(value)}" for name, value in given.items()]


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
