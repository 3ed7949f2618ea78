"""aiohttp, imported without the system's certificates: it reads them twice, for connections that name none.

Ours bring their own or need none, and every process of a simulated cluster would pay 45 ms for them.
"""

from __future__ import annotations

import ssl

ssl.SSLContext.set_default_verify_paths = lambda self: None  # type: ignore[method-assign]
try:
    import aiohttp
finally:
    del ssl.SSLContext.set_default_verify_paths  # what it inherits counts again

__all__ = ["aiohttp"]
