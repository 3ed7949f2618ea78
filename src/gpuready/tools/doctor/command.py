"""`gpuready doctor`: look once, or at a saved bundle, and say what is wrong."""

from __future__ import annotations

import asyncio
import json
import sys

from gpuready.kube.client import KubeClient
from gpuready.tools import snapshot as snapshots
from gpuready.tools.doctor import text
from gpuready.tools.doctor.analysis import report_of
from gpuready.tools.snapshot import Snapshot
from gpuready.tools.terminal import width

FINE, FOUND_SOMETHING = 0, 1


def run(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    output: str = "table",
    node: str | None = None,
    bundle: str | None = None,
    save_bundle: str | None = None,
) -> int:
    """Print the report; 0 nothing found, 1 found something.

    raises  GPUReadyError when it cannot look (the command line makes exit status 2 of it)
    """
    seen = snapshots.load(bundle) if bundle else asyncio.run(_look(kubeconfig, context))
    if save_bundle:
        snapshots.save(seen, save_bundle)
    report = report_of(seen, node)
    if output == "json":
        sys.stdout.write(json.dumps(report.to_json(), indent=1) + "\n")
    elif node:
        sys.stdout.write(text.node_text(report.rows[0], report, width()) + "\n")
    else:
        sys.stdout.write(text.report_text(report, width()) + "\n")
    return FOUND_SOMETHING if report.findings else FINE


async def _look(kubeconfig: str | None, context: str | None) -> Snapshot:
    async with KubeClient.auto(kubeconfig, context, user_agent="gpuready-cli") as client:
        return await snapshots.gather(client)
