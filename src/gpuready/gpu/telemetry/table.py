"""The table of fields that can be read without DCGM: what each is, its unit, and how NVML tells it.

Source: DCGM v4.6.0, dcgmlib/src/DcgmCacheManager.cpp and dcgm_fields.cpp: ids, units, NVML calls, metrics;
where a field of DCGM is published in a wrong unit (1080-1083) ours is the right one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuready.gpu.telemetry.model import Field, Kind, Scope
from gpuready.gpu.telemetry.sources import (
    LINK,
    WHOLE_GPU,
    Derived,
    Fact,
    FieldValue,
    Getter,
    Gpm,
    Missing,
    Rate,
    Source,
    Unit,
)

XID_ERRORS = 230
EXP_XID_COUNT, EXP_CLOCK_EVENTS, EXP_HEALTH, EXP_P2P = 9001, 9002, 9003, 9004
XID_TOTAL, XID_LAST_TIME = 20001, 20002
CLOCK_EVENT_ACTIVE, CLOCK_EVENT_SECONDS = 20003, 20004
LAST_BUSY_TIME = 20005

_RATIO, _BYTES = 0.01, float(2**20)
_MIB = Unit(per=2**20)
_WATTS = Unit(per=1000, whole=False)
_MB_PER_S = Unit(per=1000)  # of KiB for each second: DCGM divides by 1000 and calls it MB/s
_CELSIUS = Unit(limit=200)
_LINKS = range(18)
_BRANDS = {
    0: "Unknown", 1: "Quadro", 2: "Tesla", 3: "NVS", 4: "GRID", 5: "GeForce", 6: "Titan",
    7: "NVIDIA vApps", 8: "NVIDIA VPC", 9: "NVIDIA VCS", 10: "NVIDIA VWS", 11: "NVIDIA Cloud Gaming",
    12: "Quadro RTX", 13: "NVIDIA RTX", 14: "NVIDIA", 15: "GeForce RTX", 16: "Titan RTX",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A field and its sources, tried in order."""

    field: Field
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the table below; `sources` in the order of trying."""

    id: int
    help: str
    sources: tuple[Source, ...]
    kind: Kind = Kind.GAUGE
    unit: str = ""
    scope: Scope = Scope.GPU


def dcgm_rows(names: Mapping[int, tuple[str, ...]]) -> Iterator[Row]:
    for line in _lines():
        name, *aliases = names[line.id]
        profiling = isinstance(line.sources[0], Gpm)
        yield Row(
            Field(line.id, name, tuple(aliases), line.unit, line.kind, line.scope, line.help, profiling),
            line.sources,
        )


def _lines() -> Iterator[_Line]:
    yield from _identity()
    yield from _clocks_and_temperatures()
    yield from _power()
    yield from _load_and_pcie()
    yield from _memory()
    yield from _errors()
    yield from _nvlink()
    yield from _profiling()


def _label(field_id: int, help: str, *sources: Source, scope: Scope = Scope.GPU) -> _Line:
    return _Line(field_id, help, sources, Kind.LABEL, scope=scope)


def _gauge(field_id: int, help: str, *sources: Source, unit: str = "", scope: Scope = Scope.GPU) -> _Line:
    return _Line(field_id, help, sources, Kind.GAUGE, unit, scope)


def _counter(field_id: int, help: str, *sources: Source, unit: str = "") -> _Line:
    return _Line(field_id, help, sources, Kind.COUNTER, unit)


def _identity() -> Iterator[_Line]:
    yield _label(1, "driver version", Fact("driver_version"), scope=Scope.NODE)
    yield _label(2, "NVML version", Fact("nvml_version"), scope=Scope.NODE)
    yield _gauge(4, "GPUs of the node", Fact("count"), scope=Scope.NODE)
    yield _gauge(5, "CUDA version of the driver", Fact("cuda_version"), scope=Scope.NODE)
    yield _label(50, "product name; of an instance, its profile", Fact("name"), scope=Scope.INSTANCE)
    yield _label(51, "brand", Getter("nvmlDeviceGetBrand", words=_BRANDS))
    yield _gauge(52, "NVML index", Fact("index"))
    yield _label(53, "serial number of the board", Getter("nvmlDeviceGetSerial"))
    yield _label(54, "UUID of the GPU", Fact("uuid"))
    yield _gauge(55, "minor number of the device file", Fact("minor"))
    yield _label(56, "version of the OEM infoROM", Getter("nvmlDeviceGetInforomVersion", (0,)))
    yield _label(57, "PCI bus id", Fact("pci_bus_id"))
    yield _gauge(65, "compute mode", Getter("nvmlDeviceGetComputeMode"))
    yield _gauge(66, "persistence mode", Getter("nvmlDeviceGetPersistenceMode"))
    yield _gauge(67, "1 when MIG is on", Getter("nvmlDeviceGetMigMode", pick=0))
    yield _gauge(69, "MIG devices at most", Getter("nvmlDeviceGetMaxMigDeviceCount"))
    yield _label(80, "version of the ECC infoROM", Getter("nvmlDeviceGetInforomVersion", (1,)))
    yield _label(81, "version of the power infoROM", Getter("nvmlDeviceGetInforomVersion", (2,)))
    yield _label(82, "version of the infoROM image", Getter("nvmlDeviceGetInforomImageVersion"))
    yield _gauge(84, "1 when the infoROM is valid", Fact("inforom_valid"))
    yield _label(85, "VBIOS version", Getter("nvmlDeviceGetVbiosVersion"))
    yield _gauge(94, "1 when the GPU has GPM", Fact("gpm_supported"))


def _clocks_and_temperatures() -> Iterator[_Line]:
    sm, mem, video, graphics = 1, 2, 3, 0
    for field_id, help, clock in (
        (100, "SM clock", sm),
        (101, "memory clock", mem),
        (102, "video clock", video),
    ):
        yield _gauge(field_id, f"{help} (MHz)", Getter("nvmlDeviceGetClockInfo", (clock,)), unit="MHz")
        at_most = Getter("nvmlDeviceGetMaxClockInfo", (clock,))
        yield _gauge(field_id + 13, f"{help} at most (MHz)", at_most, unit="MHz")
    for field_id, help, clock in ((110, "graphics", graphics), (111, "memory", mem)):
        asked = Getter("nvmlDeviceGetApplicationsClock", (clock,))
        yield _gauge(field_id, f"{help} clock asked for applications (MHz)", asked, unit="MHz")
    reasons = (
        Getter("nvmlDeviceGetCurrentClocksEventReasons"),
        Getter("nvmlDeviceGetCurrentClocksThrottleReasons"),
    )
    yield _gauge(112, "why the clocks are what they are, as bits", *reasons)
    yield _gauge(140, "memory temperature (C)", FieldValue(82, unit=_CELSIUS), unit="C")
    temperature = Getter("nvmlDeviceGetTemperature", (0,), unit=_CELSIUS)
    yield _gauge(150, "GPU temperature (C)", temperature, unit="C")
    thresholds = (
        (151, "highest memory temperature for operation", 2),
        (152, "highest GPU temperature for operation", 3),
        (158, "temperature at which the GPU slows down", 1),
        (159, "temperature at which the GPU shuts down", 0),
    )
    for field_id, help, threshold in thresholds:
        source = Getter("nvmlDeviceGetTemperatureThreshold", (threshold,))
        yield _gauge(field_id, f"{help} (C)", source, unit="C")
    yield _gauge(153, "distance to the slowdown (C)", Getter("nvmlDeviceGetMarginTemperature"), unit="C")
    yield _gauge(190, "performance state", Getter("nvmlDeviceGetPerformanceState"))
    yield _gauge(191, "fan speed (%)", Getter("nvmlDeviceGetFanSpeed"), unit="%")


def _power() -> Iterator[_Line]:
    yield _gauge(155, "power draw (W)", Getter("nvmlDeviceGetPowerUsage", unit=_WATTS), unit="W")
    energy = (FieldValue(83), Getter("nvmlDeviceGetTotalEnergyConsumption"))
    yield _counter(156, "energy since the driver was loaded (mJ)", *energy, unit="mJ")
    yield _gauge(157, "power draw at this moment (W)", FieldValue(186, unit=_WATTS), unit="W")
    limits = (
        (160, "power limit that is set", Getter("nvmlDeviceGetPowerManagementLimit", unit=_WATTS)),
        (161, "lowest power limit", Getter("nvmlDeviceGetPowerManagementLimitConstraints", (), 0, _WATTS)),
        (162, "highest power limit", Getter("nvmlDeviceGetPowerManagementLimitConstraints", (), 1, _WATTS)),
        (163, "default power limit", Getter("nvmlDeviceGetPowerManagementDefaultLimit", unit=_WATTS)),
        (164, "power limit in force", Getter("nvmlDeviceGetEnforcedPowerLimit", unit=_WATTS)),
    )
    for field_id, help, source in limits:
        yield _gauge(field_id, f"{help} (W)", source, unit="W")
    for number, (policy, code) in enumerate(_POLICIES.items()):
        status = Getter("nvmlDeviceGetViolationStatus", (code,), "violationTime")
        help = f"time held back by {policy.replace('_', ' ')} (ns)"
        yield _counter(240 + number, help, FieldValue(74 + number), status, unit="ns")
    reasons = ((1420, 74), (1421, 76), (1422, 269), (1423, 270), (1424, 271))
    words = (
        "power cap",
        "sync boost",
        "software thermal slowdown",
        "hardware thermal slowdown",
        "power brake",
    )
    for (field_id, value), word in zip(reasons, words, strict=True):
        yield _counter(field_id, f"time under {word} (ns)", FieldValue(value), unit="ns")


_POLICIES = {
    "power": 0, "thermal": 1, "sync_boost": 2, "board_limit": 3, "low_utilization": 4, "reliability": 5,
    "app_clocks": 10, "base_clocks": 11,
}  # fmt: skip


def _load_and_pcie() -> Iterator[_Line]:
    rates = "nvmlDeviceGetUtilizationRates"
    yield _gauge(203, "GPU utilisation (%)", Getter(rates, pick="gpu"), unit="%")
    yield _gauge(204, "memory controller utilisation (%)", Getter(rates, pick="memory"), unit="%")
    yield _gauge(206, "encoder utilisation (%)", Getter("nvmlDeviceGetEncoderUtilization", pick=0), unit="%")
    yield _gauge(207, "decoder utilisation (%)", Getter("nvmlDeviceGetDecoderUtilization", pick=0), unit="%")
    throughput = "nvmlDeviceGetPcieThroughput"
    yield _gauge(200, "sent over PCIe (KB/s)", Getter(throughput, (0,)), unit="KB/s")
    yield _gauge(201, "received over PCIe (KB/s)", Getter(throughput, (1,)), unit="KB/s")
    replays = (Getter("nvmlDeviceGetPcieReplayCounter"), FieldValue(94))
    yield _counter(202, "PCIe replays", *replays)
    yield _gauge(235, "highest PCIe generation", Getter("nvmlDeviceGetMaxPcieLinkGeneration"))
    yield _gauge(236, "highest PCIe width (lanes)", Getter("nvmlDeviceGetMaxPcieLinkWidth"), unit="lanes")
    yield _gauge(237, "PCIe generation", Getter("nvmlDeviceGetCurrPcieLinkGeneration"))
    yield _gauge(238, "PCIe width (lanes)", Getter("nvmlDeviceGetCurrPcieLinkWidth"), unit="lanes")
    yield _counter(1501, "correctable PCIe errors", FieldValue(173))


def _memory() -> Iterator[_Line]:
    for field_id, part in ((90, "bar1Total"), (92, "bar1Used"), (93, "bar1Free")):
        source = Getter("nvmlDeviceGetBAR1MemoryInfo", pick=part, unit=_MIB)
        yield _gauge(field_id, f"BAR1 {part[4:].lower()} (MiB)", source, unit="MiB", scope=Scope.INSTANCE)
    for field_id, part in ((250, "total"), (251, "free"), (252, "used"), (253, "reserved")):
        yield _gauge(
            field_id, f"memory {part} (MiB)", Fact(f"memory_{part}"), unit="MiB", scope=Scope.INSTANCE
        )
    share = Fact("memory_used_ratio")
    yield _gauge(254, "share of the memory in use", share, unit="ratio", scope=Scope.INSTANCE)


def _errors() -> Iterator[_Line]:
    yield _gauge(230, "XID raised last, 0 when none is recent", Derived("last_xid"))
    yield _gauge(170, "state of the fabric manager", Fact("fabric_state"))
    yield _gauge(300, "1 when ECC is on", FieldValue(1))
    yield _gauge(301, "1 when ECC will be on after a reboot", FieldValue(2))
    for number, kind in enumerate(("single-bit, since the reset", "double-bit, since the reset")):
        yield _counter(310 + number, f"ECC errors, {kind}", FieldValue(3 + number))
    for number, kind in enumerate(("single-bit, ever", "double-bit, ever")):
        yield _counter(312 + number, f"ECC errors, {kind}", FieldValue(5 + number))
    for number, level in enumerate(("max", "high", "partial", "low", "none")):
        source = Getter("nvmlDeviceGetRowRemapperHistogram", pick=level)
        yield _gauge(385 + number, f"banks whose spare rows are at {level}", source)
    yield _counter(390, "pages retired for single-bit errors", FieldValue(29))
    yield _counter(391, "pages retired for double-bit errors", FieldValue(30))
    yield _gauge(392, "pages waiting to be retired", FieldValue(31))
    rows = "nvmlDeviceGetRemappedRows"
    yield _counter(393, "rows remapped for uncorrectable errors", FieldValue(143), Getter(rows, pick=1))
    yield _counter(394, "rows remapped for correctable errors", FieldValue(142), Getter(rows, pick=0))
    yield _gauge(395, "1 when a row could not be remapped", FieldValue(145), Getter(rows, pick=3))
    yield _gauge(396, "1 when a remapping waits for a reset", FieldValue(144), Getter(rows, pick=2))
    yield _gauge(526, "1 when the vGPU software is licensed", Fact("vgpu_licensed"))
    unrepairable = Getter("nvmlDeviceGetUnrepairableMemoryFlag_v1")
    yield _gauge(1507, "1 when memory cannot be repaired", unrepairable)
    yield _gauge(1523, "what the driver asks for", FieldValue(230))


def _nvlink() -> Iterator[_Line]:
    c2c = ((285, "C2C links", 170), (286, "C2C link state", 171), (287, "C2C bandwidth at most (MB/s)", 172))
    for field_id, help, value in c2c:
        yield _gauge(field_id, help, FieldValue(value))
    errors = "nvmlDeviceGetNvLinkErrorCounter"
    kinds = (
        ("CRC flit errors", 2, (400, 451), (406, 481), 409, 38, 1525),
        ("CRC data errors", 3, (410, 457), (416, 484), 419, 45, 1526),
        ("replays", 0, (420, 463), (426, 487), 429, 52, 1527),
        ("recoveries", 1, (430, 469), (436, 491), 439, 59, 1528),
    )
    for word, counter, (first, sixth), (twelfth, fifteenth), total, value, by_link in kinds:
        ids = [*range(first, first + 6), *range(sixth, sixth + 6)]
        ids += [*range(twelfth, twelfth + 3), *range(fifteenth, fifteenth + 3)]
        for link, field_id in enumerate(ids):
            yield _counter(field_id, f"NVLink {word} of link {link}", Getter(errors, (link, counter)))
        yield _counter(total, f"NVLink {word} of all links", FieldValue(value, WHOLE_GPU), FieldValue(value))
        yield _by_link(by_link, f"NVLink {word}", Getter(errors, (LINK, counter)), Kind.COUNTER)
    yield from _nvlink_throughput()
    for number in range(16):
        yield _counter(1200 + number, _NVLINK_5[number], FieldValue(_NVLINK_5_VALUES[number], WHOLE_GPU))
    yield _counter(1219, "NVLink effective errors", FieldValue(219, WHOLE_GPU))
    yield _counter(1220, "NVLink ECC data errors", FieldValue(160, WHOLE_GPU))


_NVLINK_5 = (
    "NVLink packets sent", "NVLink bytes sent", "NVLink packets received", "NVLink bytes received",
    "NVLink malformed packets", "NVLink packets dropped, buffer full", "NVLink receive errors",
    "NVLink errors at the far end", "NVLink other receive errors", "NVLink integrity errors",
    "NVLink packets discarded", "NVLink recoveries that helped", "NVLink recoveries that failed",
    "NVLink recoveries", "NVLink symbol errors", "NVLink symbol error rate, as encoded",
)  # fmt: skip
_NVLINK_5_VALUES = (201, 202, 203, 204, 206, 207, 208, 209, 210, 211, 212, 213, 214, 215, 221, 222)


def _nvlink_throughput() -> Iterator[_Line]:
    tx, rx = 138, 139
    both_ids = [*range(440, 446), *range(475, 481), *range(446, 449), *range(494, 497)]
    for link in _LINKS:
        for field_id, word, values in (
            (both_ids[link], "both ways", (tx, rx)),
            (825 + link, "sent", (tx,)),
            (879 + link, "received", (rx,)),
        ):
            source = Rate(tuple((value, link) for value in values), _MB_PER_S)
            yield _gauge(field_id, f"NVLink traffic of link {link}, {word} (MB/s)", source, unit="MB/s")
    for field_id, per_link, word, values in (
        (449, 1529, "both ways", (tx, rx)),
        (843, 1530, "sent", (tx,)),
        (897, 1531, "received", (rx,)),
    ):
        source = Rate(tuple((value, WHOLE_GPU) for value in values), _MB_PER_S)
        yield _gauge(field_id, f"NVLink traffic of all links, {word} (MB/s)", source, unit="MB/s")
        each = Rate(tuple((value, LINK) for value in values), _MB_PER_S)
        yield _by_link(per_link, f"NVLink traffic, {word} (MB/s)", each)


def _by_link(field_id: int, help: str, source: Source, kind: Kind = Kind.GAUGE) -> _Line:
    return _Line(field_id, help, (source,), kind, scope=Scope.LINK)


def _profiling() -> Iterator[_Line]:
    ratios = {
        1001: ("graphics and compute engine busy", 1), 1002: ("SM busy", 2), 1003: ("warps resident", 3),
        1004: ("tensor pipe busy", 5), 1005: ("memory interface busy", 10), 1006: ("FP64 pipe busy", 11),
        1007: ("FP32 pipe busy", 12), 1008: ("FP16 pipe busy", 13), 1013: ("IMMA tensor pipe busy", 9),
        1014: ("HMMA tensor pipe busy", 7), 1015: ("DFMA tensor pipe busy", 6),
        1016: ("integer pipe busy", 4),
    }  # fmt: skip
    ratios |= {1017 + n: (f"video decoder {n} busy", 30 + n) for n in range(8)}
    ratios |= {1025 + n: (f"JPEG decoder {n} busy", 40 + n) for n in range(8)}
    ratios |= {1033 + n: (f"optical flow engine {n} busy", 50 + n) for n in range(2)}
    ratios |= {
        1080: ("host memory cache hits", 160), 1081: ("host memory cache misses", 161),
        1082: ("peer memory cache hits", 162), 1083: ("peer memory cache misses", 163),
    }  # fmt: skip
    for field_id, (what, metric) in ratios.items():
        source = Gpm(metric, _RATIO)
        yield _gauge(field_id, f"share of time or cycles: {what}", source, unit="ratio", scope=Scope.INSTANCE)
    traffic = {1009: ("sent over PCIe", 20), 1010: ("received over PCIe", 21)}
    traffic |= {1011: ("sent over NVLink", 61), 1012: ("received over NVLink", 60)}
    traffic |= {1040 + 2 * n: (f"sent over NVLink {n}", 63 + 2 * n) for n in _LINKS}
    traffic |= {1041 + 2 * n: (f"received over NVLink {n}", 62 + 2 * n) for n in _LINKS}
    traffic |= {1076: ("sent over C2C", 100), 1077: ("data sent over C2C", 102)}
    traffic |= {1078: ("received over C2C", 101), 1079: ("data received over C2C", 103)}
    for field_id, (what, metric) in traffic.items():
        yield _gauge(field_id, f"bytes per second {what}", Gpm(metric, _BYTES), unit="B/s")


# --- computed by the exporter ---------------------------------------------------------------------------


def exporter_rows() -> Iterator[Row]:
    computed = (
        (EXP_XID_COUNT, "DCGM_EXP_XID_ERRORS_COUNT", "xid_window", "XIDs within the window"),
        (EXP_CLOCK_EVENTS, "DCGM_EXP_CLOCK_EVENTS_COUNT", "clock_window", "looks with this clock event"),
        (EXP_HEALTH, "DCGM_EXP_GPU_HEALTH_STATUS", "health", "0 fine, 10 warning, 20 failure"),
    )
    for field_id, name, derived, help in computed:
        yield Row(Field(field_id, name, (), "", Kind.GAUGE, Scope.GPU, help), (Derived(derived),))
    p2p = Field(EXP_P2P, "DCGM_EXP_P2P_STATUS", (), "", Kind.GAUGE, Scope.GPU, "")
    yield Row(p2p, (Missing("gpuready does not compare GPUs in pairs"),))


def own_rows() -> Iterator[Row]:
    def own(
        field_id: int, name: str, help: str, *sources: Source, kind: Kind = Kind.COUNTER, unit: str = ""
    ) -> Row:
        return Row(Field(field_id, name, (), unit, kind, Scope.GPU, help), sources)

    yield own(XID_TOTAL, "gpuready_xid_errors_total", "XIDs by code", Derived("xid_total"))
    asked = "XIDs by what they ask for; each action is there from 0 on"
    yield own(20012, "gpuready_xids_total", asked, Derived("xid_actions"))
    last = "when the XID was last raised (seconds since 1970)"
    yield own(XID_LAST_TIME, "gpuready_xid_last_time_seconds", last, Derived("xid_time"), kind=Kind.GAUGE)
    active = "1 while the reason holds the clocks back"
    clocks = Derived("clock_active")
    yield own(CLOCK_EVENT_ACTIVE, "gpuready_clock_event_active", active, clocks, kind=Kind.GAUGE)
    held = "time for which the reason held the clocks back"
    seconds = Derived("clock_seconds")
    yield own(CLOCK_EVENT_SECONDS, "gpuready_clock_event_seconds_total", held, seconds, unit="s")
    busy = "when the GPU was last seen busy (seconds since 1970)"
    yield own(LAST_BUSY_TIME, "gpuready_last_busy_time_seconds", busy, Derived("busy"), kind=Kind.GAUGE)
    kernel = Getter("nvmlDeviceGetUtilizationRates", pick="gpu", unit=Unit(per=100, whole=False))
    ratio = "share of time with a kernel on the GPU"
    yield own(20006, "gpuready_kernel_time_ratio", ratio, kernel, kind=Kind.GAUGE, unit="ratio")
    joules = Unit(per=1000, whole=False)
    energy = (FieldValue(83, unit=joules), Getter("nvmlDeviceGetTotalEnergyConsumption", unit=joules))
    yield own(20007, "gpuready_energy_joules_total", "energy since the driver was loaded", *energy, unit="J")
    kib = Unit(times=1024)
    ways = (("transmit", "sent", 138, 197), ("receive", "received", 139, 198))
    for number, (way, done, nvlink, pcie) in enumerate(ways):
        total = FieldValue(nvlink, WHOLE_GPU, kib)
        yield own(
            20008 + number, f"gpuready_nvlink_{way}_bytes_total", f"{done} over NVLink", total, unit="B"
        )
        total = FieldValue(pcie)
        yield own(20010 + number, f"gpuready_pcie_{way}_bytes_total", f"{done} over PCIe", total, unit="B")


# --- what only DCGM knows -------------------------------------------------------------------------------

_UNREAD = (
    (range(350, 364), "it is a result of DCGM's own diagnostics"),
    (range(500, 571), "vGPU hosts are read by DCGM's vGPU module only"),
    (range(700, 825), "NvSwitches are read by DCGM's switch module only"),
    (range(844, 879), "NvSwitches are read by DCGM's switch module only"),
    (range(1084, 1097), "running totals of profiling are kept by DCGM only"),
    (range(1100, 1200), "CPUs are read by DCGM's CPU module only"),
    (range(1300, 1400), "network adapters are read by DCGM's ConnectX module only"),
)


def unread_row(field_id: int, names: tuple[str, ...]) -> Row:
    reasons = (reason for ids, reason in _UNREAD if field_id in ids)
    reason = next(reasons, "gpuready does not read it from NVML")
    field = Field(field_id, names[0], names[1:], "", Kind.GAUGE, Scope.GPU, "")
    return Row(field, (Missing(reason),))
