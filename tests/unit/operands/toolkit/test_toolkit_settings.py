"""The toolkit's daemon reads what its manifest wrote; a policy it could not start with is refused."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready.api.policy import parse_policy
from gpuready.errors import UsageError
from gpuready.operands.contract import ClusterView
from gpuready.operands.toolkit import manifest
from gpuready.operands.toolkit.settings import PATHS, RESTART_MODES, RUNTIMES, Settings

words = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=12)
KINDS = {
    "str": words,
    "bool": st.booleans(),
    "int": st.integers(1, 65_535),
    "float": st.floats(0.01, 1e6),
    "tuple[str, ...]": st.lists(words, min_size=1, max_size=3).map(tuple),
}
SPECIAL = {
    "runtime": st.sampled_from(["", *RUNTIMES]),
    "restart_s": st.floats(0.01, 3600.0),
    "restart_mode": st.sampled_from(["", *RESTART_MODES]),
    **dict.fromkeys(PATHS, words.map("/{}".format)),
}
any_settings = st.builds(
    Settings, **{field.name: SPECIAL.get(field.name, KINDS[str(field.type)]) for field in fields(Settings)}
)


def env_of(spec: dict[str, Any]) -> dict[str, str]:
    """Of the daemon's container, downward fields left out."""
    policy = parse_policy({"metadata": {"name": "p"}, "spec": spec})
    made = manifest.objects(policy, ClusterView("gpu-operator", "gpuready:test"))
    (container,) = made[-1]["spec"]["template"]["spec"]["containers"]
    return {row["name"]: row["value"] for row in container["env"] if "value" in row}


@given(any_settings)
def test_the_daemon_reads_what_the_manifest_wrote(written: Settings) -> None:
    assert Settings.from_env(written.to_env()) == written


def test_a_driver_that_is_installed_elsewhere_is_looked_for_there() -> None:
    env = env_of({"hostPaths": {"driverInstallDir": "/opt/nvidia/driver"}})

    assert Settings.from_env(env).driver_install_dir == "/opt/nvidia/driver"
    assert "DRIVER_INSTALL_DIR" not in env_of({})


def test_a_variable_of_one_runtime_counts_also_where_nothing_says_which_it_is() -> None:
    found = Settings.from_env({"CONTAINERD_CONFIG": "/srv/containerd.toml"})
    assert (found.runtime, found.config) == ("", "/srv/containerd.toml")

    both = {"CONTAINERD_CONFIG": "/a", "CRIO_CONFIG": "/b"}
    assert Settings.from_env(both).config == ""
    assert Settings.from_env({**both, "RUNTIME": "crio"}).config == "/b"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("RUNTIME", "rkt", "allowed are containerd, crio, docker"),
        ("RUNTIME_CONFIG", "etc/containerd/config.toml", 'it must be an absolute path without ".."'),
        ("DRIVER_INSTALL_DIR", "/run/../etc", 'it must be an absolute path without ".."'),
        ("GPUREADY_TOOLKIT_RESTART_S", "soon", "it must be a number"),
        ("CDI_ENABLED", "perhaps", "allowed are true and false"),
        ("GPUREADY_TOOLKIT_RESTART_S", "-5", "it must be more than 0 and at most 3600 seconds"),
        ("GPUREADY_TOOLKIT_RESTART_S", "nan", "it must be more than 0 and at most 3600 seconds"),
    ],
)
def test_what_the_daemon_could_not_start_with_is_refused_under_the_policys_field(
    name: str, value: str, why: str
) -> None:
    spec = {"toolkit": {"env": [{"name": name, "value": value}]}}
    refusal = manifest.check(parse_policy({"metadata": {"name": "p"}, "spec": spec}))

    assert refusal is not None
    assert refusal.reason == "EnvInvalid"
    assert refusal.message == f"spec.toolkit.env: {name}={value} ({why})"
    with pytest.raises(UsageError):
        Settings.from_env({name: value})


@pytest.mark.parametrize("name", ["a\nb", "[x]", "Nvidia", ""])
def test_a_handler_has_a_name_that_a_runtime_class_can_have(name: str) -> None:
    env = {"NVIDIA_RUNTIME_NAME": name}
    if name:
        with pytest.raises(UsageError, match="small letters"):
            Settings.from_env(env)
    else:
        assert Settings.from_env(env).handler == "nvidia"


@pytest.mark.parametrize("port", ["99999", "0"])
def test_a_port_is_one_that_there_is(port: str) -> None:
    with pytest.raises(UsageError, match="1 to 65535"):
        Settings.from_env({"GPUREADY_HEALTH_PORT": port})
