"""One line per event on stderr: a constant message, then the values as fields.

`GPUREADY_LOG=json` prints JSON, anything else `time level message key=value …`. `GPUREADY_LOG_LEVEL` is
debug, info (default), warning or error; what is none of them is told and counts as info.
"""

from __future__ import annotations

import codecs
import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

codecs.lookup("unicode_escape")  # loaded now: where no file can be opened any more, that is to be told, too
_SENTENCES = frozenset({"what", "why", "next_step"})  # an error may lack one of them: then it is not there


LEVELS = ("debug", "info", "warning", "error")


class Logger:
    """A standard logger with bound fields; `bind` returns a new one."""

    def __init__(self, logger: logging.Logger, fields: Mapping[str, Any] | None = None) -> None:
        self._logger = logger
        self._fields = dict(fields or {})

    def bind(self, **fields: Any) -> Logger:
        return Logger(self._logger, {**self._fields, **fields})

    def debug(self, message: str, **fields: Any) -> None:
        self._emit(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._emit(logging.INFO, message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        self._emit(logging.WARNING, message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._emit(logging.ERROR, message, fields)

    def exception(self, message: str, **fields: Any) -> None:
        """Like `error`, with the traceback of the exception being handled."""
        self._emit(logging.ERROR, message, fields, exc_info=True)

    def _emit(self, level: int, message: str, fields: Mapping[str, Any], *, exc_info: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            said = {key: value for key, value in fields.items() if value != "" or key not in _SENTENCES}
            extra = {"fields": {**self._fields, **said}}
            self._logger.log(level, message, extra=extra, exc_info=exc_info)


def get_logger(name: str, **fields: Any) -> Logger:
    return Logger(logging.getLogger(f"gpuready.{name}"), fields)


def set_up(*, level: str | None = None, form: str | None = None) -> None:
    """Send all logs to stderr; called once, by the command line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter_of(form or os.environ.get("GPUREADY_LOG", "text")))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    asked = (level or os.environ.get("GPUREADY_LOG_LEVEL") or "info").lower()
    root.setLevel((asked if asked in LEVELS else "info").upper())
    for chatty in ("grpclib", "asyncio", "aiohttp", "uvicorn"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    if asked not in LEVELS:
        # No reason to stop a program that nodes wait for.
        get_logger("log").warning(
            "unknown log level, info is used",
            level=asked,
            next_step=f"set GPUREADY_LOG_LEVEL to one of {', '.join(LEVELS)}",
        )


def _formatter_of(form: str) -> logging.Formatter:
    return _JsonFormatter() if form == "json" else _TextFormatter()


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.gmtime(record.created))
        fields = getattr(record, "fields", {})
        text = " ".join(f"{key}={_plain(value)}" for key, value in fields.items())
        line = f"{clock}.{int(record.msecs):03d} {record.levelname.lower():7} {_escaped(record.getMessage())}"
        line = f"{line}  {text}" if text else line
        if not record.exc_info:
            return line
        return "\n".join([line, *map(_escaped, self.formatException(record.exc_info).split("\n"))])


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        row = {"time": record.created, "level": record.levelname.lower(), "message": record.getMessage()}
        row.update(getattr(record, "fields", {}))
        if record.exc_info:
            row["traceback"] = self.formatException(record.exc_info)
        return json.dumps(row, default=str)


def _plain(value: Any) -> str:
    """Quoted where it could be taken for something else: two fields, a second line, a colour."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    is_clear = text and text.isprintable() and not set(text) & set(' "=')
    return text if is_clear or not isinstance(value, str) else json.dumps(text)


def _escaped(text: str) -> str:
    r"""ESC, BEL, U+202E as `\x1b`, `\x07`, `\u202e`: what nodes and pods say may not steer a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
