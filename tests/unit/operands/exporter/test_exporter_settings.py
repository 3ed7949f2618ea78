"""The daemon reads what the manifest wrote, and what users of the original have written before."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuready.errors import UsageError
from gpuready.operands.exporter import flags
from gpuready.operands.exporter.settings import POD_VIEWS, SOURCES, VIRTUAL_GPUS, EngineAddress, Settings

texts = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=","), min_size=1, max_size=20
)
KINDS = {
    "str": texts,
    "str | None": st.none() | texts,
    "int": st.integers(100, 60_000),
    "float": st.floats(0.01, 1e6),
    "bool": st.booleans(),
    "tuple[str, ...]": st.lists(texts, max_size=3).map(tuple),
}
SPECIAL = {
    "address": st.sampled_from([":9400", "127.0.0.1:9401", "[::1]:9400"]),
    "gpu_id_type": st.sampled_from(["uid", "device-name"]),
    "pod_view": st.sampled_from(POD_VIEWS),
    "pod_label_allowlist": st.lists(st.sampled_from(["^app$", "team"]), max_size=2).map(tuple),
    "hostname_label": st.sampled_from(["Hostname", "hostname"]),
    "log_format": st.sampled_from(["text", "json"]),
    "source": st.sampled_from(["", *SOURCES]),
    "remote_engine": st.sampled_from(["", "nvidia-dcgm:5555", "unix:///run/engine"]),
}
any_settings = st.builds(
    Settings, **{field.name: SPECIAL.get(field.name, KINDS[str(field.type)]) for field in fields(Settings)}
)


@given(any_settings)
def test_the_daemon_reads_what_the_manifest_wrote(written: Settings) -> None:
    assert Settings.from_env(written.to_env()) == written


def test_defaults_need_no_variable() -> None:
    assert Settings().to_env() == {}
    assert Settings.from_env({"PATH": "/bin", "DCGM_EXPORTER_LISTEN": ""}) == Settings()


# telemetry.md §1.1: the flags and variables of dcgm-exporter 4.5.3-4.8.2, in its own order.
ORIGINAL = """
collectors address collect-interval kubernetes kubernetes-enable-pod-labels kubernetes-enable-pod-uid
kubernetes-pod-label-allowlist-regex kubernetes-gpu-id-type kubernetes-virtual-gpus kubernetes-enable-dra
pod-resources-kubelet-socket nvidia-resource-names hpc-job-mapping-dir use-old-namespace configmap-data
remote-hostengine-info devices switch-devices cpu-devices no-hostname fake-gpus web-config-file
web-systemd-socket xid-count-window-size clock-events-count-window-size replace-blanks-in-model-name debug
log-format enable-dcgm-log dcgm-log-level dump-enabled dump-directory dump-retention dump-compression
disable-startup-validate enable-gpu-bind-unbind-watch gpu-bind-unbind-poll-interval enable-pprof
"""
WITHOUT_PREFIX = """
KUBERNETES_VIRTUAL_GPUS KUBERNETES_ENABLE_DRA DCGM_POD_RESOURCES_KUBELET_SOCKET
NVIDIA_RESOURCE_NAMES DCGM_HPC_JOB_MAPPING_DIR DCGM_REMOTE_HOSTENGINE_INFO DISABLE_STARTUP_VALIDATE
"""


def test_every_flag_of_the_original_is_taken() -> None:
    wanted = ORIGINAL.split()
    assert [flag.name for flag in flags.FLAGS][: len(wanted)] == wanted
    variables = {flag.variable for flag in flags.FLAGS if flag.name in wanted}
    assert variables >= set(WITHOUT_PREFIX.split())
    assert {name for name in variables if not name.startswith("DCGM_EXPORTER_")} == set(
        WITHOUT_PREFIX.split()
    )


@pytest.mark.parametrize("flag", flags.FLAGS, ids=lambda flag: flag.name)
def test_each_flag_reaches_a_setting_or_says_why_not(flag: flags.Flag) -> None:
    value = {
        "DCGM_EXPORTER_LISTEN": ":1",
        "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE": "device-name",
        "DCGM_EXPORTER_LOG_FORMAT": "json",
        "KUBERNETES_ENABLE_DRA": "false",
        "GPUREADY_EXPORTER_SOURCE": "auto",
        "GPUREADY_EXPORTER_HOSTNAME_LABEL": "hostname",
        "GPUREADY_EXPORTER_POD_VIEW": "first",
    }.get(flag.variable, "true" if flag.is_switch else "7777")
    env = flags.env_of([f"--{flag.name}={value}"], {})

    changes = Settings.from_env(env) != Settings()

    assert changes or flag.no_effect
    assert (flag.variable in flags.without_effect(env)) == bool(flag.no_effect)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        pytest.param(["-f", "/x.csv"], Settings(collectors="/x.csv"), id="a short name"),
        pytest.param(["--collectors", "/x.csv"], Settings(collectors="/x.csv"), id="a value of its own"),
        pytest.param(["-collectors=/x.csv"], Settings(collectors="/x.csv"), id="one dash, as Go takes it"),
        pytest.param(
            ["--kubernetes", "-c", "1000"], Settings(kubernetes=True, interval_ms=1000), id="a switch"
        ),
        pytest.param(["--kubernetes=false"], Settings(), id="a switch that is off"),
        pytest.param(["--rbmn"], Settings(replace_blanks=True), id="an alias"),
        pytest.param(
            [
                "--strict",
                "--source=dcgm",
                "--pod-view",
                "none",
                "--mig-repeat-gpu-fields",
            ],
            Settings(csv_strict=True, source="dcgm", pod_view="none", mig_repeat_gpu_fields=True),
            id="flags of ours",
        ),
        pytest.param(
            ["-a", ":9500"], Settings(address=":9500", hostname_label="host"), id="over the variables"
        ),
    ],
)
def test_flags_are_read_as_the_original_reads_them(arguments: list[str], wanted: Settings) -> None:
    env = {"DCGM_EXPORTER_LISTEN": ":9401", "GPUREADY_EXPORTER_HOSTNAME_LABEL": "host"}
    given_env = env if "-a" in arguments else {}

    assert Settings.from_env(flags.env_of(arguments, given_env)) == wanted


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--colectors=/x"],
            "dcgm-exporter 4.5; next: did you mean --collectors?",
        ),
        (["run"], "run is no flag"),
        (["--zzzzzz"], "gpuready exporter run --help"),
        (["-f"], "-f needs a value"),
    ],
)
def test_a_wrong_flag_is_named(arguments: list[str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        flags.env_of(arguments, {})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"DCGM_EXPORTER_LISTEN": "9400"}, "DCGM_EXPORTER_LISTEN=9400; because it must be HOST:PORT"),
        ({"DCGM_EXPORTER_LISTEN": ":99999"}, "DCGM_EXPORTER_LISTEN=:99999"),
        ({"DCGM_EXPORTER_INTERVAL": "30s"}, "DCGM_EXPORTER_INTERVAL=30s; because it must be a number"),
        ({"DCGM_EXPORTER_INTERVAL": "1"}, "it must be at least 100"),
        (
            {"DCGM_EXPORTER_KUBERNETES": "yes"},
            "DCGM_EXPORTER_KUBERNETES=yes; because allowed are true and false",
        ),
        (
            {"DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX": "^app$,("},
            "POD_LABEL_ALLOWLIST_REGEX; because ( is no regular expression",
        ),
        ({"GPUREADY_EXPORTER_POD_VIEW": "all"}, "allowed are none, exclusive, first, virtual-gpus"),
        ({"GPUREADY_EXPORTER_HOSTNAME_LABEL": 'no"de'}, "it must be a name that Prometheus takes"),
        ({"GPUREADY_EXPORTER_HOSTNAME_LABEL": "gpu"}, "that label has another meaning"),
        ({"GPUREADY_EXPORTER_SOURCE": "both"}, "allowed are nvml, dcgm, auto"),
        (
            {"DCGM_REMOTE_HOSTENGINE_INFO": "dcgm:port"},
            "DCGM_REMOTE_HOSTENGINE_INFO=dcgm:port; because it must be HOST, HOST:PORT or unix:///PATH",
        ),
        ({"DCGM_REMOTE_HOSTENGINE_INFO": "http://dcgm:5555"}, "it must be HOST, HOST:PORT or unix:///PATH"),
    ],
)
def test_a_value_that_makes_no_sense_is_named(env: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        Settings.from_env(env)
    assert words in str(caught.value)


def test_the_originals_flag_for_copies_is_one_of_the_views() -> None:
    assert Settings.from_env({"KUBERNETES_VIRTUAL_GPUS": "true"}).view == VIRTUAL_GPUS


@pytest.mark.parametrize(
    ("text", "address", "is_socket"),
    [
        ("nvidia-dcgm:5555", "nvidia-dcgm:5555", False),
        ("10.0.0.7", "10.0.0.7", False),
        ("tcp://10.0.0.7:5555", "10.0.0.7:5555", False),
        ("[fd00::7]:5555", "[fd00::7]:5555", False),
        ("[fd00::7]", "[fd00::7]", False),
        ("unix:///run/nv-hostengine", "/run/nv-hostengine", True),
        ("/run/nv-hostengine", "/run/nv-hostengine", True),
    ],
)
def test_a_host_engine_is_named_as_the_original_names_it_or_by_its_socket(text, address, is_socket):
    found = Settings.from_env({"DCGM_REMOTE_HOSTENGINE_INFO": text}).engine
    assert found == EngineAddress(address, is_socket)


@pytest.mark.parametrize(
    ("env", "source"),
    [
        pytest.param({}, "nvml", id="nothing said"),
        pytest.param({"DCGM_REMOTE_HOSTENGINE_INFO": "h:5555"}, "auto", id="an engine named"),
        pytest.param({"GPUREADY_EXPORTER_SOURCE": "dcgm"}, "dcgm", id="DCGM alone, in this process"),
        pytest.param(
            {"DCGM_REMOTE_HOSTENGINE_INFO": "h:5555", "GPUREADY_EXPORTER_SOURCE": "nvml"},
            "nvml",
            id="an engine named and not wanted",
        ),
    ],
)
def test_dcgm_is_asked_only_where_somebody_asked_for_it(env, source):
    assert Settings.from_env(env).source_in_use == source


def test_an_address_may_name_a_host() -> None:
    assert Settings(address="[::1]:9400").host_and_port == ("::1", 9400)
    assert Settings().host_and_port == ("", 9400)


@pytest.mark.parametrize(
    ("env", "host"),
    [
        pytest.param({"DCGM_REMOTE_HOSTENGINE_INFO": "gpu-17:5555"}, "gpu-17", id="another machine"),
        pytest.param({"DCGM_REMOTE_HOSTENGINE_INFO": "[fd00::7]:5555"}, "fd00::7", id="by its address"),
        pytest.param({"DCGM_REMOTE_HOSTENGINE_INFO": "127.0.0.1:5555"}, "", id="this machine"),
        pytest.param({"DCGM_REMOTE_HOSTENGINE_INFO": "unix:///run/engine"}, "", id="a socket of this one"),
        pytest.param(
            {"DCGM_REMOTE_HOSTENGINE_INFO": "nvidia-dcgm:5555", "DCGM_EXPORTER_KUBERNETES": "true"},
            "",
            id="a Service",
        ),
        pytest.param({}, "", id="none"),
    ],
)
def test_outside_kubernetes_series_name_the_machine_whose_engine_is_asked(env, host):
    assert Settings.from_env(env).engine_host == host
