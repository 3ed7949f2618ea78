"""What the options of several commands have in common: kinds of values, and how a cluster is found."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, ClassVar

import click

from gpuready import given_files


class Seconds(click.ParamType[float]):
    """A duration as Go programs take it (15s, 1m30s, 500ms), or a number of seconds."""

    name = "duration"
    _UNITS: ClassVar = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return self._told(float(value), value, param, ctx)
        except ValueError:
            pass
        parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", value)
        if not parts or "".join(number + unit for number, unit in parts) != value:
            self.fail(f"{value!r} is no duration; write it like 15s, 1m30s or 500ms", param, ctx)
        return sum(float(number) * self._UNITS[unit] for number, unit in parts)

    def _told(
        self, seconds: float, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """float() takes nan, inf and what lies in the past, too."""
        if not 0 <= seconds < math.inf:
            self.fail(f"{value!r} is no duration; write it like 15s, 1m30s or 500ms", param, ctx)
        return seconds


class TextFile(click.File):
    """The text of a file; - is stdin."""

    def __init__(self, most_bytes: int = given_files.MOST_BYTES) -> None:
        super().__init__("r", encoding="utf-8")
        self._most_bytes = most_bytes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        self._refuse_stdin_twice(value, param, ctx)
        try:
            text = given_files.read_or_say(value, "a text file", self._most_bytes).decode()
        except UnicodeDecodeError as exc:
            self.fail(f"{value!r} is not UTF-8 text: {exc.reason} at byte {exc.start}", param, ctx)
        return given_files.GivenText(text, given_files.shown(value))

    def _refuse_stdin_twice(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> None:
        """The second to read it would find it empty."""
        if ctx is None or value != "-":
            return
        mine = param.opts[-1] if param else ""
        first = ctx.meta.setdefault("gpuready.stdin", mine)
        if first != mine:
            self.fail(f"{first} reads standard input already; give one of them as a file", param, ctx)


NODES_FILE = TextFile(given_files.MOST_BYTES_OF_A_CLUSTER)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--context", help="Context of the kubeconfig to use."),
        click.option(
            "--kubeconfig",
            type=click.Path(dir_okay=False),
            help="Defaults to $KUBECONFIG, then ~/.kube/config, then the pod's own account.",
        ),
        click.option(
            "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
        ),
    ):
        command = option(command)
    return command


def complete_nodes(context: click.Context, parameter: click.Parameter, start: str) -> list[str]:
    from gpuready.tools.completion import node_names

    return node_names(start, context.params.get("kubeconfig"), context.params.get("context"))


def complete_policies(context: click.Context, parameter: click.Parameter, start: str) -> list[str]:
    from gpuready.tools.completion import policy_names

    return policy_names(start, context.params.get("kubeconfig"), context.params.get("context"))
