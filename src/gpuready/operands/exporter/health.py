"""What the exporter says of itself, for /health, for its record and through it for GPUNode. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gpuready.chain.verdict import State

READY = "Ready"


@dataclass(frozen=True)
class Health:
    """`details`: one line for each GPU, field or source that something is wrong with."""

    state: State
    reason: str
    message: str
    next_step: str = ""
    details: tuple[str, ...] = ()

    @property
    def serves(self) -> bool:
        """There are values to scrape, perhaps not of every GPU."""
        return self.state in (State.OK, State.DEGRADED)

    @property
    def text(self) -> str:
        lines = [str(self.state).upper(), self.message if self.reason != READY else "", *self.details]
        if self.next_step:
            lines.append(f"next: {self.next_step}")
        return "\n".join(line for line in lines if line)
