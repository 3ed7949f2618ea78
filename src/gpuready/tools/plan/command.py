"""`gpuready plan`: look, ask what would follow, print it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

from gpuready.kube.client import KubeClient
from gpuready.tools.files import Beside, beside_in, nodes_in, policy_in
from gpuready.tools.plan import look as looks
from gpuready.tools.plan.forecast import Forecast
from gpuready.tools.plan.foresee import foresee, wanted_objects
from gpuready.tools.plan.look import Look
from gpuready.tools.plan.text import text_of

NOTHING, SOMETHING = 0, 1


def run(
    policy_text: str,
    nodes_text: str | None = None,
    *,
    namespace: str,
    image: str = "",
    kubeconfig: str | None = None,
    context: str | None = None,
    output: str = "table",
) -> int:
    """0 nothing would change, 1 something would, or the policy is not followed as it stands.

    nodes_text   None looks at the cluster; else nothing but these nodes is there
    raises       GPUReadyError when it cannot look (the command line makes exit status 2 of it)
    """
    raw, beside = policy_in(policy_text), beside_in(policy_text, namespace)
    if nodes_text is not None:
        seen = looks.offline(nodes_in(nodes_text), namespace, image).with_beside(beside)
    else:
        seen = asyncio.run(_look(raw, beside, namespace, image, kubeconfig, context))
    forecast = foresee(raw, seen)
    sys.stdout.write(_printed(forecast, output) + "\n")
    return SOMETHING if forecast.says_something else NOTHING


async def _look(
    raw: Mapping[str, Any],
    beside: Beside,
    namespace: str,
    image: str,
    kubeconfig: str | None,
    context: str | None,
) -> Look:
    async with KubeClient.auto(kubeconfig, context, user_agent="gpuready-cli") as client:
        seen = (await looks.gather(client, namespace, image)).with_beside(beside)
        await looks.check_namespace(client, seen)
        return await looks.with_foreign(client, seen, wanted_objects(raw, seen))


def _printed(forecast: Forecast, output: str) -> str:
    return json.dumps(forecast.to_json(), indent=1) if output == "json" else text_of(forecast)
