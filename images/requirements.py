"""Write requirements/runtime.txt: what the product itself requires, out of dev.txt, with the same hashes.

python images/requirements.py [--check]
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
RUNTIME, ALL = ROOT / "requirements/runtime.txt", ROOT / "requirements/dev.txt"
_NAME = re.compile(r"^([A-Za-z0-9._-]+)==")
_VIA = re.compile(r"^    #(?: via)?\s+(\S+)$")


def runtime_text() -> str:
    entries = _entries(ALL.read_text())
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    wanted = _closure({_canonical(text) for text in declared}, entries)
    return "".join(entries[name] for name in sorted(wanted))


def _entries(text: str) -> dict[str, str]:
    """name -> its lines: version, hashes, and the comment that says who requires it."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines(keepends=True):
        match = _NAME.match(line)
        name = _canonical(match.group(1)) if match else name
        found[name] = found.get(name, "") + line
    return found


def _closure(wanted: set[str], entries: Mapping[str, str]) -> set[str]:
    """With all that they require: whoever is required says so in a comment."""
    while True:
        more = {name for name, lines in entries.items() if wanted & set(_required_by(lines))}
        if more <= wanted:
            return wanted
        wanted |= more


def _required_by(lines: str) -> Iterable[str]:
    return (_canonical(match.group(1)) for line in lines.splitlines() if (match := _VIA.match(line)))


def _canonical(text: str) -> str:
    name = re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def main(arguments: list[str]) -> int:
    text = runtime_text()
    if "--check" in arguments:
        if RUNTIME.exists() and RUNTIME.read_text() == text:
            return 0
        sys.stderr.write(f"{RUNTIME.name} is out of date: run python images/requirements.py\n")
        return 1
    RUNTIME.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
