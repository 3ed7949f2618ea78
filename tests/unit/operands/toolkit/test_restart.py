"""Who restarts a runtime after its files have changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.operands.toolkit.nodes import wanted

from gpuready.node.root import Root
from gpuready.operands.toolkit.host_exec import Host, HostProgramError
from gpuready.operands.toolkit.layouts import layout_of
from gpuready.operands.toolkit.runtimes import Goal, NodeRuntime
from gpuready.operands.toolkit.settings import Settings

MANAGED = '# k0s_managed=true\nversion = 3\nimports = ["/etc/k0s/containerd.d/*.toml"]\n'


def k0s_node(root: Path, text: str) -> NodeRuntime:
    (root / "etc/k0s").mkdir(parents=True)
    (root / "etc/k0s/containerd.toml").write_text(text)
    tree = Root(root)
    layout = layout_of(Settings(), tree.exists)
    assert layout.name == "k0s"
    return NodeRuntime(Host(tree, enters=False), layout, Goal(wanted()), restart_s=1, version="v2.1.4")


async def test_k0s_sees_the_file_and_restarts_its_containerd_itself(tmp_path: Path) -> None:
    """There is no systemctl here: nobody has asked for one."""
    runtime = k0s_node(tmp_path, MANAGED)
    await runtime.prepare()

    assert await runtime.restart()


async def test_where_no_file_changes_the_service_is_restarted(tmp_path: Path) -> None:
    with pytest.raises(HostProgramError, match="/usr/bin/systemctl cannot be run"):
        await k0s_node(tmp_path, MANAGED).restart()


async def test_an_administrators_own_root_is_watched_by_nobody(tmp_path: Path) -> None:
    runtime = k0s_node(tmp_path, "version = 3\n")
    await runtime.prepare()

    with pytest.raises(HostProgramError, match="/usr/bin/systemctl cannot be run"):
        await runtime.restart()
