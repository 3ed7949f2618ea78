"""A host engine for the simulated libdcgm: an address that accepts connections and keeps them open.

There is no protocol behind it: what the library tells comes from the node's GPUs, and the connection only
says whether an engine is there.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Self


class HostEngine:
    """Up while inside `with`. path: of a unix socket; else a port of the loopback address, 0 for any."""

    def __init__(self, port: int = 0, path: Path | None = None) -> None:
        self._path = path
        self._listener: socket.socket | None = None
        self._connections: list[socket.socket] = []
        self._lock = threading.Lock()
        self.port = port

    @property
    def address(self) -> str:
        return f"unix://{self._path}" if self._path else f"127.0.0.1:{self.port}"

    def start(self) -> None:
        if self._path:
            self._path.unlink(missing_ok=True)
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(self._path))
        else:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self.port = self._listener.getsockname()[1]
        self._listener.listen()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def stop(self) -> None:
        """Nothing listens any more, and every connection is closed."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self._connections.append(connection)
