"""The toolkit's transaction on real containerds: each trap that has taken nodes down."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest
from tests.node.real_containerd import RealContainerd

from gpuready.errors import GPUReadyError
from gpuready.gpu.tree import Tree
from gpuready.operands.toolkit import journal
from gpuready.operands.toolkit.containerd.rules import CRI_IMAGES, CRI_RUNTIME, CRI_V2
from gpuready.operands.toolkit.dump import cri_of
from gpuready.operands.toolkit.engine import Engine, Look
from gpuready.operands.toolkit.host_exec import Host
from gpuready.operands.toolkit.settings import Settings
from gpuready.operands.toolkit.transaction import Outcome, RolledBack

RELEASES = ("1.6", "1.7", "2.0", "2.2")
BEFORE_2 = ("1.6", "1.7")
HANDLERS = {"nvidia", "nvidia-cdi", "nvidia-legacy"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RealContainerd]]:
    started = []

    def begin(release: str, root: str, **drop_ins: str) -> RealContainerd:
        """root: appended to what every daemon here needs; drop_ins: name without suffix -> text."""
        daemon = RealContainerd(release, tmp_path / release)
        version = 2 if release in BEFORE_2 else 3
        daemon.config.write_text(daemon.basics(version) + root)
        for name, text in drop_ins.items():
            (daemon.conf_d / f"{name}.toml").write_text(text)
        started.append(daemon)
        daemon.start()
        return daemon

    yield begin
    for daemon in started:
        daemon.stop()


def binary_of(daemon: RealContainerd) -> str:
    """containerd 1.6 injects no CDI devices: only NVIDIA's own runtime helps there."""
    if daemon.release != "1.6":
        return "/bin/true"
    program = daemon.folder / "nvidia/toolkit/nvidia-container-runtime"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.touch(0o755)
    return str(program)


def handlers_of(release: str) -> set[str]:
    return HANDLERS - {"nvidia-cdi"} if release == "1.6" else HANDLERS


def settings_of(daemon: RealContainerd, **more: object) -> Settings:
    binary_of(daemon)
    given = {
        "runtime": "containerd",
        "config": str(daemon.config),
        "drop_in": str(daemon.conf_d / "99-nvidia.toml"),
        "socket": str(daemon.socket),
        "program": str(daemon.program),
        "restart_mode": "signal",
        "low_level": ("/bin/true",),
        "install_dir": str(daemon.folder / "nvidia"),
        "restart_s": 40.0,
    }
    return Settings(**{**given, **more})  # type: ignore[arg-type]


def engine_of(daemon: RealContainerd, **more: object) -> Engine:
    host = Host.of(Tree(Path("/")), {})
    return Engine(settings_of(daemon, **more), host, daemon.folder / "journal.json")


def install(daemon: RealContainerd, **more: object) -> Outcome:
    async def go() -> Outcome:
        engine = engine_of(daemon, **more)
        return await engine.change(await engine.look())

    return asyncio.run(go())


def look(daemon: RealContainerd) -> Look:
    return asyncio.run(engine_of(daemon).look())


def cri(release: str) -> str:
    return CRI_V2 if release in BEFORE_2 else CRI_RUNTIME


def administrators(release: str) -> str:
    return (
        "# the platform team's\n"
        f'[plugins."{cri(release)}"]\n'
        "  restrict_oom_score_adj = true  # no CAP_SYS_RESOURCE here\n"
        f'[plugins."{cri(release)}".containerd.runtimes.runc]\n'
        '  runtime_type = "io.containerd.runc.v2"\n'
        f'  [plugins."{cri(release)}".containerd.runtimes.runc.options]\n'
        "    SystemdCgroup = false\n"
    )


def registry(release: str, version: int | None = None) -> str:
    key = CRI_V2 if release in BEFORE_2 or version == 2 else CRI_IMAGES
    head = f"version = {version}\n" if version else ""
    return f'{head}[plugins."{key}".registry]\n  config_path = "/etc/containerd/certs.d"\n'


def config_path_of(daemon: RealContainerd) -> str:
    plugins = daemon.dump()["plugins"]
    return str(plugins.get(CRI_IMAGES, plugins.get(CRI_V2))["registry"]["config_path"])


@pytest.mark.parametrize("release", RELEASES)
def test_the_daemon_knows_the_handlers_and_everything_it_had(release, start):
    daemon = start(release, administrators(release))
    before = cri_of(daemon.dump())

    outcome = install(daemon)

    assert outcome.restarted
    assert daemon.starts == 2
    answer = daemon.wait()
    assert handlers_of(release) | {"runc"} == set(answer.config["containerd"]["runtimes"])
    after = cri_of(daemon.dump())
    assert after["restrict_oom_score_adj"] is True
    assert after["containerd"]["default_runtime_name"] == "runc"
    for name in handlers_of(release):
        assert after["containerd"]["runtimes"].pop(name)["options"]["BinaryName"] == binary_of(daemon)
    changed = {key for key in before if key != "enable_cdi" and before[key] != after[key]}
    assert not changed
    assert after.get("enable_cdi", True) is True
    assert look(daemon).is_whole


@pytest.mark.parametrize("release", RELEASES)
def test_a_second_start_changes_nothing_and_an_uninstall_leaves_nothing(release, start):
    daemon = start(release, administrators(release))
    text, mode = daemon.config.read_text(), 0o640
    daemon.config.chmod(mode)
    install(daemon)

    again = install(daemon)
    assert (again.restarted, again.changed) == (False, ())
    assert daemon.starts == 2

    asyncio.run(engine_of(daemon).uninstall())

    assert daemon.starts == 3
    assert daemon.config.read_text() == text
    assert daemon.config.stat().st_mode & 0o777 == mode
    assert list(daemon.conf_d.iterdir()) == []
    assert not (HANDLERS & set(daemon.wait().config["containerd"]["runtimes"]))


@pytest.mark.parametrize("name", ["10-registry", "zz-registry"])
@pytest.mark.parametrize("release", RELEASES)
def test_a_registry_drop_in_and_the_handlers_live_together_in_both_orders(release, name, start):
    version = 2 if release in BEFORE_2 else 3
    daemon = start(release, administrators(release), **{name: registry(release, version)})

    install(daemon)

    assert set(daemon.wait().config["containerd"]["runtimes"]) >= handlers_of(release) | {"runc"}
    assert config_path_of(daemon) == "/etc/containerd/certs.d"


def test_a_version_2_registry_under_a_version_3_root_is_not_lost(start):
    """2.x's own trap: a later file of version 3 pushes an earlier one of version 2 aside."""
    for release in ("2.0", "2.2"):
        daemon = start(release, administrators(release), **{"10-registry": registry(release, 2)})
        assert config_path_of(daemon) == "/etc/containerd/certs.d"

        install(daemon)

        assert config_path_of(daemon) == "/etc/containerd/certs.d"
        assert set(daemon.wait().config["containerd"]["runtimes"]) >= handlers_of(release)


@pytest.mark.parametrize("release", BEFORE_2)
def test_a_file_that_hides_the_handlers_later_is_noticed_and_repaired(release, start):
    """The incident that cost four GPUs for a week: cat still shows the handlers, the daemon has none."""
    daemon = start(release, administrators(release))
    install(daemon)
    hiding = daemon.conf_d / "99-registry.toml"
    hiding.write_text(registry(release))
    assert not (HANDLERS & set(cri_of(daemon.dump())["containerd"]["runtimes"]))

    found = look(daemon)
    assert [change.path for change in found.plan.files] == [str(hiding)]
    install(daemon)

    assert set(daemon.wait().config["containerd"]["runtimes"]) >= handlers_of(release) | {"runc"}
    assert config_path_of(daemon) == "/etc/containerd/certs.d"
    # Not a copy that freezes: when the other tool takes its file away, nothing of it remains.
    hiding.unlink()
    install(daemon)
    assert set(daemon.wait().config["containerd"]["runtimes"]) >= handlers_of(release) | {"runc"}
    assert config_path_of(daemon) != "/etc/containerd/certs.d"


@pytest.mark.parametrize("release", RELEASES)
def test_what_the_administrator_changes_later_takes_effect(release, start):
    daemon = start(release, administrators(release))
    install(daemon)

    daemon.config.write_text(
        daemon.config.read_text().replace("SystemdCgroup = false", "SystemdCgroup = true")
    )
    install(daemon)

    runtimes = cri_of(daemon.dump())["containerd"]["runtimes"]
    assert runtimes["runc"]["options"]["SystemdCgroup"] is True
    assert runtimes["nvidia"]["options"]["SystemdCgroup"] is True


@pytest.mark.parametrize("release", ["1.7", "2.2"])
def test_a_daemon_that_reads_specs_elsewhere_is_told_of_ours_and_is_asked_for_it(release, start):
    """cdi_spec_dirs of an administrator who knew of /etc/cdi only: no name of ours would resolve."""
    elsewhere = (
        f'[plugins."{cri(release)}"]\n  restrict_oom_score_adj = true\n  cdi_spec_dirs = ["/etc/cdi"]\n'
    )
    daemon = start(release, elsewhere)
    assert "no CDI spec of /var/run/cdi (cdi_spec_dirs = ['/etc/cdi'])" in look(daemon).lacks

    install(daemon)

    assert daemon.wait().config["cdiSpecDirs"] == ["/etc/cdi", "/var/run/cdi"]
    assert look(daemon).is_whole


def test_a_daemon_that_does_not_come_back_gets_its_old_files_back(start):
    """Its CRI plugin fails over a handler's program only when it starts: no dump can tell."""
    daemon = start("1.7", administrators("1.7"))
    before = daemon.config.read_text()
    real = daemon.program
    broken = daemon.folder / "containerd-that-dies"
    broken.write_text(
        f'#!/bin/sh\ncase "$*" in *dump*|*version*) exec {real} "$@";; esac\n'
        f'grep -q runtimes.nvidia {daemon.config} && exit 1\nexec {real} "$@"\n'
    )
    broken.chmod(0o755)
    daemon.program = broken

    with pytest.raises(RolledBack) as rolled:
        install(daemon, restart_s=3.0)

    assert rolled.value.what == "the container runtime did not come back with its new configuration"
    assert daemon.config.read_text() == before
    assert "runc" in daemon.wait().config["containerd"]["runtimes"]
    book = journal.find(daemon.folder / "journal.json")
    assert book.pending == ()
    assert book.failed["message"] == rolled.value.what


def test_a_program_that_never_ends_is_not_waited_for(start, monkeypatch):
    daemon = start("2.2", administrators("2.2"))
    before = daemon.config.read_text()
    hanging = daemon.folder / "containerd-that-hangs"
    hanging.write_text("#!/bin/sh\nsleep 600\n")
    hanging.chmod(0o755)
    monkeypatch.setattr("gpuready.operands.toolkit.runtimes.DUMP_DEADLINE_S", 0.5)
    daemon.program = hanging

    with pytest.raises(Exception, match=r"did not end within 0\.5 s"):
        install(daemon)

    assert daemon.config.read_text() == before
    assert daemon.starts == 1


@pytest.mark.parametrize("release", ["1.7", "2.2"])
def test_killed_between_any_two_steps_the_next_start_finishes(release, start):
    daemon = start(release, administrators(release))
    before = daemon.config.read_text()
    steps = _steps_of(daemon, _install)
    assert len(steps) >= 5
    asyncio.run(engine_of(daemon).uninstall())
    for last in range(len(steps)):
        _killed_after(daemon, last, _install, steps[last])

        engine = engine_of(daemon)
        engine.recover()
        daemon.wait()
        install(daemon)

        assert look(daemon).is_whole, f"killed after {steps[last]}"
        assert journal.find(daemon.folder / "journal.json").pending == ()
        asyncio.run(engine_of(daemon).uninstall())
        assert daemon.config.read_text() == before, f"killed after {steps[last]}"
        assert list(daemon.conf_d.iterdir()) == []


@pytest.mark.parametrize("release", ["1.7", "2.2"])
def test_killed_in_an_uninstall_the_next_one_finishes(release, start):
    daemon = start(release, administrators(release))
    before = daemon.config.read_text()
    install(daemon)
    steps = _steps_of(daemon, _uninstall)
    assert len(steps) >= 5
    for last in range(len(steps)):
        install(daemon)
        _killed_after(daemon, last, _uninstall, steps[last])
        daemon.wait()

        asyncio.run(engine_of(daemon).uninstall())

        assert daemon.config.read_text() == before, f"killed after {steps[last]}"
        assert list(daemon.conf_d.iterdir()) == []
        assert not (daemon.folder / "journal.json").exists()
        assert not (HANDLERS & set(daemon.wait().config["containerd"]["runtimes"]))


async def _install(engine: Engine) -> None:
    await engine.change(await engine.look())


async def _uninstall(engine: Engine) -> None:
    await engine.uninstall()


Work = Callable[[Engine], Coroutine[None, None, None]]


def _stepping(daemon: RealContainerd, step: Callable[[str], None]) -> Engine:
    host = Host.of(Tree(Path("/")), {})
    return Engine(settings_of(daemon), host, daemon.folder / "journal.json", step=step)


def _steps_of(daemon: RealContainerd, work: Work) -> list[str]:
    seen: list[str] = []
    asyncio.run(work(_stepping(daemon, seen.append)))
    return seen


def _killed_after(daemon: RealContainerd, last: int, work: Work, name: str) -> None:
    """In a process of its own that is killed after this many steps."""
    child = os.fork()
    if child == 0:
        seen: list[str] = []

        def step(name: str) -> None:
            seen.append(name)
            if len(seen) > last:
                os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(work(_stepping(daemon, step)))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, name


def test_without_nvidias_runtime_containerd_1_6_is_left_alone_and_the_reason_is_told(start):
    """cdi-cri on 1.6: the pod runs, and has no GPU; nobody says a word (real-parts.md, section 3)."""
    daemon = start("1.6", administrators("1.6"))
    before = daemon.config.read_text()

    with pytest.raises(GPUReadyError) as refused:
        install(daemon, install_dir="/nowhere")

    assert "containerd 1.6.20" in refused.value.why
    assert "knows no CDI" in refused.value.why
    assert daemon.config.read_text() == before
    assert daemon.starts == 1
