"""The stubs are what the .proto files say, and live beside the product's in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuready_sim.kubelet.protos.regenerate import HERE, PROTOS, regenerate


def test_the_committed_stubs_are_what_the_proto_files_generate(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    for written in regenerate(tmp_path):
        assert (HERE / written).read_text() == (tmp_path / written).read_text(), f"{written} is out of date"


def test_both_copies_of_an_api_load_in_one_process() -> None:
    import importlib

    for proto in PROTOS:
        module = proto.removesuffix(".proto").replace("/", ".") + "_pb2"
        ours = importlib.import_module(f"gpuready_sim.kubelet.protos.{module}")
        theirs = importlib.import_module(f"gpuready.protos.{module}")
        assert ours.DESCRIPTOR.serialized_pb == theirs.DESCRIPTOR.serialized_pb
