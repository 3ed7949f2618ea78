"""The daemon reads what the manifest wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready.errors import UsageError
from gpuready.operands.device_plugin.settings import (
    ID_STRATEGIES,
    LIST_STRATEGIES,
    MIG_STRATEGIES,
    Settings,
)

texts = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=","), min_size=1, max_size=30
)
optional_bool = st.none() | st.booleans()


@st.composite
def settings(draw: st.DrawFn) -> Settings:
    return Settings(
        mig_strategy=draw(st.none() | st.sampled_from(MIG_STRATEGIES)),
        fail_on_init_error=draw(optional_bool),
        driver_root=draw(st.none() | texts),
        dev_root=draw(st.none() | texts),
        device_list_strategy=draw(
            st.none() | st.lists(st.sampled_from(LIST_STRATEGIES), min_size=1, unique=True).map(tuple)
        ),
        device_id_strategy=draw(st.none() | st.sampled_from(ID_STRATEGIES)),
        pass_device_specs=draw(optional_bool),
        cdi_annotation_prefix=draw(st.none() | texts),
        cdi_hook_path=draw(st.none() | texts),
        config_file=draw(st.just("") | texts),
        kubelet_socket=draw(texts),
        gates_dir=draw(st.just("") | texts),
        desired_dir=draw(st.just("") | texts),
        records_dir=draw(st.just("") | texts),
        node_name=draw(st.just("") | texts),
        pod_ip=draw(st.just("") | texts),
        health_port=draw(st.integers(1, 65535)),
        inforom=draw(st.sampled_from(["flag", "exclude"])),
        clean_probes=draw(st.integers(1, 1000)),
        probe_s=draw(st.floats(0.01, 100)),
        disable_health_checks=draw(st.just("") | texts),
    )


@given(settings())
def test_the_daemon_reads_what_the_manifest_wrote(written: Settings) -> None:
    assert Settings.from_env(written.to_env()) == written


def test_defaults_need_no_variable() -> None:
    assert Settings().to_env() == {}
    assert Settings.from_env({"PATH": "/bin", "MIG_STRATEGY": ""}) == Settings()


def test_the_original_alias_is_understood() -> None:
    assert Settings.from_env({"NVIDIA_CTK_PATH": "/x"}).cdi_hook_path == "/x"


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"DEVICE_LIST_STRATEGY": "cdi-crio"}, ["DEVICE_LIST_STRATEGY=cdi-crio", "cdi-cri"]),
        ({"MIG_STRATEGY": "all"}, ["MIG_STRATEGY=all", "none, single, mixed"]),
        ({"PASS_DEVICE_SPECS": "maybe"}, ["PASS_DEVICE_SPECS=maybe", "true and false"]),
        ({"GPUREADY_CLEAN_PROBES": "many"}, ["GPUREADY_CLEAN_PROBES=many", "number"]),
    ],
)
def test_nonsense_is_named_with_what_is_allowed(env: dict[str, str], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        Settings.from_env(env)
    assert all(word in str(caught.value) for word in words)


def test_a_variable_without_a_name_is_taken_for_no_other() -> None:
    assert Settings.from_env({"": "x"}) == Settings()
