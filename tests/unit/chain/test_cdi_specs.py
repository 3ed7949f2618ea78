"""What is wrong with a node's CDI specs: each cause by its own name, with file and next step."""

from __future__ import annotations

import pytest

from gpuready.chain.cdi_specs import (
    NAMES_TAKEN,
    UNWRITABLE,
    Crossed,
    KeptSpec,
    SpecFacts,
    SpecFile,
    problems_of,
)
from gpuready.chain.toolkit import ToolkitFacts, ToolkitRecord, judge
from gpuready.chain.verdict import State

GPU, GPU_FILE = "nvidia.com/gpu", "/var/run/cdi/nvidia.com-gpu.json"
PLUGIN, PLUGIN_FILE = "k8s.device-plugin.nvidia.com/gpu", "/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
FOREIGN = "/var/run/cdi/nvidia.yaml"
OK = KeptSpec(GPU, GPU_FILE)


def facts(**changes: object) -> SpecFacts:
    base = {"files": (SpecFile(GPU_FILE, GPU),), "kept": (OK,), "there": frozenset({GPU_FILE})}
    return SpecFacts(**{**base, **changes})  # type: ignore[arg-type]


def kept(reason: str, **changes: object) -> tuple[KeptSpec, ...]:
    return (KeptSpec(**{"kind": GPU, "file": GPU_FILE, "reason": reason, **changes}),)  # type: ignore[arg-type]


CAUSES = [
    pytest.param(
        facts(kept=kept("NVML does not answer: Driver Not Loaded", stale=True)),
        "CdiSpecStale",
        f"the CDI spec of nvidia.com/gpu ({GPU_FILE}) is of an earlier state: NVML does not answer",
        "gpuready cdi check",
        id="the last good one, marked stale",
    ),
    pytest.param(
        facts(kept=kept("/dev/nvidia0 does not exist", is_written=False), files=(), there=frozenset()),
        "CdiSpecMissing",
        f"there is no CDI spec of nvidia.com/gpu ({GPU_FILE}): /dev/nvidia0 does not exist",
        "the spec is written anew",
        id="none could ever be made",
    ),
    pytest.param(
        facts(files=(), there=frozenset()),
        "CdiSpecMissing",
        f"{GPU_FILE}, the CDI spec of nvidia.com/gpu, is gone and nobody writes it anew",
        "look at the toolkit's pod on this node",
        id="somebody took it away",
    ),
    pytest.param(
        facts(kept=kept(f"cannot write {GPU_FILE}: Read-only file system", cause=UNWRITABLE)),
        "CdiSpecNotWritten",
        f"is not written anew: cannot write {GPU_FILE}: Read-only file system; the one of before stays",
        "make writable, the file system of /var/run/cdi",
        id="the directory cannot be written",
    ),
    pytest.param(
        facts(kept=kept("two files define the same names", cause=NAMES_TAKEN, others=(FOREIGN, "/f.json"))),
        "CdiNamesTaken",
        "gives way: two files define the same names",
        f"remove {FOREIGN} and /f.json: {GPU_FILE} then defines them all",
        id="another program defines our names",
    ),
    pytest.param(
        facts(crossed=(Crossed((GPU_FILE, FOREIGN), "nvidia.com/gpu=0", 3),)),
        "CdiNameConflict",
        f"{GPU_FILE} and {FOREIGN} both define nvidia.com/gpu=0 and 2 more: no runtime takes either",
        f"remove {FOREIGN}",
        id="two files define one name",
    ),
    pytest.param(
        facts(files=(SpecFile(FOREIGN, refused=("it is no valid YAML (at line 3, column 7)",)),)),
        "CdiSpecRefused",
        f"{FOREIGN} is refused by every runtime: it is no valid YAML (at line 3, column 7)",
        f"correct or remove {FOREIGN}",
        id="one that cannot be parsed",
    ),
    pytest.param(
        facts(files=(SpecFile(GPU_FILE, GPU, missing=("/a", "/b", "/c", "/d")),)),
        "CdiHostPathMissing",
        f"{GPU_FILE} names 4 paths not on the host: /a, /b, /c and 1 more",
        "put the files back",
        id="host paths are gone",
    ),
    pytest.param(
        facts(unread=(("/var/run/cdi", "Not a directory"),)),
        "CdiDirectoryUnreadable",
        "/var/run/cdi cannot be read: Not a directory",
        "make /var/run/cdi a directory",
        id="the directory cannot be read",
    ),
]


@pytest.mark.parametrize(("given", "reason", "said", "step"), CAUSES)
def test_each_cause_has_a_name_a_file_and_a_next_step(given, reason, said, step):
    (found,) = problems_of(given)

    assert found.problem.reason == reason
    assert said in found.problem.message
    assert step in found.problem.next_step
    assert not found.stops_pods


@pytest.mark.parametrize(("given", "reason", "said", "step"), CAUSES)
def test_the_toolkit_link_is_degraded_by_it_and_its_verdict_says_the_same(given, reason, said, step):
    record = ToolkitRecord("containerd", "2.2.1", "/etc/containerd/config.toml", whole=True)

    verdict = judge(ToolkitFacts(wanted=True, record=record, deploy_label="true", specs=given))

    assert (verdict.state, verdict.reason) == (State.DEGRADED, reason)
    assert verdict.message.startswith("containerd 2.2.1 knows the handlers; ")
    assert said in verdict.message
    assert step in verdict.next_step


def test_where_every_name_resolves_nothing_is_said():
    assert problems_of(facts()) == []
    assert problems_of(SpecFacts()) == [], "a toolkit that has only just begun has written nothing"


STOPS = [
    pytest.param(facts(files=(SpecFile(PLUGIN_FILE, PLUGIN, missing=("/usr/lib/x",)),)), id="host path"),
    pytest.param(facts(files=(SpecFile(PLUGIN_FILE, refused=("no",)),)), id="refused"),
    pytest.param(facts(crossed=(Crossed((PLUGIN_FILE, FOREIGN), f"{PLUGIN}=GPU-0"),)), id="conflict"),
]


@pytest.mark.parametrize("given", STOPS)
@pytest.mark.parametrize("original", [True, False])
def test_what_stops_pods_from_starting_breaks_the_link(given, original):
    record = None if original else ToolkitRecord("containerd", "2.2.1", whole=True)
    toolkit = ToolkitFacts(wanted=True, original=original, gate=original, record=record, specs=given)

    assert judge(toolkit).state is State.BROKEN


def test_what_stops_pods_is_told_first_and_the_rest_is_evidence():
    given = facts(
        kept=kept("NVML does not answer", stale=True),
        files=(SpecFile(PLUGIN_FILE, PLUGIN, missing=("/usr/lib/x",)),),
    )
    record = ToolkitRecord("containerd", "2.2.1", whole=True)

    verdict = judge(ToolkitFacts(wanted=True, record=record, specs=given))

    assert verdict.reason == "CdiHostPathMissing"
    assert [line.partition(":")[0] for line in verdict.evidence] == ["CdiSpecStale"]


def test_files_that_left_with_the_driver_are_the_drivers_link_to_tell():
    given = facts(files=(SpecFile(PLUGIN_FILE, PLUGIN, missing=("/usr/lib/x",)),))
    record = ToolkitRecord("containerd", "2.2.1", whole=True)

    verdict = judge(ToolkitFacts(wanted=True, record=record, specs=given, has_driver=False))

    assert verdict.state is State.DEGRADED
