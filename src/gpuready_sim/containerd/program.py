"""`containerd` on a simulated machine.

python -m gpuready_sim.containerd.program --node-root DIR --release 1.7.24 [--config FILE]
    serve | --version | config dump | config migrate
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpuready_sim.containerd import merge

CONFIG = "/etc/containerd/config.toml"


def main(argv: list[str] | None = None) -> int:
    options = _parse(argv)
    if options.version:
        sys.stdout.write(f"containerd github.com/containerd/containerd v{options.release} simulated\n")
        return 0
    try:
        told = merge.configuration(options.node_root, options.config, options.release)
    except merge.Refused as exc:
        sys.stderr.write(f"containerd: {exc}\n")
        return 1
    if options.words[:1] == ["config"]:
        import tomlkit

        sys.stdout.write(tomlkit.dumps(told))
        return 0
    from gpuready_sim.containerd import service

    service.serve(options.node_root, told, options.release)
    return 0


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node-root", type=Path, required=True)
    parser.add_argument("--release", required=True)
    parser.add_argument("--config", default=CONFIG)
    parser.add_argument("--version", action="store_true")
    parser.add_argument("words", nargs="*")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
