"""What people type at kubectl and helm, and what is printed, as recorded from a real API server.

Old clients are played at the embedded server only: what a real one makes them print is recorded, and changes
with its version alone. CONFORMANCE_RECORD=1, or CONFORMANCE_ALL=1, plays them at both.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

from gpuready_sim.kubernetes.clients import Client, find

from .api import Api
from .differences import TYPED
from .sessions import HELM, KUBECTL
from .typed import EXPECTED, Session, Shell

PLAYS = [
    pytest.param(client, session, id=f"{client.name}-{client.version}-{session.id}")
    for name, sessions in (("kubectl", KUBECTL), ("helm", HELM))
    for client in find(name)
    for session in sessions
]


@pytest.mark.skipif(not PLAYS, reason="kubectl and helm are not here: run `make clients`")
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("client", "session"), PLAYS)
def test_the_client_prints_as_recorded(
    client: Client,
    session: Session,
    api: Api,
    server: tuple[str, Path],
    namespace: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if api.server == "kubernetes" and client != find(client.name)[0] and not _is_thorough():
        pytest.skip("old clients are played at the embedded server only")
    if api.server == "embedded" and session.id in TYPED:
        request.applymarker(pytest.mark.xfail(reason=TYPED[session.id], strict=True))
    shell = Shell.made(tmp_path, server[1], namespace, {"kubectl": find("kubectl")[0], client.name: client})
    said = shell.played(session)
    file = session.expected(client)
    if os.environ.get("CONFORMANCE_RECORD") and api.server == "kubernetes":
        file.parent.mkdir(exist_ok=True)
        file.write_text(said)
    if not file.exists():
        pytest.skip(f"nothing is recorded for {client.name} {client.minor}")
    if difference := _difference(file.read_text(), said):
        pytest.fail(difference, pytrace=False)


def _is_thorough() -> bool:
    return bool(os.environ.get("CONFORMANCE_RECORD") or os.environ.get("CONFORMANCE_ALL"))


def _difference(expected: str, said: str) -> str:
    lines = expected.splitlines(), said.splitlines()
    return "\n".join(difflib.unified_diff(*lines, "kubernetes", "here", lineterm="", n=4))


def test_every_transcript_belongs_to_a_session() -> None:
    assert {file.stem for file in EXPECTED.glob("kubectl-*/*.txt")} == {session.id for session in KUBECTL}
    assert {file.stem for file in EXPECTED.glob("helm-*/*.txt")} == {session.id for session in HELM}
