"""The counters file: which fields are exported, under which name, type and help.

Pure: text in, rows and problems out. A line is `NAME, TYPE, HELP` as CSV; blank lines and lines that begin
with # do not count. What cannot be followed is skipped and told with its line number; the rest is used. It
never falls back to another file.

Source: dcgm-exporter 4.5.3-4.8.2, internal/pkg/counters (there one bad line ends the process).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuready.errors import UsageError
from gpuready.gpu.telemetry.fields import find_field, is_text, missing_reason
from gpuready.gpu.telemetry.model import Absent, Field, Kind
from gpuready.operands.exporter.spelling import Speller

KINDS = ("gauge", "counter", "histogram", "summary", "label")
METRICS_KEY = "metrics"  # of the original's ConfigMap
_SHOWN = 60
_ODD_QUOTES = str.maketrans("“”„‟«»″‘’‚‛′", '"' * 7 + "'" * 5)


@dataclass(frozen=True, slots=True)
class Row:
    """A line that is followed.

    name  as the file spells it
    kind  "gauge", "counter" or "label": as it is exported
    """

    line: int
    name: str
    kind: str
    help: str
    field: Field


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about a line.

    line      its number in the file, from 1; 0 for the file as a whole
    subject   the metric's name, or what stands in its place
    rejected  whether the line is skipped; else it is followed, and this is only said
    """

    line: int
    subject: str
    cause: str
    suggestion: str = ""
    rejected: bool = True

    def __str__(self) -> str:
        place = f"line {self.line}" if self.line else "the file"
        of = f" ({self.subject})" if self.subject else ""
        return f"{place}{of}: {self.cause}" + (f"; {self.suggestion}" if self.suggestion else "")


@dataclass(frozen=True, slots=True)
class Counters:
    rows: tuple[Row, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def rejected(self) -> int:
        return sum(problem.rejected for problem in self.problems)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Each once, in the order of the file."""
        return tuple(dict.fromkeys(row.field for row in self.rows))


class _RejectedLineError(Exception):
    def __init__(self, subject: str, cause: str, suggestion: str = "") -> None:
        super().__init__(cause)
        self.subject, self.cause, self.suggestion = subject, cause, suggestion


def parse(data: bytes | str, *, dcgm: bool = False) -> Counters:
    """The rows that can be followed and what is wrong with the others; raises nothing.

    dcgm  whether DCGM is asked, which has fields that NVML has not
    """
    text, problems = _decode(data)
    rows: dict[str, Row] = {}
    speller = Speller()
    for number, line in enumerate(_lines(text), start=1):
        if not line or line.startswith("#"):
            continue
        try:
            row, remarks = _row(number, line, speller, dcgm=dcgm)
            if row.name in rows:
                raise _RejectedLineError(
                    row.name, f"line {rows[row.name].line} names it already", "remove one of the two"
                )
        except _RejectedLineError as exc:
            problems.append(Problem(number, _short(exc.subject), exc.cause, exc.suggestion))
            continue
        rows[row.name] = row
        problems += remarks
    if not rows and not problems:
        problems.append(Problem(0, "", "it names no metric", "name one on each line: NAME, TYPE, HELP"))
    return Counters(tuple(rows.values()), tuple(problems))


def refuse(counters: Counters, where: str) -> None:
    """For --strict. raises  UsageError when a line was rejected"""
    if not counters.rejected:
        return
    rejected = [str(problem) for problem in counters.problems if problem.rejected]
    more = f" and {len(rejected) - 5} more" if len(rejected) > 5 else ""
    raise UsageError(
        f"{where} has {len(rejected)} lines that cannot be followed",
        why=" | ".join(rejected[:5]) + more,
        next_step="correct them, or leave --strict out to go on with the others",
    )


def choose_key(keys: Iterable[str], wanted: str = METRICS_KEY) -> str:
    """The key of a ConfigMap that holds the file: `wanted`, or the only one there is.

    raises  UsageError, which names the keys that are there
    """
    there = sorted(keys)
    if wanted in there:
        return wanted
    if len(there) == 1:
        return there[0]
    raise UsageError(
        f"the ConfigMap has no key {wanted!r}",
        why=f"its keys are {', '.join(map(repr, there))}" if there else "it has no keys",
        next_step=f"put the counters under the key {wanted!r}, or keep a single key",
    )


def unsupported(counters: Counters, absent: Sequence[Absent], with_value: Iterable[Field]) -> list[Problem]:
    """Lines whose field no GPU of this node will ever tell, from one collection.

    absent      what the collection had no value of
    with_value  the fields that it had samples of
    """
    valued = {field.id for field in with_value}
    hopeful = {each.field.id for each in absent if each.supported}
    reasons: Mapping[int, str] = {each.field.id: each.reason for each in reversed(absent)}
    told_by_none = reasons.keys() - valued - hopeful
    cause = "no GPU of this node tells it: "
    return [
        Problem(row.line, row.name, cause + reasons[row.field.id], _UNLESS)
        for row in counters.rows
        if row.line and row.field.id in told_by_none
    ]


_UNLESS = "remove the line, unless GPUs of other nodes tell it"
SHIPPED = ("default-counters.csv", "dcp-metrics-included.csv")


def shipped(name: str = SHIPPED[0]) -> bytes:
    """A file that comes with us, by the name that the original gives it."""
    return Path(__file__).with_name("csv").joinpath(name).read_bytes()


# --- one line -------------------------------------------------------------------------------------------


def _row(number: int, line: str, speller: Speller, *, dcgm: bool) -> tuple[Row, list[Problem]]:
    _refuse_binary(line)
    name, kind, help = _three_parts(line)
    field = find_field(name)
    if field is None:
        raise _unknown(name, speller)
    if reason := missing_reason(field, dcgm=dcgm):
        raise _RejectedLineError(name, f"it has no value here: {reason}", "remove the line")
    if kind not in KINDS:
        known = speller.kind(kind)
        meant = f"did you mean {known!r}?" if known else f"use one of {', '.join(KINDS)}"
        raise _RejectedLineError(name, f"{_quoted(kind)} is no metric type", meant)
    if is_text(field) and kind != "label":
        cause = f"its value is text, which no {kind} can hold"
        raise _RejectedLineError(name, cause, "give it the type label")
    row = Row(number, name, kind, help, field)
    if kind in ("histogram", "summary"):
        cause = f"a {kind} needs more than one value: it is exported as {field.kind}"
        return replace(row, kind=str(field.kind)), [_remark(row, cause)]
    if kind == "counter" and field.kind is Kind.GAUGE and not missing_reason(field):
        cause = "its value goes up and down, so that rate() and increase() of it mean nothing"
        return row, [_remark(row, cause)]
    return row, []


def _remark(row: Row, cause: str) -> Problem:
    return Problem(row.line, row.name, cause, f"give it the type {row.field.kind}", rejected=False)


def _three_parts(line: str) -> tuple[str, str, str]:
    parts = _split(line)
    if len(parts) == 3:
        name, kind, help = parts
        return name, kind, help
    name = parts[0]
    if len(parts) > 3:
        cause = f"it has {len(parts)} parts, not name, type and help"
        raise _RejectedLineError(name, cause, f"put the help in quotes: {name}, {parts[1]}, {_help(parts)}")
    if line.translate(_ODD_QUOTES) != line:
        raise _RejectedLineError(name, "it has typographic quotes", 'use the plain " instead')
    separator = next((mark for mark in ";\t|" if line.count(mark) >= 2), "")
    if separator:
        shown = "tabs" if separator == "\t" else repr(separator)
        raise _RejectedLineError(name, f"its parts are separated by {shown}", "separate them by commas")
    cause = f"it has {len(parts)} of the three parts name, type and help"
    raise _RejectedLineError(name, cause, "write NAME, TYPE, HELP")


def _help(parts: Sequence[str]) -> str:
    text = ", ".join(parts[2:]).translate(_ODD_QUOTES).strip('"')
    return '"' + text.replace('"', '""') + '"'


def _split(line: str) -> list[str]:
    """As CSV, each part without the blanks around it, which may be wide or unseen ones."""
    try:
        [parts] = csv.reader([line], skipinitialspace=True, strict=True)
    except csv.Error:
        parts = line.split(",")
        if line.count('"') % 2:
            cause = "a quote is opened and not closed on the same line"
            raise _RejectedLineError(_bare(parts[0]), cause, 'close it with "') from None
        [parts] = csv.reader([line], skipinitialspace=True)
    return [_bare(part) for part in parts]


def _bare(part: str) -> str:
    if part.isascii():
        return part.strip()
    unseen = "".join(char for char in part if _category(char) in ("Cf", "Zs", "Zl", "Zp"))
    return part.strip(unseen + " \t\r")


def _unknown(name: str, speller: Speller) -> _RejectedLineError:
    if name.strip("\"'“”‘’") != name or name.translate(_ODD_QUOTES) != name:
        return _RejectedLineError(name, "its name is in odd quotes", "write the name without quotes")
    suggestion = speller.field(name) or "remove the line, or correct the name"
    return _RejectedLineError(name, "there is no such field", suggestion)


def _refuse_binary(line: str) -> None:
    if line.isascii() and line.replace("\t", " ").isprintable():
        return
    odd = [char for char in line if _is_odd(char)]
    if odd:
        shown = " ".join(dict.fromkeys(f"U+{ord(char):04X}" for char in odd[:5]))
        cause = "bytes that are not UTF-8" if "�" in odd else f"characters that are no text ({shown})"
        raise _RejectedLineError(line, f"it holds {cause}", "save the file as plain UTF-8 text")


def _is_odd(char: str) -> bool:
    return char == "�" or (char != "\t" and _category(char) in ("Cc", "Cs", "Co"))


def _category(char: str) -> str:
    from unicodedata import category  # its table is loaded for files that need it

    return category(char)


# --- the file -------------------------------------------------------------------------------------------


def _decode(data: bytes | str) -> tuple[str, list[Problem]]:
    if isinstance(data, str):
        return data.removeprefix("\ufeff"), []
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        cause = "it is UTF-16, as some Windows programs write it"
        problem = Problem(0, "", cause, "save it as UTF-8", rejected=False)
        return data.decode("utf-16", errors="replace"), [problem]
    return data.decode("utf-8-sig", errors="replace"), []


def _lines(text: str) -> list[str]:
    """Physical lines, whichever way they end, without the blanks around them."""
    return [_bare(line) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]


def _short(text: str) -> str:
    """Part of a line, fit to be shown on one."""
    shown = "".join(char if char.isprintable() else "?" for char in text)
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"


def _quoted(text: str) -> str:
    return repr(_short(text))
