"""Configurations of a node's runtime, each with its parts defaulted."""

from __future__ import annotations

from collections.abc import Mapping

from gpuready.operands.toolkit.containerd import plan as containerd
from gpuready.operands.toolkit.containerd.rules import Rules, rules_of
from gpuready.operands.toolkit.plan import Plan, Wanted

ROOT, CONF_D = "/etc/containerd/config.toml", "/etc/containerd/conf.d"
OURS = f"{CONF_D}/99-nvidia.toml"
RUNC = "/usr/bin/runc"
V2, V3 = "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"


def wanted(*handlers: str, cdi: bool = True, default: bool = False) -> Wanted:
    return Wanted(handlers or ("nvidia",), RUNC, cdi, as_default=default)


def rules(version: str) -> Rules:
    found = rules_of(version)
    assert found is not None
    return found


def root_file(version: int = 2, *, imports: bool = True, runc: bool = True, more: str = "") -> str:
    """As an administrator writes it: comments, an order of their own, SystemdCgroup for runc."""
    key = V3 if version >= 3 else V2
    lines = ["# managed by the platform team", f"version = {version}"]
    if imports:
        lines.append(f'imports = ["{CONF_D}/*.toml"]')
    if runc:
        lines += [
            f'[plugins."{key}".containerd]',
            '  default_runtime_name = "runc"  # do not change',
            f'[plugins."{key}".containerd.runtimes.runc]',
            '  runtime_type = "io.containerd.runc.v2"',
            f'[plugins."{key}".containerd.runtimes.runc.options]',
            "  SystemdCgroup = true",
        ]
    return "\n".join([*lines, more]) + "\n"


def registry(version: int | None = 2) -> str:
    """What another tool drops into conf.d."""
    key = "io.containerd.cri.v1.images" if version == 3 else V2
    head = f"version = {version}\n" if version else ""
    return f'{head}[plugins."{key}".registry]\n  config_path = "/etc/containerd/certs.d"\n'


def planned(version: str, texts: Mapping[str, str], want: Wanted | None = None) -> Plan:
    return containerd.plan(containerd.Files(ROOT, OURS, texts), want or wanted(), rules(version))


def after(plan: Plan, texts: Mapping[str, str]) -> dict[str, str]:
    return {**texts, **{each.path: each.after for each in plan.files if each.after is not None}}
