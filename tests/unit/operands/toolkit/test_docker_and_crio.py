"""Docker's daemon.json with its quirks (C09), and CRI-O's drop-in."""

from __future__ import annotations

import json
import tomllib

import pytest
from tests.unit.operands.toolkit.nodes import RUNC, wanted

from gpuready.operands.toolkit import crio, docker
from gpuready.operands.toolkit.plan import RefusedPlan
from gpuready.operands.toolkit.toml_file import ConfigFileError

DAEMON = "/etc/docker/daemon.json"
BUSY = {
    "hosts": ["unix:///run/docker.sock"],
    "runtimes": {"runsc": {"path": "/opt/runsc"}},
    "features": {"buildkit": True},
    "log-opts": {"max-size": "10m"},
}
CONF, DROP_IN = "/etc/crio/crio.conf", "/etc/crio/crio.conf.d/99-nvidia.conf"


def changed(text, want=None):
    (change,) = docker.plan(DAEMON, text, want or wanted()).files
    return json.loads(change.after)


def test_only_our_runtime_and_the_cdi_feature_are_added():
    after = changed(json.dumps(BUSY))

    assert after == {
        **BUSY,
        "runtimes": {"runsc": {"path": "/opt/runsc"}, "nvidia": {"path": RUNC}},
        "features": {"buildkit": True, "cdi": True},
    }
    assert list(after) == list(BUSY)


@pytest.mark.parametrize("text", [None, "", "  \n"])
def test_an_absent_or_empty_file_becomes_the_smallest_valid_one(text):
    assert changed(text) == {"runtimes": {"nvidia": {"path": RUNC}}, "features": {"cdi": True}}


def test_a_file_that_is_no_json_is_refused_with_its_line_and_column():
    broken = '{\n  "insecure-registries": ["a"]}\n  },\n  "debug": true\n}\n'

    with pytest.raises(ConfigFileError) as refused:
        docker.plan(DAEMON, broken, wanted())

    assert f"{DAEMON} is no valid JSON" in refused.value.what
    assert "at line 3, column 3" in refused.value.what


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1e999}', "the number 1e999 cannot be kept as it is"),
        ('{"a": 12345678901234567890.123}', "cannot be kept as it is"),
        ('{"a": NaN}', "NaN is no JSON"),
        ('{"c": 1, "c": 2}', "c stands in it twice"),
        ('{"a": "\\ud800"}', "half a character"),
        ('{"a": ' + "9" * 6000 + "}", "is no valid JSON"),
    ],
)
def test_what_could_not_be_written_back_as_it_was_is_refused(text, said):
    with pytest.raises(ConfigFileError, match=said) as refused:
        docker.plan(DAEMON, text, wanted())
    assert refused.value.next_step == f"correct {DAEMON}; it was left as it is"


def test_numbers_that_can_be_kept_are():
    assert changed('{"a": 0.10, "b": 1e3}')["a"] == 0.1


def test_the_default_runtime_is_not_ours_to_change():
    assert changed(json.dumps({"default-runtime": "runsc"}))["default-runtime"] == "runsc"
    assert changed("{}", wanted(default=True))["default-runtime"] == "nvidia"


def test_a_runtime_of_ours_keeps_what_somebody_gave_it_beside_the_path():
    there = {"runtimes": {"nvidia": {"path": "/old", "runtimeArgs": ["--debug"]}}}

    assert changed(json.dumps(there))["runtimes"]["nvidia"] == {"path": RUNC, "runtimeArgs": ["--debug"]}


def test_a_second_run_writes_nothing():
    (change,) = docker.plan(DAEMON, json.dumps(BUSY, indent=2), wanted()).files

    assert docker.plan(DAEMON, change.after, wanted()).files == ()
    assert '\n  "hosts"' in change.after  # indented as it was


def test_crio_gets_one_drop_in_with_its_own_runtime_by_our_name():
    conf = (
        '[crio.runtime]\ndefault_runtime = "crun"\n'
        '[crio.runtime.runtimes.crun]\nmonitor_path = "/usr/libexec/conmon"\n'
    )

    (change,) = crio.plan(crio.Files(CONF, DROP_IN, {CONF: conf}), wanted()).files

    assert change.path == DROP_IN
    assert tomllib.loads(change.after) == {
        "crio": {
            "runtime": {
                "runtimes": {
                    "nvidia": {
                        "monitor_path": "/usr/libexec/conmon",
                        "runtime_path": RUNC,
                        "runtime_type": "oci",
                    }
                }
            }
        }
    }


def test_crio_reads_every_file_below_its_directory_folder_by_folder():
    """Whatever it is called: an editor's copy counts, and 10-a/ comes before 10-a.conf."""
    folder = DROP_IN[: DROP_IN.rindex("/")]
    texts = {
        f"{folder}/10-a.conf": "[crio.runtime]\npids_limit = 1\n",
        f"{folder}/10-a/z.conf.bak": "[crio.runtime]\npids_limit = 2\nlog_level = 'debug'\n",
    }

    merged = crio.merged(crio.Files(CONF, DROP_IN, texts))

    assert merged["crio"]["runtime"] == {"pids_limit": 1, "log_level": "debug"}


def test_crio_takes_a_runtime_whole_from_the_last_file_that_has_it():
    later = {
        f"{DROP_IN[: DROP_IN.rindex('/')]}/zz.conf": '[crio.runtime.runtimes.nvidia]\nruntime_path = "/x"\n'
    }

    with pytest.raises(RefusedPlan) as refused:
        crio.plan(crio.Files(CONF, DROP_IN, later), wanted())

    assert f"a file that sorts after {DROP_IN} decides" in refused.value.why
