"""Which devices are shown."""

from __future__ import annotations

import pytest
from tests.unit.operands.exporter.gpus import GPU_TEMP, SERIAL, USED, gpu, mig_gpu, sample

from gpuready.errors import UsageError
from gpuready.gpu.telemetry.model import Collection
from gpuready.operands.exporter.selection import numbers_missing, parse_selection, repeated, selected

PLAIN, CUT = gpu(0), mig_gpu(1, gi1="1g.10gb", gi5="2g.20gb")
ALL = Collection(
    (PLAIN, CUT),
    (
        sample(USED, 1, PLAIN),
        sample(GPU_TEMP, 40, PLAIN),
        sample(GPU_TEMP, 41, CUT),
        sample(USED, 2, CUT, instance=CUT.instances[0]),
        sample(USED, 3, CUT, instance=CUT.instances[1]),
    ),
)


def places(collection: Collection) -> list[str]:
    return [
        f"{each.entity.uuid}{f'/{each.entity.instance.id}' if each.entity.instance else ''} {each.value}"
        for each in collection.samples
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("f", ["GPU-0 1", "GPU-0 40", "GPU-1 41", "GPU-1/1 2", "GPU-1/5 3"], id="all"),
        pytest.param("g", ["GPU-0 1", "GPU-0 40", "GPU-1 41"], id="GPUs"),
        pytest.param("g:1", ["GPU-1 41"], id="one GPU"),
        pytest.param("g:0-1", ["GPU-0 1", "GPU-0 40", "GPU-1 41"], id="a range"),
        pytest.param("i", ["GPU-1/1 2", "GPU-1/5 3"], id="instances"),
        pytest.param("i:1", ["GPU-1/5 3"], id="the second instance of the node"),
    ],
)
def test_devices_are_chosen_as_the_original_chooses_them(text, wanted):
    found = selected(ALL, parse_selection(text))

    assert places(found) == wanted
    assert found.devices == ALL.devices, "holders of the others are still named"


def test_an_instance_that_is_shown_alone_has_the_labels_of_its_gpu():
    serials = Collection(ALL.devices, (*ALL.samples, sample(SERIAL, "1650", CUT)))

    assert places(selected(serials, parse_selection("i:0"), [SERIAL.id])) == ["GPU-1/1 2", "GPU-1 1650"]


@pytest.mark.parametrize("text", ["", "x", "f:0", "g:", "g:a", "g:0-", "g:1:2", "g+i", "i:-1"])
def test_what_chooses_nothing_is_refused(text):
    with pytest.raises(UsageError, match="it must be f, g or i"):
        parse_selection(text)


def test_numbers_that_no_device_has_are_known():
    assert numbers_missing(ALL, parse_selection("g:0,7")) == [7]
    assert numbers_missing(ALL, parse_selection("i:0-2")) == [2]
    assert numbers_missing(ALL, parse_selection("f")) == ()


def test_values_of_the_gpu_are_repeated_for_each_instance_on_request_alone():
    assert places(repeated(ALL)) == [
        "GPU-0 1",
        "GPU-0 40",
        "GPU-1/1 41",
        "GPU-1/5 41",
        "GPU-1/1 2",
        "GPU-1/5 3",
    ]
