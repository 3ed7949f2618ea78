"""What CRI-O makes of its files, and the toolkit's transaction on it: simulated and real."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpclib.client
import pytest
import tomlkit
from grpclib.const import Cardinality
from grpclib.exceptions import GRPCError, StreamTerminatedError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.node.real_crio import DROP_INS, RealCrio, programs
from tests.sim.toolkit_node import ToolkitNode

from gpuready.errors import GPUReadyError
from gpuready.node import cri
from gpuready.node.cri import RuntimeAnswer
from gpuready.operands.toolkit import crio
from gpuready.operands.toolkit.plan import RefusedPlan
from gpuready.operands.toolkit.transaction import RolledBack
from gpuready_sim.crio import merge
from gpuready_sim.crio.supervisor import Crio

HANDLERS = {"nvidia", "nvidia-cdi", "nvidia-legacy"}
OURS = "99-nvidia.conf"
RELEASE = "1.36.3"
# What `crio config` prints as a comment where nobody says otherwise.
BUILT_IN = {
    "default_runtime": "crun",
    "runtimes": {"crun": {"runtime_path": "", "runtime_root": "/run/crun"}},
}

runtimes = st.dictionaries(
    st.sampled_from(["crun", "runc", "nvidia"]),
    st.fixed_dictionaries(
        {},
        optional={
            "runtime_path": st.sampled_from(["/usr/bin/crun", "/usr/sbin/runc", "/not/there"]),
            "runtime_root": st.sampled_from(["/run/a", "/run/b"]),
            "allowed_annotations": st.lists(
                st.sampled_from(["devices.crio.io", "io.containers.trace-syscall"])
            ),
        },
    ),
    max_size=2,
)
files = st.fixed_dictionaries(
    {},
    optional={
        "default_runtime": st.sampled_from(["crun", "runc", "nvidia"]),
        "pids_limit": st.sampled_from([7, 8]),
        "runtimes": runtimes,
    },
)
PATHS = ("10-a.conf", "10-a/x", "10-a/z.conf.bak", "10-b.conf", "zz/deep/.hidden")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(root=files, drop_ins=st.dictionaries(st.sampled_from(PATHS), files, max_size=4))
def test_files_count_in_the_order_and_by_the_rules_of_the_real_one(
    tmp_path_factory: pytest.TempPathFactory, root: dict, drop_ins: dict
) -> None:
    """Of the simulated one and of the toolkit's own model."""
    node = tmp_path_factory.mktemp("crio")
    texts = {"/etc/crio/crio.conf": root, **{f"/{DROP_INS}/{name}": each for name, each in drop_ins.items()}}
    texts = {path: tomlkit.dumps({"crio": {"runtime": each}}) for path, each in texts.items()}
    for path, text in texts.items():
        (node / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (node / path[1:]).write_text(text)

    told = printed(node)
    modelled = merge.configuration(node, RELEASE)["crio"]["runtime"]
    ours = crio.merged(crio.Files("/etc/crio/crio.conf", f"/{DROP_INS}/{OURS}", texts))

    if modelled["default_runtime"] not in modelled["runtimes"]:
        assert told is None
        return
    assert told is not None
    assert told["default_runtime"] == modelled["default_runtime"]
    assert told.get("pids_limit") == modelled.get("pids_limit")
    assert set(told["runtimes"]) == set(modelled["runtimes"])
    mine = ours.get("crio", {}).get("runtime", {}).get("runtimes", {})
    for name, table in told["runtimes"].items():
        for model in (modelled["runtimes"][name], *([mine[name]] if name in mine else [])):
            for key in ("runtime_path", "runtime_root"):
                assert (model.get(key) or "") == table[key], (name, key)
        if name in mine:
            assert table.get("allowed_annotations", []) == mine[name].get("allowed_annotations", [])


def printed(node: Path) -> dict[str, Any] | None:
    """`crio config`; None where it would not start."""
    program, _ = programs()
    root, folder = node / "etc/crio/crio.conf", node / DROP_INS
    argv = [program, "--config", root, "--config-dir", folder, "config"]
    done = subprocess.run(argv, capture_output=True, check=False, timeout=60)
    if done.returncode:
        return None
    found: dict[str, Any] = tomllib.loads(done.stdout.decode())["crio"]["runtime"]
    return {**BUILT_IN, **found}


@asynccontextmanager
async def node_with(service: Crio | RealCrio) -> AsyncIterator[ToolkitNode]:
    node = ToolkitNode(service.node_root, service)
    await service.start()
    try:
        yield node
    finally:
        await service.stop()


@pytest.fixture(params=["simulated", "real"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Crio | RealCrio:
    made: Crio | RealCrio = RealCrio(tmp_path) if request.param == "real" else Crio(tmp_path, RELEASE)
    made.install()
    return made


async def test_it_is_restarted_once_and_knows_its_own_runtime_by_our_names(service: Crio | RealCrio) -> None:
    before = drop_ins(service)
    async with node_with(service) as node:
        outcome = await node.install()

        assert outcome.restarted
        assert service.starts == 2
        look = await node.engine().look()
        assert look.is_whole
        assert look.running is not None
        assert (look.running.version, look.running.default) == (RELEASE, "crun")
        crun = look.running.handlers["crun"]
        assert look.running.handlers == dict.fromkeys({*HANDLERS, "crun"}, crun)
        answer = await ask(node)
        assert set(answer.handlers) == HANDLERS | {"crun"}
        told = answer.config["crio"]["Runtimes"]
        assert {told[name]["RuntimeRoot"] for name in HANDLERS} == {told["crun"]["RuntimeRoot"]}, (
            "the path belongs to the table that was copied: its root directory is crun's"
        )

        assert not (await node.install()).restarted
        assert (await node.engine().uninstall()).restarted
        assert drop_ins(service) == before
        assert set((await ask(node)).handlers) == {"crun"}


async def test_a_release_that_lists_no_handlers_is_asked_for_its_configuration(tmp_path: Path) -> None:
    """Before 1.30 CRI's Status names none: a toolkit that went by it would roll every change back."""
    service = Crio(tmp_path, "1.28.4")
    service.install()
    async with node_with(service) as node:
        assert (await node.install()).restarted

        assert (await ask(node)).handlers == ()
        assert (await node.engine().look()).is_whole


async def test_a_signal_is_refused_before_anything_is_written(service: Crio | RealCrio) -> None:
    before = drop_ins(service)
    async with node_with(service) as node:
        with pytest.raises(RefusedPlan, match="cannot be made to know new handlers by a signal") as refused:
            await node.install(restart_mode="signal")

        assert "after SIGHUP it names them and starts no pod with them" in refused.value.why
        assert drop_ins(service) == before
        assert service.starts == 1


async def test_after_a_reload_it_names_handlers_that_start_no_pod(service: Crio | RealCrio) -> None:
    """Why it is restarted, and not signalled: its answers would prove nothing."""
    async with node_with(service) as node:
        outcome = await node.install(restart_mode="none")
        assert outcome.lacks[0] == 'no runtime handler "nvidia"'

        await systemctl(service, "reload")
        async with asyncio.timeout(30):
            while not set((await ask(node)).handlers) >= HANDLERS:
                await asyncio.sleep(0.05)

        if isinstance(service, Crio):
            return  # it starts no pods
        assert "failed to find runtime handler nvidia" in await refusal_of_a_pod(socket_of(node), "nvidia")
        await systemctl(service, "restart")
        assert "failed to find runtime handler" not in await refusal_of_a_pod(socket_of(node), "nvidia")


async def test_one_that_was_ended_in_order_stays_down_until_its_manager_is_asked(
    service: Crio | RealCrio,
) -> None:
    """Its unit starts it again after a failure only."""
    async with node_with(service) as node:
        os.kill(int((service.node_root / "run/crio.pid").read_text()), signal.SIGTERM)
        await service.wait_ended()

        look = await node.engine().look()

        assert look.silent is not None
        assert look.running is None
        assert '/crun"' in look.plan.files[0].diff(), "as its files say: its default runtime by our names"
        assert service.starts == 1
        await systemctl(service, "restart")
        assert (await node.engine().look()).running is not None


async def test_a_handler_that_a_later_file_takes_away_is_refused_by_name(service: Crio | RealCrio) -> None:
    later = drop_in_folder(service) / "zz.conf"
    later.write_text('[crio.runtime.runtimes.nvidia]\nruntime_path = "/usr/bin/runc"\n')
    before = drop_ins(service)
    async with node_with(service) as node:
        with pytest.raises(RefusedPlan) as refused:
            await node.install()

        assert refused.value.what.startswith("no place was found for the handlers nvidia")
        assert "99-nvidia.conf decides about crio.runtime.runtimes.nvidia" in refused.value.why
        assert drop_ins(service) == before
        assert service.starts == 1


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("site/10-crio.conf.swp", "[crio.runtime\n", "site/10-crio.conf.swp is no valid TOML"),
        ("20-site.conf", "[crio.runtime]\nlog_level = 3\n", "config ended with 1"),
        ("20-site.conf", '[crio.runtime]\ndefault_runtime = "gone"\n', "config ended with 1"),
    ],
    ids=["an editor's copy", "a number for a word", "a default runtime that is not there"],
)
async def test_what_it_would_not_start_with_is_found_before_it_is_restarted(
    service: Crio | RealCrio, name: str, text: str, said: str
) -> None:
    async with node_with(service) as node:
        theirs = drop_in_folder(service) / name
        theirs.parent.mkdir(exist_ok=True)
        theirs.write_text(text)
        before = drop_ins(service)

        with pytest.raises(GPUReadyError, match=said):
            await node.install()

        assert drop_ins(service) == before
        assert service.starts == 1
        assert (await ask(node)).name == "cri-o"


async def test_one_that_does_not_come_back_gets_its_old_files_back(service: Crio | RealCrio) -> None:
    before = drop_ins(service)
    async with node_with(service) as node:
        program = service.node_root / "usr/bin/crio"
        works = program.rename(program.with_name("crio-that-works"))
        ours = drop_in_folder(service) / OURS
        program.write_text(f"#!/bin/sh\n[ $# = 0 ] && [ -e '{ours}' ] && exit 1\nexec '{works}' \"$@\"\n")
        program.chmod(0o755)

        with pytest.raises(RolledBack) as rolled:
            await node.install()

        assert "Job for crio.service failed" in rolled.value.why
        assert drop_ins(service) == before
        assert set((await ask(node)).handlers) == {"crun"}


async def test_a_half_written_file_of_ours_is_nowhere_that_it_reads(
    service: Crio | RealCrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads whatever lies below its directory, and would not start with half a file."""
    async with node_with(service) as node:
        seen: list[set[str]] = []
        real = os.replace

        def watched(source: str, target: str) -> None:
            seen.append({path.name for path in drop_in_folder(service).iterdir()})
            real(source, target)

        monkeypatch.setattr(os, "replace", watched)
        await node.install()

        assert {"10-crio.conf"} in seen
        assert all(names <= {"10-crio.conf", OURS} for names in seen)


def drop_in_folder(service: Crio | RealCrio) -> Path:
    return service.node_root / DROP_INS


def drop_ins(service: Crio | RealCrio) -> dict[str, str]:
    files = [path for path in drop_in_folder(service).rglob("*") if path.is_file()]
    return {str(path.relative_to(service.node_root)): path.read_text() for path in files}


def socket_of(node: ToolkitNode) -> Path:
    return node.root / "run/crio/crio.sock"


async def ask(node: ToolkitNode) -> RuntimeAnswer:
    return await cri.ask(socket_of(node))


async def systemctl(service: Crio | RealCrio, verb: str) -> None:
    program = service.node_root / "usr/bin/systemctl"
    await asyncio.to_thread(subprocess.run, [program, verb, "crio"], check=True)


async def refusal_of_a_pod(socket: Path, handler: str) -> str:
    """What RunPodSandbox says within 3 s; "" = it went on to the pod's image, which is nowhere to be had."""
    channel = grpclib.client.Channel(path=str(socket), codec=_Bytes())
    metadata = _field(1, b"p") + _field(2, b"uid") + _field(3, b"default")
    on_the_hosts_network = _field(2, _field(1, bytes([1 << 3, 2])))
    config = _field(1, metadata) + _field(3, b"/tmp") + _field(8, _field(1, b"/pod") + on_the_hosts_network)
    request = _field(1, config) + _field(2, handler.encode())
    try:
        async with channel.request(
            "/runtime.v1.RuntimeService/RunPodSandbox", Cardinality.UNARY_UNARY, bytes, bytes, timeout=3
        ) as stream:
            await stream.send_message(request, end=True)
            await stream.recv_message()
    except GRPCError as exc:
        return exc.message or ""
    except (StreamTerminatedError, TimeoutError):
        return ""
    finally:
        channel.close()
    return ""


class _Bytes:
    """Messages as they are on the wire: a pod's are no protocol of ours."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> bytes:
        return data


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content
