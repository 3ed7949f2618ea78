"""aiohttp and asyncio's TLS, for programs that have a node's memory, or thousands of nodes, to think of.

aiohttp reads the system's certificates twice while it is imported, for connections that name none: 2.5 MB
and a tenth of a second. Ours bring their own (kube/access.py). asyncio sets aside 256 KB for each TLS
connection and fills them; an operator has four dozen connections, of which most hear a few KB a minute.
"""

from __future__ import annotations

import ssl
from asyncio.sslproto import SSLProtocol

TLS_BUFFER_BYTES = 64 * 1024  # a TLS record has 16 at most

ssl.SSLContext.set_default_verify_paths = lambda self: None  # type: ignore[method-assign]
try:
    import aiohttp
finally:
    del ssl.SSLContext.set_default_verify_paths  # what it inherits counts again

SSLProtocol.max_size = TLS_BUFFER_BYTES

__all__ = ["TLS_BUFFER_BYTES", "aiohttp"]
