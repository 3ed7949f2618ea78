"""Why a CDI name does not resolve, and what could be asked for instead. Pure.

A runtime says "unresolvable CDI devices X" and nothing else.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from gpuready.gpu.cdi.installed import Installed
from gpuready.gpu.cdi.qualified import ALL, Name, find_name

_MOST_COMPARED, _MOST_NEAR = 2_000, 3  # difflib takes a millisecond for a few
_MOST_LISTED = 8


def cause_of(text: str, installed: Installed) -> str:
    """The likely cause, in one sentence, of a name that no spec defines."""
    name = find_name(text)
    if name is None:
        return _unqualified(text, installed)
    if text in installed.conflicts:
        files = " and ".join(installed.conflicts[text])
        return f"{files} both define it, and then none counts"
    known = installed.of_kind(name.kind)
    if known:
        return _unknown_device(name, known)
    return _all_crossed(name, installed) or _unknown_kind(name, installed)


def known_names(text: str, installed: Installed, most: int) -> list[str]:
    """What could be asked for: the names of the kind that was meant, or all, by number.

    Of more than `most`, which is how many are shown, the nearest come first.
    """
    name = find_name(text)
    meant = [f"{name.kind}={device}" for device in installed.of_kind(name.kind)] if name else []
    known = sorted(meant or installed.devices, key=_by_number)
    if len(known) <= most:
        return known
    near = difflib.get_close_matches(text, known[:_MOST_COMPARED], n=_MOST_NEAR)
    return [*near, *(each for each in known if each not in near)]


def _all_crossed(name: Name, installed: Installed) -> str:
    """The kind is known, and each of its names stands in two files."""
    crossed = {files for each, files in installed.conflicts.items() if each.startswith(f"{name.kind}=")}
    pairs = [" and ".join(files) for files in sorted(crossed)]
    return f"{pairs[0]} both define every name of {name.kind}, and then none counts" if pairs else ""


def _unqualified(text: str, installed: Installed) -> str:
    fitting = [name for name in installed.devices if name.partition("=")[2] == text]
    if fitting:
        return f"it is not vendor/class=device; perhaps {fitting[0]} is meant"
    return "it is not of the form vendor/class=device"


def _unknown_kind(name: Name, installed: Installed) -> str:
    broken = [file for file in installed.files if file.problems]
    if broken:
        return f"{broken[0].path} is refused: {broken[0].problems[0]}"
    kinds = installed.kinds()
    if not kinds:
        return "there is no CDI spec on this node: its toolkit has not run yet, or could not write one"
    near = difflib.get_close_matches(name.kind, kinds, n=1)
    return f"no spec is of the kind {name.kind}" + (f"; perhaps {near[0]} is meant" if near else "")


def _unknown_device(name: Name, known: Sequence[str]) -> str:
    device = name.device
    index, colon, slice_index = device.partition(":")
    if device == ALL:
        return "the spec was made without a device for all"
    if index.isdigit() and not colon:
        return _unknown_index(index, known)
    if index.isdigit() and slice_index.isdigit():
        return _unknown_slice(index, known)
    if device.startswith("MIG-"):
        return "UUID unknown: the MIG partitions were made anew, or it is another node's"
    if device.startswith("GPU-"):
        return "UUID unknown: GPU replaced, MIG switched on, or another node's?"
    near = difflib.get_close_matches(device, known[:_MOST_COMPARED], n=1)
    return f"no device has this name; perhaps {near[0]} is meant" if near else "no device has this name"


def _unknown_index(index: str, known: Sequence[str]) -> str:
    slices = sorted((each for each in known if each.startswith(f"{index}:")), key=_by_number)
    if slices:
        return f"GPU {index} has MIG on and is offered by its partitions: {_listed(slices)}"
    gpus = {each.partition(":")[0] for each in known if each.partition(":")[0].isdigit()}
    return f"index {index} does not exist, {len(gpus)} GPU{'s' if len(gpus) != 1 else ''} present"


def _unknown_slice(index: str, known: Sequence[str]) -> str:
    if index in known:
        return f"GPU {index} has MIG off: ask for it as {index}"
    slices = sorted((each for each in known if each.startswith(f"{index}:")), key=_by_number)
    if slices:
        return f"GPU {index} has the partitions {_listed(slices)}"
    return _unknown_index(index, known)


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - _MOST_LISTED
    return ", ".join(texts[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _by_number(text: str) -> list[tuple[int, int, str]]:
    """GPU 10 after GPU 9."""
    kind, _, device = text.rpartition("=")
    parts = device.split(":")
    return [(0, 0, kind)] + [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]
