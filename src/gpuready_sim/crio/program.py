"""`crio` on a simulated machine.

python -m gpuready_sim.crio.program --node-root DIR --release 1.34.2 [--config FILE] [--config-dir DIR]
    [serve] | config | status [--socket FILE] config | --version
"""

from __future__ import annotations

import argparse
import socket
import sys
from pathlib import Path

from gpuready_sim.crio import merge


def main(argv: list[str] | None = None) -> int:
    options = _parse(argv)
    if options.version:
        sys.stdout.write(f"crio version {options.release}\nPlatform:       linux/amd64 (simulated)\n")
        return 0
    try:
        return _run(options)
    except (merge.Refused, OSError) as exc:
        sys.stderr.write(f"crio: {exc}\n")
        return 1


def _run(options: argparse.Namespace) -> int:
    if options.words[:1] == ["status"]:
        sys.stdout.write(_asked(options.node_root / options.socket.lstrip("/")))
        return 0
    if options.words[:1] == ["config"]:
        import tomlkit

        told = merge.configuration(options.node_root, options.release, options.config, options.config_dir)
        merge.default_of(told["crio"]["runtime"], options.release)
        sys.stdout.write(tomlkit.dumps(told))
        return 0
    from gpuready_sim.crio import service

    daemon = service.Daemon(options.node_root, options.release, options.config, options.config_dir)
    service.serve(daemon, options.node_root)
    return 0


def _asked(path: Path) -> str:
    """What the running daemon says of its configuration."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(str(path))
        client.sendall(b"GET /config HTTP/1.0\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    return answer.partition(b"\r\n\r\n")[2].decode()


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node-root", type=Path, required=True)
    parser.add_argument("--release", required=True)
    parser.add_argument("--config", default=merge.ROOT)
    parser.add_argument("--config-dir", default=merge.DROP_INS)
    parser.add_argument("--socket", default="/run/crio/crio.sock")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("words", nargs="*")
    return parser.parse_intermixed_args(argv)


if __name__ == "__main__":
    sys.exit(main())
