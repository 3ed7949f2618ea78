"""What CI does where parts are missing or slow, with a `make` that only pretends."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / ".ci/run"
FOUND = ("cc", "promtool", "kubectl", "podman", "crun", "runc", "busybox", "apt-get")
MAKE = """#!/bin/sh
case $1 in {cases} esac
"""


class Ci:
    def __init__(self, tree: Path) -> None:
        (tree / ".ci").mkdir()
        self._script = tree / ".ci/run"
        shutil.copy(RUN, self._script)
        self._programs = tree / "bin"
        self._programs.mkdir()
        for name in FOUND:
            self.has(name)

    def has(self, name: str) -> None:
        (self._programs / name).symlink_to("/bin/true")

    def has_seconds(self, seconds: int) -> None:
        text = self._script.read_text()
        assert "LIMIT_S=3300" in text
        self._script.write_text(text.replace("LIMIT_S=3300", f"LIMIT_S={seconds}"))

    def run(self, **targets: str) -> tuple[int, list[str]]:
        """Exit status and the last lines, from the tiers that ran on, N for seconds.

        targets  what `make TARGET` does
        """
        make = self._programs / "make"
        make.write_text(
            MAKE.format(cases=" ".join(f"{k.replace('_', '-')}) {v};;" for k, v in targets.items()))
        )
        make.chmod(0o755)
        done = subprocess.run(
            ["bash", self._script],
            env={"PATH": f"{self._programs}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        lines = re.sub(r"(in|after) \d+ s", r"\1 N s", done.stdout).splitlines()
        return done.returncode, [line.strip() for line in lines[lines.index("== tiers that ran") + 1 :]]


@pytest.fixture
def ci(tmp_path: Path) -> Ci:
    return Ci(tmp_path)


def tiers(told: list[str]) -> list[str]:
    return [line.partition(":")[0] for line in told[: told.index("== tiers that did not run")]]


def test_with_everything_there_every_tier_runs(ci: Ci) -> None:
    ci.has("go")
    code, told = ci.run()
    assert code == 0
    assert tiers(told) == [
        *("setup", "test", "check", "demo", "kubernetes", "test-node", "e2e", "conformance", "soak")
    ]


def test_without_go_what_needs_real_kubernetes_is_named_as_not_run(ci: Ci) -> None:
    if shutil.which("go", path="/usr/bin:/bin"):
        pytest.skip("Go is where every program is")
    code, told = ci.run()
    assert code == 0
    assert "conformance" not in tiers(told)
    assert told[-1].endswith("kubernetes, conformance, e2e: Go is not here to build real Kubernetes")


def test_a_build_that_takes_too_long_is_cut_off_and_what_needs_it_does_not_run(ci: Ci) -> None:
    ci.has("go")
    ci.has_seconds(1)
    code, told = ci.run(kubernetes="sleep 30")
    assert code == 0
    assert tiers(told) == ["setup", "test", "check", "demo", "test-node", "soak"]
    assert "kubernetes: cut off after N s, since all of it has 1 s; not judged" in told


def results(skipped: int, tests: int) -> str:
    """As a run of pytest that is asked for them."""
    line = f'<testsuite name="pytest" errors="0" failures="0" skipped="{skipped}" tests="{tests}" time="1.0">'
    return f"file=${{PYTEST_ADDOPTS#--junitxml=}}; mkdir -p ${{file%/*}}; echo '{line}' > $file"


def test_a_tier_whose_tests_were_all_skipped_did_not_run(ci: Ci) -> None:
    ci.has("go")
    code, told = ci.run(e2e=results(20, 20), test_node=results(3, 40), conformance=results(0, 50))
    assert code == 0
    assert "e2e: nothing of it ran, each of its 20 tests was skipped; see why above" in told
    assert "e2e" not in tiers(told)
    assert "test-node: passed in N s; 3 of 40 tests skipped, see why above" in told
    assert "conformance: passed in N s" in told


def test_what_fails_is_named_and_fails_the_run(ci: Ci) -> None:
    ci.has("go")
    code, told = ci.run(e2e="exit 2")
    assert code == 1
    assert "e2e: FAILED after N s" in told
