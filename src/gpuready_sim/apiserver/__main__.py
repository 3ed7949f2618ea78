"""python -m gpuready_sim.apiserver --data DIR [--host H] [--port P] [--kubeconfig PATH] [--requests PATH]"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from gpuready_sim.apiserver.resources import Settings
from gpuready_sim.apiserver.server import Options, serve


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="gpuready_sim.apiserver", description="A Kubernetes API server in memory."
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="directory of keys, certificates and journal"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port; see the kubeconfig")
    parser.add_argument("--kubeconfig", type=Path, help="file to write the administrator's kubeconfig to")
    parser.add_argument("--requests", type=Path, help="file that gets one JSON line per request")
    parser.add_argument(
        "--history", type=int, default=4096, help="changes per resource that can be resumed from"
    )
    parser.add_argument("--bookmark-interval", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument(
        "--gone-as-status",
        action="store_true",
        help="refuse watches from compacted versions by HTTP status 410 instead of an ERROR event",
    )
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    settings = Settings(given.bookmark_interval, gone_in_stream=not given.gone_as_status)
    serve(
        Options(given.data, given.host, given.port, given.kubeconfig, given.requests, given.history, settings)
    )


if __name__ == "__main__":
    main()
