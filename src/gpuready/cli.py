"""`gpuready`: one program, one subcommand per role; a role's modules are imported only when it is asked for.

Roles that run in pods (operator, node-agent, device-plugin) read their settings from the environment;
tools (status, doctor, render, crds) take options.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

# The device plugin starts in every GPU node's critical path: it goes past click and rich entirely.
_DAEMONS = ("device-plugin", "node-agent", "toolkit")


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[1:] == ["--self-check"]:
        from gpuready import self_check

        if arguments[0] in self_check.ROLES:
            return self_check.run(arguments[0])
    if len(arguments) == 1 and arguments[0] in _DAEMONS:
        return _run_daemon(arguments[0])
    from gpuready.commands import run

    return run(arguments)


def _run_daemon(role: str) -> int:
    from gpuready import log
    from gpuready.errors import GPUReadyError

    log.set_up()
    try:
        if role == "device-plugin":
            from gpuready.operands.device_plugin import daemon as device_plugin

            return device_plugin.main(os.environ)
        if role == "toolkit":
            from gpuready.operands.toolkit import daemon as toolkit

            return toolkit.main(os.environ)
        from gpuready.operands.node_agent import daemon as node_agent

        return node_agent.main(os.environ)
    except GPUReadyError as exc:
        log.get_logger(role).error("cannot start", what=exc.what, why=exc.why, next_step=exc.next_step)
        return 2


if __name__ == "__main__":
    sys.exit(main())
