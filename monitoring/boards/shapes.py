"""What a board is made of: rows of panels, variables, and the words that queries share.

A panel is a title, what a reader learns from it, its queries and a unit; the place on the page follows from
the order.
"""

from __future__ import annotations

from dataclasses import dataclass

COLUMNS = 24  # of a page


@dataclass(frozen=True)
class Board:
    """
    variables  (name, label, query); $node is one of them on every board
    one        opens with one node, or one GPU, and not with all of them
    """

    uid: str
    title: str
    learn: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    variables: tuple[tuple[str, str, str], ...]
    one: bool = False


@dataclass(frozen=True)
class Panel:
    """
    queries  (expression, legend)
    kind     timeseries, stat or table
    width    in 24ths of the page
    columns  of a table: (label, heading); "Value" is the value
    empty    what an empty panel says, where that is good news
    """

    title: str
    learn: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "none"
    kind: str = "timeseries"
    width: int = 12
    bad_above: float | None = None
    columns: tuple[tuple[str, str], ...] = ()
    empty: str = ""


NODE = ("node", "Node", "label_values(DCGM_FI_DEV_GPU_TEMP, Hostname)")
ON_NODE = '{Hostname=~"$node"}'
BY_GPU = "{{Hostname}} / {{gpu}}"
