"""A kubectl command of a next step can be pasted: it says the namespace of what lives in one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "gpuready"
_NAMESPACED = re.compile(
    r"kubectl (?:logs|(?:get|describe|delete) (?:pods?|daemonsets?|configmaps?|secrets?|events)\b)[^,;()]*"
)
# `..., and kubectl describe pod` is said behind a command that names the pod and its namespace.
_LEANS = re.compile(r"kubectl describe pod$")


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Each text of a module with its line, docstrings aside; what is filled in stands as {}."""
    tree = ast.parse(path.read_text())
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in said | parts:
            continue
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def commands() -> list[tuple[str, str]]:
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        if "kubectl" in path.read_text():
            for line, text in texts_of(path):
                where = f"{path.relative_to(SOURCES)}:{line}"
                found += [(where, command.strip()) for command in _NAMESPACED.findall(text)]
    return found


@pytest.mark.parametrize(("where", "command"), commands())
def test_a_command_about_what_lives_in_a_namespace_names_it(where: str, command: str) -> None:
    assert re.search(r" (-n|-A)\b", command) or _LEANS.search(command), where
