"""Compiling the C parts: what is said without a compiler, and what is not compiled twice."""

from __future__ import annotations

import pytest

from gpuready_sim.cluster import processes
from gpuready_sim.nvml.build import BuildError, build


def test_without_a_compiler_the_error_names_it_and_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")

    with pytest.raises(BuildError, match=r"no-such-compiler is not on PATH.*set CC"):
        build(tmp_path)


def test_what_is_current_is_not_compiled_again(tmp_path, monkeypatch):
    """With a compiler that only writes down that it ran: the real one has made what all other tests load."""
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nfor last; do [ "$before" = -o ] && : > "$last"; before=$last; done\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    built = build(tmp_path)
    names = {file.name: file.stat().st_mtime_ns for file in built.iterdir()}
    written = built.stat().st_mtime_ns
    monkeypatch.setenv("CC", "no-such-compiler")

    assert build(tmp_path) == built
    assert built.stat().st_mtime_ns == written, "who may only read it can run it"
    assert {file.name: file.stat().st_mtime_ns for file in built.iterdir()} == names
    assert set(names) == {"libnvidia-ml.so", "libcuda.so", "libdcgm.so", "launch"}


def test_a_place_that_may_not_be_written_is_not_called_a_missing_compiler(monkeypatch):
    def refuse():
        raise PermissionError(13, "Permission denied", "/usr/lib/gpuready_sim/_native")

    monkeypatch.setattr(processes, "native_dir", refuse)
    with pytest.raises(processes.ProcessError) as caught:
        processes.ensure_native()
    assert caught.value.what.endswith("older than their sources, and cannot be built here")
    assert caught.value.next_step == "let the owner of that directory run `make setup`"
