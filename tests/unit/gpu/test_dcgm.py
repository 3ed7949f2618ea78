"""What we believe of libdcgm's layouts, and what its refusals tell."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gpuready.gpu import dcgm
from gpuready.gpu.dcgm import DcgmError

# name in dcgm_structs.h -> ours; size; version; offsets of members by their names there
LAYOUTS = [
    ("dcgmConnectV2Params_v2", dcgm.ConnectOptions, 16, 2, {"timeoutMs": 8, "addressIsUnixSocket": 12}),
    (
        "dcgmStartEmbeddedV2Params_v1",
        dcgm.EmbeddedOptions,
        72,
        1,
        {"opMode": 4, "dcgmHandle": 8, "logFile": 16, "severity": 24, "denyListCount": 28, "denyList": 32},
    ),
    ("dcgmGroupEntityPair_t", dcgm.EntityPair, 8, None, {"entityId": 4}),
    ("dcgmMigHierarchyInfo_v2", dcgm.MigEntry, 164, None, {"parent": 8, "info": 16}),
    ("dcgmMigEntityInfo_t", dcgm.MigInfo, 148, None, {"nvmlInstanceId": 132, "nvmlProfileSlices": 144}),
    ("dcgmMigHierarchy_v2", dcgm.MigHierarchy, 73480, 2, {"count": 4, "entityList": 8}),
    (
        "dcgmFieldValue_v2",
        dcgm.FieldValue,
        4128,
        2,
        {"entityId": 8, "fieldId": 12, "fieldType": 14, "status": 16, "ts": 24, "value": 32},
    ),
    ("dcgmVersionInfo_v2", dcgm.VersionInfo, 516, 2, {"rawBuildInfoString": 4}),
]
# Source: what a C compiler makes of dcgm_structs.h of DCGM v3.1.8, v3.3.9, v4.0.0 and v4.6.0.


@pytest.mark.parametrize(
    ("name", "layout", "size", "version", "offsets"), LAYOUTS, ids=lambda each: str(each)
)
def test_a_layout_is_as_the_public_headers_have_it(name, layout, size, version, offsets):
    assert ctypes.sizeof(layout) == size
    ours = {getattr(layout, member).offset for member, *_ in layout._fields_}
    assert set(offsets.values()) <= ours, name


@pytest.mark.skipif(
    not os.environ.get("GPUREADY_DCGM_HEADERS") or not shutil.which("cc"),
    reason="GPUREADY_DCGM_HEADERS names no folder with dcgm_structs.h, or there is no cc",
)
def test_a_compiler_makes_the_same_of_these_headers(tmp_path: Path):
    """With the headers of any DCGM 3.1 to 4.6: they are not part of this repository."""
    claims = []
    for name, _, size, version, offsets in LAYOUTS:
        claims.append(f'_Static_assert(sizeof({name}) == {size}, "{name}");')
        if version:
            claims.append(
                f'_Static_assert(MAKE_DCGM_VERSION({name}, {version}) == {size | version << 24}, "");'
            )
        claims += [
            f'_Static_assert(offsetof({name}, {member}) == {at}, "{name}.{member}");'
            for member, at in offsets.items()
        ]
    claims += [
        f'_Static_assert(DCGM_ST_{word} == {code}, "{word}");'
        for word, code in (
            ("NO_DATA", dcgm.NO_DATA),
            ("CONNECTION_NOT_VALID", dcgm.CONNECTION_NOT_VALID),
            ("GROUP_INCOMPATIBLE", dcgm.GROUP_INCOMPATIBLE),
            ("PROFILING_NOT_SUPPORTED", -36),
        )
    ]
    claims += [
        f'_Static_assert(DCGM_FE_{word} == {int(group)}, "{word}");'
        for word, group in (("GPU", dcgm.Group.GPU), ("GPU_I", 4), ("GPU_CI", 5), ("LINK", 6))
    ]
    source = tmp_path / "claims.c"
    source.write_text("#include <stddef.h>\n#include <dcgm_structs.h>\n" + "\n".join(claims) + "\n")
    headers = os.environ["GPUREADY_DCGM_HEADERS"]
    command = ["cc", "-w", "-fsyntax-only", f"-I{headers}", str(source)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr


def test_a_refusal_names_call_and_code_and_what_to_look_at():
    error = DcgmError(-21, "dcgmConnect_v2")
    assert error.what == "dcgmConnect_v2 answered ConnectionNotValid (-21)"
    assert error.next_step == "is nv-hostengine up, and does it listen at this address?"
    assert error.ends_session
    assert not DcgmError(-36, "dcgmWatchFields").ends_session
    assert DcgmError(-99, "dcgmInit").name == "Code-99"


def test_a_file_that_is_no_library_is_told_as_such(tmp_path: Path):
    (tmp_path / "libdcgm.so.4").write_text("no library" * 100)
    with pytest.raises(DcgmError, match=r"dlopen answered LibraryNotFound \(-25\): .*invalid ELF header"):
        dcgm.load(tmp_path / "libdcgm.so.4")
