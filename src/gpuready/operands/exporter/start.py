"""The exporter's first steps: its settings are read before its program is loaded, as they say what it needs.

OpenSSL takes 4.5 of the 40 MB that an exporter may have, and asyncio loads it wherever Python has it. Only a
page that is served by TLS, and the API server that tells labels of pods, are worth that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from gpuready import log as logging
from gpuready import without_openssl
from gpuready.errors import UsageError
from gpuready.log import get_logger
from gpuready.node.root import Root
from gpuready.operands.exporter import flags
from gpuready.operands.exporter.selection import parse_selection
from gpuready.operands.exporter.settings import Settings

log = get_logger("exporter")


def main(env: Mapping[str, str], arguments: Sequence[str] = ()) -> int:
    """Run until told to stop; 0 after a clean stop, 2 for settings that make no sense."""
    root = Root.from_env(env)
    try:
        merged = flags.env_of(arguments, env)
        settings = Settings.from_env(merged)
        parse_selection(settings.devices)
        if not needs_tls(settings):
            without_openssl.leave_out()
        from gpuready.operands.exporter import daemon
        from gpuready.operands.exporter.web import Web

        web = Web.load(settings, root)
    except UsageError as exc:
        log.error("cannot start", what=exc.what, why=exc.why, next_step=exc.next_step)
        return 2
    if settings.debug or settings.log_format != "text":
        logging.set_up(level="debug" if settings.debug else None, form=settings.log_format)
    for variable, why in flags.without_effect(merged).items():
        log.warning("setting without effect", variable=variable, reason=why)
    if daemon.run(settings, root, web):
        log.info("starting anew", reason="the driver has another library now")
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    return 0


def needs_tls(settings: Settings) -> bool:
    return bool(settings.web_config_file or settings.pod_labels)
