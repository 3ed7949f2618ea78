"""Where the runtime of a node is, by what only its distribution has."""

from __future__ import annotations

import pytest
from tests.unit.operands.toolkit.nodes import RUNC, rules, wanted

from gpuready.errors import UsageError
from gpuready.operands.toolkit import generated
from gpuready.operands.toolkit.containerd.merge import merge
from gpuready.operands.toolkit.journal import Touched
from gpuready.operands.toolkit.layouts import layout_of
from gpuready.operands.toolkit.plan import RefusedPlan
from gpuready.operands.toolkit.settings import Settings
from gpuready.operands.toolkit.undo import undone


@pytest.mark.parametrize(
    ("evidence", "name", "config", "socket", "service"),
    [
        (
            "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
            "k3s",
            "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
            "/run/k3s/containerd/containerd.sock",
            "k3s",
        ),
        (
            "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
            "RKE2",
            "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
            "/run/k3s/containerd/containerd.sock",
            "rke2-agent",
        ),
        (
            "/var/lib/k0s/bin/containerd",
            "k0s",
            "/etc/k0s/containerd.toml",
            "/run/k0s/containerd.sock",
            "k0sworker",
        ),
        (
            "/var/snap/microk8s/current/args/containerd-template.toml",
            "microk8s",
            "/var/snap/microk8s/current/args/containerd-template.toml",
            "/var/snap/microk8s/common/run/containerd.sock",
            "snap.microk8s.daemon-containerd",
        ),
        ("/run/crio/crio.sock", "CRI-O", "/etc/crio/crio.conf", "/run/crio/crio.sock", "crio"),
        (
            "/nothing",
            "containerd",
            "/etc/containerd/config.toml",
            "/run/containerd/containerd.sock",
            "containerd",
        ),
    ],
)
def test_a_layout_is_known_by_a_file_that_only_it_has(evidence, name, config, socket, service):
    found = layout_of(Settings(), lambda path: path == evidence)

    assert (found.name, found.config, found.socket, found.service) == (name, config, socket, service)


def test_a_crio_that_is_down_is_known_by_its_files_unless_another_runtime_answers():
    there = {"/etc/crio/crio.conf.d"}

    assert layout_of(Settings(), there.__contains__).name == "CRI-O"
    assert (
        layout_of(Settings(), {*there, "/run/containerd/containerd.sock"}.__contains__).name == "containerd"
    )


def test_what_the_policy_says_is_laid_over_the_layout():
    env = {"RUNTIME": "containerd", "CONTAINERD_CONFIG": "/x/config.toml", "CONTAINERD_SOCKET": "/x/sock"}

    found = layout_of(Settings.from_env(env), lambda path: False)

    assert (found.config, found.socket) == ("/x/config.toml", "/x/sock")


K3S = "/var/lib/rancher/k3s/agent/etc/containerd"
GENERATED = """\
version = 3
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = true
"""


def test_k3s_gets_the_handlers_in_a_template_that_extends_its_own():
    """config.toml is written anew at each start of k3s: what is in it is gone then."""
    root = f"{K3S}/config.toml"
    source = generated.source_of("k3s", root, GENERATED, "", rules("2.1.4"))

    plan = generated.plan(source, root, {root: GENERATED}, wanted(), rules("2.1.4"))

    (change,) = plan.files
    assert change.path == f"{K3S}/config-v3.toml.tmpl"
    assert change.after.startswith('{{ template "base" . }}\n')
    made = change.after.replace('{{ template "base" . }}', GENERATED)
    runtimes = merge(root, {root: made}, rules("2.1.4")).cri(rules("2.1.4"))["containerd"]["runtimes"]
    assert runtimes["nvidia"] == {
        "runtime_type": "io.containerd.runc.v2",
        "options": {"SystemdCgroup": True, "BinaryName": RUNC},
    }
    assert generated.plan(source, root, {root: made}, wanted(), rules("2.1.4")).files == ()


def test_a_table_that_k3s_writes_itself_is_not_written_twice():
    """It has found an nvidia-container-runtime: a second table of that name would keep containerd down."""
    root = f"{K3S}/config.toml"
    its_own = GENERATED + (
        "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]\n"
        '  runtime_type = "io.containerd.runc.v2"\n'
        "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]\n"
        '  BinaryName = "/usr/bin/nvidia-container-runtime"\n'
    )
    source = generated.source_of("k3s", root, its_own, "", rules("2.1.4"))

    with pytest.raises(RefusedPlan) as refused:
        generated.plan(source, root, {root: its_own}, wanted(), rules("2.1.4"))

    assert "cannot say containerd.runtimes.nvidia.options.SystemdCgroup, containerd" in refused.value.what
    assert "and TOML lets a table be written once" in refused.value.why


def test_k0s_merges_a_file_of_ours_while_it_manages_the_root():
    root, drop_in = "/etc/k0s/containerd.toml", "/etc/k0s/containerd.d/99-nvidia.toml"
    managed = "# k0s_managed=true\nversion = 2\nimports = ['/run/k0s/containerd-cri.toml']\n"

    source = generated.source_of("k0s", root, managed, drop_in, rules("1.7.27"))

    assert source == generated.Source(drop_in, "version = 2\n", joins=False)
    assert generated.source_of("k0s", root, "version = 2\n", drop_in, rules("1.7.27")) is None


@pytest.mark.parametrize(
    ("layout", "folder", "mark"),
    [("k3s", f"{K3S}/config-v3.toml.d", ""), ("k0s", "/etc/k0s/containerd.d", "# k0s_managed=true\n")],
)
def test_a_directory_that_the_made_root_imports_is_better_than_what_it_is_made_from(layout, folder, mark):
    """k3s with containerd 2.x, k0s from 1.36 on: containerd reads it itself, so it can be asked before."""
    root = f"{folder.rpartition('/')[0]}/config.toml"
    text = f'{mark}imports = ["{folder}/*.toml"]\n{GENERATED}'
    source = generated.source_of(layout, root, text, "/x/99-nvidia.toml", rules("2.1.4"))

    plan = generated.plan(source, root, {root: text}, wanted(), rules("2.1.4"))

    (change,) = plan.files
    assert change.path == f"{folder}/99-nvidia.toml"
    assert change.after.startswith("version = 3\n")
    assert plan.notes == ()
    both = {root: text, change.path: change.after}
    runtimes = merge(root, both, rules("2.1.4")).cri(rules("2.1.4"))["containerd"]["runtimes"]
    assert runtimes["nvidia"]["options"] == {"SystemdCgroup": True, "BinaryName": RUNC}
    assert generated.plan(source, root, both, wanted(), rules("2.1.4")).files == ()


def test_before_containerd_2_an_import_would_push_the_roots_section_aside():
    root = f"{K3S}/config.toml"
    text = f'version = 2\nimports = ["{K3S}/config.toml.d/*.toml"]\n'

    assert generated.source_of("k3s", root, text, "/x/99-nvidia.toml", rules("1.7.27")).joins


def test_a_distribution_that_restarts_its_containerd_by_itself_is_left_to_do_so():
    assert layout_of(Settings(), {"/var/lib/k0s/bin/containerd"}.__contains__).restart_mode == "itself"
    asked = Settings.from_env({"RUNTIME_RESTART_MODE": "systemd"})
    assert layout_of(asked, {"/var/lib/k0s/bin/containerd"}.__contains__).restart_mode == "systemd"


def test_of_a_template_exactly_our_lines_are_taken_out():
    block = "[plugins.x]\n  a = 1\n"
    ours = Touched("/c.toml.tmpl", generated.BASE, generated.BASE + block)
    theirs = "# theirs {{ . }}\n"

    assert undone(ours, generated.BASE + block) == generated.BASE
    assert undone(ours, generated.BASE + block + theirs) == generated.BASE + theirs


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"RUNTIME": "podman"}, "RUNTIME=podman"),
        ({"RUNTIME_RESTART_MODE": "reboot"}, "RUNTIME_RESTART_MODE=reboot"),
        ({"RUNTIME_CONFIG": "../../etc/passwd"}, "RUNTIME_CONFIG=../../etc/passwd"),
        ({"RUNTIME_CONFIG": "/etc/containerd/\nx"}, "RUNTIME_CONFIG=/etc/containerd/"),
        ({"CDI_ENABLED": "maybe"}, "CDI_ENABLED=maybe"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused_by_name(env, said):
    with pytest.raises(UsageError) as refused:
        Settings.from_env(env)

    assert refused.value.what.startswith(said)
