"""`gpuready`: one program, one subcommand per role; a role's modules are imported only when it is asked for.

Roles that run in pods (operator, node-agent, device-plugin) read their settings from the environment (the
exporter takes the original's flags, too); tools (status, doctor, render, crds) take options.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

# The device plugin starts in every GPU node's critical path: it goes past click and rich entirely.
_DAEMONS = ("device-plugin", "node-agent", "toolkit")
# They speak over unix sockets, and answer probes. The exporter decides by its settings.
_WITHOUT_TLS = ("device-plugin", "toolkit")


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[1:] == ["--self-check"]:
        from gpuready import self_check

        if arguments[0] in self_check.ROLES:
            return self_check.run(arguments[0])
    if len(arguments) == 1 and arguments[0] in _DAEMONS:
        return _run_daemon(arguments[0])
    if _is_exporter(arguments):
        return _run_daemon("exporter", arguments[1:])
    from gpuready.commands import run

    return run(arguments)


def _is_exporter(arguments: Sequence[str]) -> bool:
    """Alone or with flags of its own, `gpuready exporter -f counters.csv`; the rest is for click."""
    wants_help = "-h" in arguments or "--help" in arguments
    flags = arguments[1:2]
    return arguments[:1] == ["exporter"] and not wants_help and all(word[:1] == "-" for word in flags)


def _run_daemon(role: str, arguments: Sequence[str] = ()) -> int:
    from gpuready import early_listener

    early_listener.listen(role)
    from gpuready import log, without_openssl
    from gpuready.errors import GPUReadyError

    log.set_up()
    if role in _WITHOUT_TLS:
        without_openssl.leave_out()
    try:
        if role == "device-plugin":
            from gpuready.operands.device_plugin import daemon as device_plugin

            return device_plugin.main(os.environ)
        if role == "exporter":
            from gpuready.operands.exporter import start as exporter

            return exporter.main(os.environ, arguments)
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
