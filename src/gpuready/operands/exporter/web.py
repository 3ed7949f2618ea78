"""How the server is guarded: the web configuration of this moment, taken up again when its files change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpuready.errors import UsageError
from gpuready.log import get_logger
from gpuready.node.root import Root
from gpuready.operands.exporter.health import Health
from gpuready.operands.exporter.page import Page
from gpuready.operands.exporter.server import Allows, Site
from gpuready.operands.exporter.settings import Settings

if TYPE_CHECKING:
    import ssl

    from gpuready.operands.exporter.web_config import WebConfig

log = get_logger("exporter.web")


class Web:
    """path None: nothing is guarded."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.tls: ssl.SSLContext | None = None
        self._allows: Allows | None = None
        self._headers: Mapping[str, str] = {}
        self._config: WebConfig | None = None
        self._stamp: tuple[int, ...] = ()
        if path is not None:
            self._read(path)

    @classmethod
    def load(cls, settings: Settings, root: Root) -> Web:
        """raises  UsageError: better not started than open to everybody"""
        return cls(root.typed(settings.web_config_file) if settings.web_config_file else None)

    def site(self, page: Callable[[], Page], health: Callable[[], Health]) -> Site:
        return Site(page, health, self._allows, self._headers)

    def renew(self) -> None:
        """Take up changed files; with wrong ones everything stays as it was."""
        if self._path is None or self._stamp_now(self._path) == self._stamp:
            return
        try:
            self._read(self._path)
        except UsageError as exc:
            self._stamp = self._stamp_now(self._path)
            log.error("web configuration not taken up", what=exc.what, why=exc.why, next_step=exc.next_step)
        else:
            log.info("web configuration taken up", file=self._path.name)

    def _read(self, path: Path) -> None:
        from gpuready.operands.exporter import web_config  # with ssl and hashlib, which most do without

        config = web_config.load(path)
        context = web_config.tls_context(config, path)
        if self.tls is not None and config.tls is not None:
            web_config.renew_certificate(self.tls, config.tls)  # the sockets that listen hold this context
        else:
            self.tls = context
        self._config, self._headers = config, config.headers
        self._allows = web_config.Door(config.users).allows if config.users else None
        self._stamp = self._stamp_now(path)

    def _stamp_now(self, path: Path) -> tuple[int, ...]:
        tls = (self._config.tls if self._config else None) or {}
        files = [path, *(path.parent / str(tls[key]) for key in ("cert_file", "key_file") if tls.get(key))]
        return tuple(_changed_at(each) for each in files)


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
