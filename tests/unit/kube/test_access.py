from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from tests.unit.kube.certificates import certificate

from gpuready.kube.access import FixedToken, NoAccess, TokenFile, from_kubeconfig, in_cluster
from gpuready.kube.certificate import find_not_after
from gpuready.yaml_text import dump_yaml


def kubeconfig(
    folder: Path, *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None
) -> str:
    file = folder / "config"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    file.write_text(dump_yaml(config))
    return str(file)


def data(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def test_a_token_and_the_cluster_ca_are_read_from_data_fields(tmp_path: Path) -> None:
    ca, _ = certificate()
    access = from_kubeconfig(
        kubeconfig(tmp_path, cluster={"certificate-authority-data": data(ca)}, user={"token": "secret"})
    )

    assert access.server == "https://127.0.0.1:6443"
    assert access.namespace == "team"
    assert isinstance(access.token, FixedToken)
    assert access.token.token() == "secret"
    assert access.tls is not None
    assert access.tls.verify_mode is ssl.CERT_REQUIRED
    assert "secret" not in repr(access)


def test_files_are_found_beside_the_kubeconfig(tmp_path: Path) -> None:
    ca, _ = certificate()
    signed, key = certificate()
    for name, content in {"ca.crt": ca, "client.crt": signed, "client.key": key}.items():
        (tmp_path / name).write_bytes(content)

    access = from_kubeconfig(
        kubeconfig(
            tmp_path,
            cluster={"certificate-authority": "ca.crt"},
            user={"client-certificate": "client.crt", "client-key": "client.key"},
        )
    )

    assert access.tls is not None
    assert access.token is None


def test_an_expired_certificate_is_named_with_its_date(tmp_path: Path) -> None:
    signed, key = certificate(days=-3)
    path = kubeconfig(tmp_path, user={"client-certificate-data": data(signed), "client-key-data": data(key)})

    with pytest.raises(NoAccess) as caught:
        from_kubeconfig(path)

    day = datetime.now(UTC) - timedelta(days=3)
    assert f'{path}, user "u": the client certificate has expired' in caught.value.what
    assert f"{day:%Y-%m-%d}" in caught.value.why


def test_the_end_of_a_certificate_is_read_to_the_second() -> None:
    signed, _ = certificate(days=10000)

    assert find_not_after(signed) == x509.load_pem_x509_certificate(signed).not_valid_after_utc
    assert find_not_after(b"rubbish") is None
    assert find_not_after(b"-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----") is None


def test_the_servers_certificate_may_be_left_unchecked(tmp_path: Path) -> None:
    access = from_kubeconfig(kubeconfig(tmp_path, cluster={"insecure-skip-tls-verify": True}))

    assert access.tls is not None
    assert access.tls.verify_mode is ssl.CERT_NONE


def test_a_name_that_leads_nowhere_is_answered_with_the_names_there_are(tmp_path: Path) -> None:
    with pytest.raises(NoAccess, match=r'has no context "elsewhere".*it has: here'):
        from_kubeconfig(kubeconfig(tmp_path), context="elsewhere")


def test_logging_in_through_a_program_is_refused_with_what_works_instead(tmp_path: Path) -> None:
    with pytest.raises(NoAccess, match=r'logs in through "exec".*kubectl create token'):
        from_kubeconfig(kubeconfig(tmp_path, user={"exec": {"command": "aws"}}))


def test_no_kubeconfig_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(NoAccess, match=r"there is no kubeconfig at .*/\.kube/config"):
        from_kubeconfig(env={"HOME": str(tmp_path)})


def test_a_kubeconfig_in_a_folder_that_we_may_not_enter_is_one_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir(mode=0)

    with without_power(), pytest.raises(NoAccess) as refused:
        from_kubeconfig(env={"HOME": str(tmp_path)})

    assert str(refused.value).startswith(f"cannot read the kubeconfig {tmp_path}/.kube/config")
    assert refused.value.why == "Permission denied"


@contextmanager
def without_power() -> Iterator[None]:
    """As somebody whom permissions stop, also where the tests are run by root."""
    who = os.geteuid()
    if who == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(who)


def test_of_several_kubeconfigs_the_first_that_names_something_wins(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = kubeconfig(tmp_path / "one", cluster={"server": "https://one:1", "insecure-skip-tls-verify": True})
    two = kubeconfig(tmp_path / "two", cluster={"server": "https://two:1"})

    assert from_kubeconfig(env={"KUBECONFIG": f"{one}:{two}"}).server == "https://one:1"


def test_a_pods_account_is_found_below_its_root(tmp_path: Path) -> None:
    ca, _ = certificate()
    folder = tmp_path / "var/run/secrets/kubernetes.io/serviceaccount"
    folder.mkdir(parents=True)
    (folder / "ca.crt").write_bytes(ca)
    (folder / "token").write_text("t")
    (folder / "namespace").write_text("gpu-operator")

    access = in_cluster(
        {
            "GPUREADY_ROOT": str(tmp_path),
            "KUBERNETES_SERVICE_HOST": "fd00::1",
            "KUBERNETES_SERVICE_PORT": "443",
        }
    )

    assert access.server == "https://[fd00::1]:443"
    assert access.namespace == "gpu-operator"
    assert isinstance(access.token, TokenFile)
    assert access.token.token() == "t"


def test_outside_a_pod_there_is_no_account() -> None:
    with pytest.raises(NoAccess, match="this is not a pod"):
        in_cluster({})


def test_the_files_of_a_pod_are_named_as_the_pod_sees_them(tmp_path: Path) -> None:
    env = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "GPUREADY_ROOT": str(tmp_path)}

    with pytest.raises(NoAccess) as caught:
        in_cluster(env)

    assert "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt" in caught.value.what
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(b"[1, 2]", "it holds no map", id="a list"),
        pytest.param(b"contexts: here", "its contexts are no list", id="a section that is text"),
        pytest.param(b"\xff\xfe\x00", "it is no text", id="no text at all"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_named_with_what_to_do(
    tmp_path: Path, content: bytes, why: str
) -> None:
    file = tmp_path / "config"
    file.write_bytes(content)

    with pytest.raises(NoAccess) as caught:
        from_kubeconfig(str(file))

    assert caught.value.what == f"{file} is no kubeconfig"
    assert caught.value.why.startswith(why)
    assert "--kubeconfig" in caught.value.next_step


def test_a_context_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(NoAccess) as caught:
        from_kubeconfig(kubeconfig(tmp_path), "elsewhere")

    assert 'has no context "elsewhere"' in caught.value.what
    assert caught.value.why == "it has: here"
    assert "--context" in caught.value.next_step


def test_a_ca_that_is_none_is_said_without_the_words_of_openssl(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, cluster={"certificate-authority-data": data(b"no certificate")})

    with pytest.raises(NoAccess) as caught:
        from_kubeconfig(path)

    assert caught.value.what == f"{path}: the cluster's CA certificate cannot be used"
    assert caught.value.why == "it is no certificate in PEM"
    assert "new kubeconfig" in caught.value.next_step
