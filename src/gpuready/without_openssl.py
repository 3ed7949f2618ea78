"""Keeps OpenSSL out of a process that needs no TLS.

libssl and libcrypto take 4.5 MB, and asyncio and hashlib load them wherever Python has them. Without, they go
on as in a Python that was built without it: asyncio and grpclib have no TLS, hashlib has its own digests.
"""

from __future__ import annotations

import sys


def leave_out() -> None:
    """From now on; nothing that is imported already is taken away."""
    for name in ("ssl", "_hashlib"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
