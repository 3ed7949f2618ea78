"""What k3s, RKE2 and k0s make for containerd, with our lines in it, as real containerds read it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.node.real_containerd import dump, program_of
from tests.unit.operands.toolkit.nodes import RUNC, wanted

from gpuready.operands.toolkit import dump as dumps
from gpuready.operands.toolkit import generated
from gpuready.operands.toolkit.containerd.rules import Rules, rules_of
from gpuready.operands.toolkit.plan import RefusedPlan

V2, V3_RUNTIME, V3_IMAGES = (
    '"io.containerd.grpc.v1.cri"',
    "'io.containerd.cri.v1.runtime'",
    "'io.containerd.cri.v1.images'",
)
# The settings that k3s writes for containerd 1.x, and for 2.x.
K3S_2 = f"""\
version = 2
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/rancher/k3s/agent/containerd"
[plugins.{V2}]
  stream_server_address = "127.0.0.1"
  stream_server_port = "10010"
  enable_selinux = false
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true
  sandbox_image = "rancher/mirrored-pause:3.6"
[plugins.{V2}.containerd]
  snapshotter = "overlayfs"
  disable_snapshot_annotations = true
[plugins.{V2}.cni]
  bin_dir = "/var/lib/rancher/k3s/data/cni"
  conf_dir = "/var/lib/rancher/k3s/agent/etc/cni/net.d"
[plugins.{V2}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins.{V2}.containerd.runtimes.runc.options]
  SystemdCgroup = true
[plugins.{V2}.registry]
  config_path = "/var/lib/rancher/k3s/agent/etc/containerd/certs.d"
"""
K3S_3 = f"""\
version = 3
{{imports}}
root = "/var/lib/rancher/k3s/agent/containerd"
state = "/run/k3s/containerd"
[grpc]
  address = "/run/k3s/containerd/containerd.sock"
[plugins.'io.containerd.internal.v1.opt']
  path = "/var/lib/rancher/k3s/agent/containerd"
[plugins.{V3_RUNTIME}]
  enable_selinux = false
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true
[plugins.{V3_IMAGES}]
  snapshotter = "overlayfs"
  disable_snapshot_annotations = true
[plugins.{V3_IMAGES}.pinned_images]
  sandbox = "rancher/mirrored-pause:3.6"
[plugins.{V3_IMAGES}.registry]
  config_path = "/var/lib/rancher/k3s/agent/etc/containerd/certs.d"
[plugins.{V3_RUNTIME}.cni]
  bin_dirs = ["/var/lib/rancher/k3s/data/cni"]
  conf_dir = "/var/lib/rancher/k3s/agent/etc/cni/net.d"
[plugins.{V3_RUNTIME}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins.{V3_RUNTIME}.containerd.runtimes.runc.options]
  SystemdCgroup = true
"""
NVIDIA_OF_K3S = f"""\
[plugins.{V3_RUNTIME}.containerd.runtimes.'nvidia']
  runtime_type = "io.containerd.runc.v2"
[plugins.{V3_RUNTIME}.containerd.runtimes.'nvidia'.options]
  BinaryName = "/usr/bin/nvidia-container-runtime"
  SystemdCgroup = true
"""
K0S_3 = f"""\
# k0s_managed=true
version = 3
{{imports}}
[plugins]
  [plugins.{V3_IMAGES}]
    [plugins.{V3_IMAGES}.pinned_images]
      sandbox = "quay.io/k0sproject/pause:3.10.1"
  [plugins.{V3_RUNTIME}]
"""
NEW = ("2.0", "2.2", "2.3")


def facts_of(release: str) -> Rules:
    found = rules_of(f"v{release}.0")
    assert found is not None
    return found


class Made:
    """A directory with a root that a distribution has made. `folder`: what the root imports, "" = nothing."""

    def __init__(self, place: Path, layout: str, text: str, release: str, folder: str = "") -> None:
        self.place, self.layout, self.rules = place, layout, facts_of(release)
        self.program = program_of(release)
        self.root = place / "config.toml"
        imports = f'imports = ["{place}/{folder}/*.toml"]' if folder else ""
        self.root.write_text(text.format(imports=imports) if "{imports}" in text else text)
        self.before = dump(self.program, self.root)

    def plan(self) -> str:
        """Writes what our toolkit would, and what the distribution then makes of it; the name of our file."""
        text = self.root.read_text()
        drop_in = str(self.place / "x" / "99-nvidia.toml")
        source = generated.source_of(self.layout, str(self.root), text, drop_in, self.rules)
        assert source is not None
        found = generated.plan(
            source, str(self.root), {str(self.root): text}, wanted("nvidia", "nvidia-cdi"), self.rules
        )
        (change,) = found.files
        path = Path(change.path)
        path.parent.mkdir(exist_ok=True)
        path.write_text(change.after or "")
        if source.joins:
            self.root.write_text((change.after or "").replace(generated.BASE, text))
        return str(path.relative_to(self.place))

    def after(self) -> Mapping[str, Any]:
        return dump(self.program, self.root)


def assert_only_ours_is_new(made: Made) -> None:
    after = made.after()
    assert dumps.problems(made.before, after, wanted("nvidia", "nvidia-cdi")) == []
    runtimes = dumps.cri_of(after)["containerd"]["runtimes"]
    assert {"nvidia", "nvidia-cdi", "runc"} <= set(runtimes)
    assert runtimes["nvidia"]["options"]["BinaryName"] == RUNC


@pytest.mark.parametrize("layout", ["k3s", "RKE2"])
def test_a_template_of_ours_for_containerd_1(tmp_path: Path, layout: str) -> None:
    with_cdi = K3S_2.replace("  enable_selinux = false\n", "  enable_selinux = false\n  enable_cdi = true\n")
    made = Made(tmp_path, layout, with_cdi, "1.7")

    assert made.plan() == "config.toml.tmpl"

    assert_only_ours_is_new(made)
    runtimes = dumps.cri_of(made.after())["containerd"]["runtimes"]
    assert runtimes["nvidia"]["options"]["SystemdCgroup"] is True


def test_cdi_cannot_be_switched_on_in_a_table_that_k3s_writes(tmp_path: Path) -> None:
    """What the template adds comes after it; a table that is written twice keeps containerd down."""
    made = Made(tmp_path, "k3s", K3S_2, "1.7")

    with pytest.raises(RefusedPlan) as refused:
        made.plan()

    assert refused.value.what.endswith("config.toml.tmpl cannot say enable_cdi")
    assert refused.value.why.startswith(
        'the distribution writes the table plugins."io.containerd.grpc.v1.cri" itself'
    )
    assert refused.value.next_step.startswith(
        "upgrade it to a release with containerd 2.x, where CDI is on, or"
    )
    made.root.write_text(f"{K3S_2}[plugins.{V2}]\n  enable_cdi = true\n")
    with pytest.raises(subprocess.CalledProcessError):
        made.after()


@pytest.mark.parametrize("release", NEW)
def test_a_template_of_ours_where_the_root_imports_nothing(tmp_path: Path, release: str) -> None:
    made = Made(tmp_path, "k3s", K3S_3, release)

    assert made.plan() == "config-v3.toml.tmpl"

    assert_only_ours_is_new(made)


@pytest.mark.parametrize("release", NEW)
@pytest.mark.parametrize(
    ("layout", "text", "folder"),
    [("k3s", K3S_3, "config-v3.toml.d"), ("RKE2", K3S_3, "config-v3.toml.d"), ("k0s", K0S_3, "containerd.d")],
)
def test_a_file_of_ours_in_the_directory_that_the_root_imports(
    tmp_path: Path, layout: str, text: str, folder: str, release: str
) -> None:
    made = Made(tmp_path, layout, text, release, folder)

    assert made.plan() == f"{folder}/99-nvidia.toml"

    assert_only_ours_is_new(made)


@pytest.mark.parametrize("release", NEW)
def test_a_handler_that_k3s_has_found_itself_runs_what_we_want(tmp_path: Path, release: str) -> None:
    """k3s names it where it sees NVIDIA's runtime installed; a template could not say it a second time."""
    made = Made(tmp_path, "k3s", f"{K3S_3}{NVIDIA_OF_K3S}", release, "config-v3.toml.d")

    made.plan()

    assert_only_ours_is_new(made)
