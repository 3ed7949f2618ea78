"""`gpuready cdi generate`: the specs of this node, to read or to write."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuready import names
from gpuready.errors import GPUReadyError, HardwareError, UsageError
from gpuready.gpu.cdi.build import Built, Place, Wishes, build
from gpuready.gpu.cdi.qualified import Style
from gpuready.gpu.driver_files import find_nvml_library, look_for_nvml
from gpuready.gpu.inventory import GPU
from gpuready.node.cdi.files import RECORD_NAME, SpecFiles
from gpuready.node.cdi.place import Settings, place_of
from gpuready.node.root import Root, boot_id
from gpuready.tools.cdi.look import FINE, FOUND_SOMETHING, host_tree
from gpuready.tools.terminal import printable
from gpuready.yaml_text import dump_yaml

_NVML_DEADLINE_S = 10


@dataclass(frozen=True)
class Options:
    """As on the command line."""

    host_root: str | None = None
    driver_root: str = ""
    dev_root: str = ""
    library_dirs: tuple[str, ...] = ()
    styles: tuple[str, ...] = (Style.INDEX.value, Style.UUID.value)
    kind: str = names.GPU_CDI_KIND
    no_all_device: bool = False
    no_additional_gids: bool = False
    hook: str = ""
    write: bool = False
    explain: bool = False
    output: str = "yaml"


def run(options: Options) -> int:
    """raises  GPUReadyError when there is nothing to print"""
    host = host_tree(options.host_root)
    wishes = Wishes(
        tuple(Style(style) for style in dict.fromkeys(options.styles)),
        with_all=not options.no_all_device,
        with_gids=not options.no_additional_gids,
    )
    settings = Settings(
        driver_root=options.driver_root,
        dev_root=options.dev_root,
        library_dirs=options.library_dirs,
        hooks=(options.hook,) if options.hook else Place.hooks,
        wishes=wishes,
    )
    place = place_of(host, settings)
    if options.explain:
        _note(_search_text(place))
    built = _built(host, place, wishes)
    return _write(host, built) if options.write else _show(built, options, place)


def _built(host: Root, place: Place, wishes: Wishes) -> list[Built]:
    if find_nvml_library(place.driver, place.library_dirs) is None:
        return build(place, None, wishes)
    gpus, why = _ask_nvml(host, place)
    return build(place, gpus, wishes, why)


def _ask_nvml(host: Root, place: Place) -> tuple[Sequence[GPU] | None, str]:
    """The GPUs, or None and why. In a thread: a driver that hangs keeps it, and this program still ends."""
    from gpuready.gpu.inventory_child import look

    found: list[tuple[Sequence[GPU] | None, str]] = []

    def ask() -> None:
        inventory, error = look(place.driver, host)
        found.append((inventory.gpus if inventory else None, str(error["message"]) if error else ""))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_NVML_DEADLINE_S)
    return found[0] if found else (None, f"no answer in {_NVML_DEADLINE_S} s")


def _show(built: Sequence[Built], options: Options, place: Place) -> int:
    found = {each.kind: each for each in built}
    chosen = found.get(options.kind)
    if chosen is None:
        raise UsageError(
            f"this node has no spec of the kind {options.kind}", why=f"it has {', '.join(found)}"
        )
    if chosen.spec is None:
        raise HardwareError(
            f"no spec of the kind {chosen.kind} can be made",
            why=chosen.reason,
            next_step="see where libraries were looked for with --explain, and gpuready doctor",
        )
    _note(f"left out: {device}: {reason}" for device, reason in chosen.left_out)
    text = json.dumps(chosen.spec, indent=1) + "\n" if options.output == "json" else dump_yaml(chosen.spec)
    sys.stdout.write(text)
    return FOUND_SOMETHING if chosen.left_out else FINE


def _write(host: Root, built: Sequence[Built]) -> int:
    folder = host.resolve(names.CDI_DIRS[-1])
    record = host.resolve(names.RECORDS_DIR) / RECORD_NAME
    try:
        outcome = SpecFiles(host, folder, record, boot_id=boot_id(host)).bring_up_to_date(built)
    except OSError as exc:
        raise GPUReadyError(
            f"cannot write {names.RECORDS_DIR}", why=exc.strerror or str(exc), next_step="run this as root"
        ) from exc
    for kind, kept in outcome.kinds.items():
        if kept.reason:
            state = "stale" if kept.stale else "none"
            _note([f"{state}: {kind}: {kept.reason}"])
        else:
            word = "written" if kept.file in outcome.changed else "unchanged"
            sys.stdout.write(f"{word:9}  {kept.file}  {kind}, {kept.devices} devices\n")
        _note(f"left out: {device}: {reason}" for device, reason in kept.left_out)
    if not any(kept.digest and not kept.stale for kept in outcome.kinds.values()):
        raise GPUReadyError("no spec was written", why="; ".join(outcome.problems))
    return FOUND_SOMETHING if outcome.problems or any(k.left_out for k in outcome.kinds.values()) else FINE


def _search_text(place: Place) -> Iterator[str]:
    yield f"libraries below {place.driver_root}:"
    for attempt in look_for_nvml(place.driver, place.library_dirs):
        yield f"  {attempt.place}  {attempt.outcome}  ({attempt.by})"
        if attempt.library:
            return


def _note(lines: Iterator[str] | list[str]) -> None:
    for line in lines:
        sys.stderr.write(printable(line) + "\n")
