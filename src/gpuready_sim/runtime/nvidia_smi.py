"""The simulator's `nvidia-smi`: the table, -L and --query-gpu, over whatever libnvidia-ml.so.1 is found.

Runs as a program of a simulated container, so it sees exactly the GPUs that the container was given. Layout,
texts and exit codes follow the original's, written from memory and not compared with a recording: 2 bad
argument, 6 no devices, 9 no driver, 12 no library, 14 corrupt infoROM, 15 lost GPU, 18 version mismatch.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pynvml as nvml

MIB = 1024 * 1024
NOT_AVAILABLE = "N/A"
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running."
)
NO_LIBRARY = (
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA "
    "Display Driver is properly installed and present in your system.\n"
    "Please also try adding directory that contains libnvidia-ml.so to your system PATH."
)


@dataclass(frozen=True)
class Card:
    """One GPU that NVML lists; `handle` is None when it is lost, and `error` says what NVML answered."""

    index: int
    handle: Any
    error: int = 0


class Exit(Exception):
    """The end of the program: what to print, and its exit code."""

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        options = _parse(sys.argv[1:] if arguments is None else arguments)
        with _nvml():
            return _run(options)
    except Exit as end:
        if end.text:
            _print(end.text)
        return end.code
    except nvml.NVMLError as error:
        _print(f"NVIDIA-SMI has failed: {error}")
        return int(error.value)


def _run(options: argparse.Namespace) -> int:
    cards = _selected(_cards(), options.id)
    if not cards:
        raise Exit(6, "No devices were found")
    if options.list_gpus:
        _print("\n".join(_list_line(card) for card in cards))
    elif options.query_gpu:
        _print("\n".join(_query(cards, options.query_gpu, options.format)))
    else:
        _print("\n".join(_table(cards)))
    return _closing_code(cards)


# --- opening ---------------------------------------------------------------------------------------------


@contextmanager
def _nvml() -> Iterator[None]:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise Exit(error.value, _opening_failure(error)) from error
    try:
        yield
    finally:
        nvml.nvmlShutdown()


def _opening_failure(error: nvml.NVMLError) -> str:
    if error.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return NO_LIBRARY
    if error.value == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return NO_DRIVER
    if error.value == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return (
            "Failed to initialize NVML: Driver/library version mismatch\n"
            f"NVML library version: {'.'.join(_library_version().split('.')[:2])}"
        )
    return f"Failed to initialize NVML: {error}"


def _library_version() -> str:
    """The version in the name of the library file that this process has mapped."""
    found = re.search(r"libnvidia-ml\.so\.(\d[\d.]*)", Path("/proc/self/maps").read_text())
    return found[1] if found else NOT_AVAILABLE


def _cards() -> list[Card]:
    cards = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            cards.append(Card(index, nvml.nvmlDeviceGetHandleByIndex(index)))
        except nvml.NVMLError as error:
            cards.append(Card(index, None, error.value))
    return cards


def _selected(cards: Sequence[Card], wanted: str | None) -> list[Card]:
    """Cards that `-i` names by index, UUID or bus id; all without it."""
    if wanted is None:
        return list(cards)
    found = []
    for name in wanted.split(","):
        matches = [card for card in cards if name in _names(card)]
        if not matches:
            raise Exit(6, f"No devices were found matching {name}")
        found += matches
    return found


def _names(card: Card) -> tuple[str, ...]:
    if card.handle is None:
        return (str(card.index),)
    bus_id = _value(nvml.nvmlDeviceGetPciInfo, card, attribute="busId")
    return (str(card.index), _value(nvml.nvmlDeviceGetUUID, card), bus_id, bus_id[4:])


def _closing_code(cards: Sequence[Card]) -> int:
    """14 with a warning per card whose infoROM is corrupt, 15 when a card is lost, else 0."""
    code = 0
    for card in cards:
        if card.handle is None:
            code = card.error
            continue
        try:
            nvml.nvmlDeviceValidateInforom(card.handle)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_CORRUPTED_INFOROM:
                _print(f"WARNING: infoROM is corrupted at gpu {_names(card)[3]}")
                code = code or int(error.value)
    return code


# --- values ----------------------------------------------------------------------------------------------


def _value(function: Callable[..., Any], card: Card, *arguments: Any, attribute: str = "") -> Any:
    """What NVML answers, or N/A when the card has no such thing."""
    try:
        answer = function(card.handle, *arguments)
    except nvml.NVMLError:
        return NOT_AVAILABLE
    return getattr(answer, attribute) if attribute else answer


def _memory(card: Card, part: str) -> Any:
    try:
        answer = nvml.nvmlDeviceGetMemoryInfo(card.handle, version=nvml.nvmlMemory_v2)
    except nvml.NVMLError:
        return NOT_AVAILABLE
    return getattr(answer, part) // MIB


def _enabled(number: Any) -> str:
    return {0: "Disabled", 1: "Enabled"}.get(number, f"[{NOT_AVAILABLE}]")


def _watts(milliwatts: Any) -> Any:
    return milliwatts if milliwatts == NOT_AVAILABLE else f"{milliwatts / 1000:.2f}"


def _ecc(card: Card, kind: int, counter: int) -> Any:
    return _value(nvml.nvmlDeviceGetTotalEccErrors, card, kind, counter)


def _mig_mode(card: Card) -> str:
    mode = _value(nvml.nvmlDeviceGetMigMode, card)
    return NOT_AVAILABLE if mode == NOT_AVAILABLE else _enabled(mode[0])


def _compute_capability(card: Card) -> str:
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(card.handle)
    return f"{major}.{minor}"


def _remapped(card: Card, position: int) -> Any:
    rows = _value(nvml.nvmlDeviceGetRemappedRows, card)
    return rows if rows == NOT_AVAILABLE else rows[position]


# --- --query-gpu -----------------------------------------------------------------------------------------

FIELDS: dict[str, tuple[str, Callable[[Card], Any]]] = {
    # field: (unit, value)
    "index": ("", lambda card: card.index),
    "name": ("", lambda card: _value(nvml.nvmlDeviceGetName, card)),
    "gpu_name": ("", lambda card: _value(nvml.nvmlDeviceGetName, card)),
    "uuid": ("", lambda card: _value(nvml.nvmlDeviceGetUUID, card)),
    "gpu_uuid": ("", lambda card: _value(nvml.nvmlDeviceGetUUID, card)),
    "serial": ("", lambda card: _value(nvml.nvmlDeviceGetSerial, card)),
    "count": ("", lambda card: nvml.nvmlDeviceGetCount()),
    "driver_version": ("", lambda card: nvml.nvmlSystemGetDriverVersion()),
    "vbios_version": ("", lambda card: _value(nvml.nvmlDeviceGetVbiosVersion, card)),
    "compute_cap": ("", _compute_capability),
    "compute_mode": ("", lambda card: "Default"),
    "persistence_mode": ("", lambda card: _enabled(_value(nvml.nvmlDeviceGetPersistenceMode, card))),
    "pstate": ("", lambda card: f"P{_value(nvml.nvmlDeviceGetPerformanceState, card)}"),
    "pci.bus_id": ("", lambda card: _value(nvml.nvmlDeviceGetPciInfo, card, attribute="busId")),
    "gpu_bus_id": ("", lambda card: _value(nvml.nvmlDeviceGetPciInfo, card, attribute="busId")),
    "memory.total": ("MiB", lambda card: _memory(card, "total")),
    "memory.used": ("MiB", lambda card: _memory(card, "used")),
    "memory.free": ("MiB", lambda card: _memory(card, "free")),
    "memory.reserved": ("MiB", lambda card: _memory(card, "reserved")),
    "utilization.gpu": ("%", lambda card: _value(nvml.nvmlDeviceGetUtilizationRates, card, attribute="gpu")),
    "utilization.memory": (
        "%",
        lambda card: _value(nvml.nvmlDeviceGetUtilizationRates, card, attribute="memory"),
    ),
    "temperature.gpu": ("", lambda card: _value(nvml.nvmlDeviceGetTemperatureV, card, 0)),
    "fan.speed": ("%", lambda card: _value(nvml.nvmlDeviceGetFanSpeed, card)),
    "power.draw": ("W", lambda card: _watts(_value(nvml.nvmlDeviceGetPowerUsage, card))),
    "power.limit": ("W", lambda card: _watts(_value(nvml.nvmlDeviceGetPowerManagementLimit, card))),
    "clocks.gr": ("MHz", lambda card: _value(nvml.nvmlDeviceGetClockInfo, card, nvml.NVML_CLOCK_GRAPHICS)),
    "clocks.sm": ("MHz", lambda card: _value(nvml.nvmlDeviceGetClockInfo, card, nvml.NVML_CLOCK_SM)),
    "clocks.mem": ("MHz", lambda card: _value(nvml.nvmlDeviceGetClockInfo, card, nvml.NVML_CLOCK_MEM)),
    "clocks.max.sm": ("MHz", lambda card: _value(nvml.nvmlDeviceGetMaxClockInfo, card, nvml.NVML_CLOCK_SM)),
    "mig.mode.current": ("", _mig_mode),
    "mig.mode.pending": ("", _mig_mode),
    "ecc.mode.current": (
        "",
        lambda card: "Enabled" if isinstance(_ecc(card, 0, 0), int) else NOT_AVAILABLE,
    ),
    "ecc.errors.corrected.volatile.total": ("", lambda card: _ecc(card, 0, 0)),
    "ecc.errors.uncorrected.volatile.total": ("", lambda card: _ecc(card, 1, 0)),
    "ecc.errors.corrected.aggregate.total": ("", lambda card: _ecc(card, 0, 1)),
    "ecc.errors.uncorrected.aggregate.total": ("", lambda card: _ecc(card, 1, 1)),
    "remapped_rows.correctable": ("", lambda card: _remapped(card, 0)),
    "remapped_rows.uncorrectable": ("", lambda card: _remapped(card, 1)),
    "remapped_rows.pending": ("", lambda card: _remapped(card, 2)),
}


def _query(cards: Sequence[Card], asked: str, formats: str | None) -> Iterator[str]:
    chosen = (formats or "").split(",")
    if "csv" not in chosen:
        raise Exit(2, "\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.")
    names = [name.strip() for name in asked.split(",")]
    for name in names:
        if name not in FIELDS:
            raise Exit(2, f'Field "{name}" is not a valid field to query.')
    units = "nounits" not in chosen
    if "noheader" not in chosen:
        yield ", ".join(_header(name, units) for name in names)
    for card in cards:
        yield ", ".join(_cell(card, name, units) for name in names)


def _header(name: str, units: bool) -> str:
    unit = FIELDS[name][0]
    return f"{name} [{unit}]" if unit and units else name


def _cell(card: Card, name: str, units: bool) -> str:
    unit, read = FIELDS[name]
    if card.handle is None:
        return "[GPU is lost]"
    value = read(card)
    if value == NOT_AVAILABLE:
        return f"[{NOT_AVAILABLE}]"
    return f"{value} {unit}" if unit and units else str(value)


# --- -L and the table ------------------------------------------------------------------------------------


def _list_line(card: Card) -> str:
    if card.handle is None:
        return _lost_line(card)
    name, uuid = _value(nvml.nvmlDeviceGetName, card), _value(nvml.nvmlDeviceGetUUID, card)
    return f"GPU {card.index}: {name} (UUID: {uuid})"


def _lost_line(card: Card) -> str:
    return (
        f"Unable to determine the device handle for GPU{card.index}: "
        "GPU is lost.  Reboot the system to recover this GPU"
    )


def _table(cards: Sequence[Card]) -> Iterator[str]:
    driver, cuda = nvml.nvmlSystemGetDriverVersion(), nvml.nvmlSystemGetCudaDriverVersion()
    yield time.strftime("%a %b %e %H:%M:%S %Y       ")
    yield f"+{'-' * 89}+"
    versions = f" NVIDIA-SMI {driver:<22} Driver Version: {driver:<14} CUDA Version: "
    yield f"|{versions + f'{cuda // 1000}.{cuda % 1000 // 10}':<89}|"
    yield f"|{'-' * 41}+{'-' * 24}+{'-' * 22}+"
    yield "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |"
    yield "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |"
    yield f"|{' ' * 41}|{' ' * 24}|{'MIG M. ':>22}|"
    yield f"|{'=' * 41}+{'=' * 24}+{'=' * 22}|"
    for card in cards:
        yield from _card_rows(card) if card.handle is not None else _lost_rows(card)
        yield f"+{'-' * 41}+{'-' * 24}+{'-' * 22}+"
    yield ""
    yield from _process_table(cards)


def _lost_rows(card: Card) -> Iterator[str]:
    for line in _lost_line(card).split("  "):
        yield f"| {line:<88}|"


def _card_rows(card: Card) -> Iterator[str]:
    persistence = "On" if _value(nvml.nvmlDeviceGetPersistenceMode, card) == 1 else "Off"
    errors = _ecc(card, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
    name, bus_id = _value(nvml.nvmlDeviceGetName, card), _value(nvml.nvmlDeviceGetPciInfo, card).busId
    yield f"| {card.index:>3}  {name:<27}{persistence:>6}  | {bus_id:>18} Off |{errors!s:>21} |"
    fan = _value(nvml.nvmlDeviceGetFanSpeed, card)
    fan = fan if fan == NOT_AVAILABLE else f"{fan}%"
    heat = f"{_value(nvml.nvmlDeviceGetTemperatureV, card, 0)}C"
    state = f"P{_value(nvml.nvmlDeviceGetPerformanceState, card)}"
    draw = _whole_watts(nvml.nvmlDeviceGetPowerUsage, card)
    power = f"{draw} / {_whole_watts(nvml.nvmlDeviceGetPowerManagementLimit, card):>5}"
    memory = f"{_memory(card, 'used')}MiB / {str(_memory(card, 'total')) + 'MiB':>9}"
    load = f"{_value(nvml.nvmlDeviceGetUtilizationRates, card, attribute='gpu')}%"
    yield f"| {fan:<4}{heat:>5}{state:>6}{power:>24} | {memory:>22} | {load:>7}      Default |"
    yield f"|{' ' * 41}|{' ' * 24}|{_mig_mode(card):>21} |"


def _whole_watts(function: Callable[..., Any], card: Card) -> str:
    value = _value(function, card)
    return NOT_AVAILABLE if value == NOT_AVAILABLE else f"{value // 1000}W"


def _process_table(cards: Sequence[Card]) -> Iterator[str]:
    yield f"+{'-' * 89}+"
    yield f"| {'Processes:':<88}|"
    yield f"|  GPU   GI   CI        PID   Type   {'Process name':<36} {'GPU Memory':>15} |"
    yield f"|        ID   ID {' ' * 57} {'Usage      ':>15}|"
    yield f"|{'=' * 89}|"
    rows = [row for card in cards if card.handle is not None for row in _process_rows(card)]
    yield from rows or [f"|  {'No running processes found':<87}|"]
    yield f"+{'-' * 89}+"


def _process_rows(card: Card) -> Iterator[str]:
    kinds = (
        ("C", nvml.nvmlDeviceGetComputeRunningProcesses),
        ("G", nvml.nvmlDeviceGetGraphicsRunningProcesses),
    )
    for kind, function in kinds:
        for process in function(card.handle):
            try:
                name = nvml.nvmlSystemGetProcessName(process.pid)
            except nvml.NVMLError:
                name = "[Not Found]"
            memory = f"{process.usedGpuMemory // MIB}MiB"
            where = f"{card.index:>4}   N/A  N/A {process.pid:>9} {kind:>6}"
            yield f"| {where}   {_tail(name, 36):<36} {memory:>15} |"


def _tail(text: str, width: int) -> str:
    return text if len(text) <= width else f"...{text[3 - width :]}"


# --- command line ----------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Exit(
            2, "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n" + message
        )


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="nvidia-smi", allow_abbrev=False)
    parser.add_argument("-L", "--list-gpus", action="store_true", help="list the GPUs and their UUIDs")
    parser.add_argument("--query-gpu", metavar="FIELDS", help=", ".join(FIELDS))
    parser.add_argument("--format", metavar="csv[,noheader][,nounits]")
    parser.add_argument("-i", "--id", help="index, UUID or bus id; several separated by commas")
    return parser.parse_args(arguments)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
