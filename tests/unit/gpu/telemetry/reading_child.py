"""A process with the reader in it: commands come in, pickled answers go out, line by line."""

from __future__ import annotations

import base64
import pickle
import sys
import threading
import time
from pathlib import Path
from typing import Any

from gpuready.gpu.telemetry.fields import find_field
from gpuready.gpu.telemetry.history import Windows
from gpuready.gpu.telemetry.model import Field
from gpuready.gpu.telemetry.reader import Reader
from gpuready.gpu.tree import Tree


def main(root: str, xid_window_s: str) -> None:
    reader = Reader(lambda: Tree(Path(root)), time, Windows(xid_s=float(xid_window_s)))
    reader.start()
    _say("ready")
    for line in sys.stdin:
        command, *arguments = line.split()
        answer = base64.b64encode(pickle.dumps(_obey(reader, command, arguments)))
        _say(answer.decode())


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _obey(reader: Reader, command: str, arguments: list[str]) -> Any:
    if command == "collect":
        interval_s, patience_s, *names = arguments
        now = time.monotonic()
        return reader.collect([_field(name) for name in names], now, float(interval_s), float(patience_s))
    if command == "hurried":
        return _hurried(reader, float(arguments[0]), [_field(name) for name in arguments[1:]])
    if command in ("release", "resume", "stop"):
        return getattr(reader, command)()
    return getattr(reader, command)


def _hurried(reader: Reader, patience_s: float, fields: list[Field]) -> Any:
    """A look that is wanted at once, while the next one was to be in a minute."""
    threads = reader._gpus
    later = threading.Thread(target=reader.collect, args=(fields, time.monotonic() + 60, 60, 20))
    later.start()
    while not all(thread.deaf_until for thread in threads):
        time.sleep(0.001)
    reader.hurry()
    later.join()
    return reader.collect(fields, time.monotonic(), 60, patience_s)


def _field(name: str) -> Field:
    field = find_field(name) or find_field(f"DCGM_FI_{name}")
    assert field is not None, name
    return field


main(*sys.argv[1:])
