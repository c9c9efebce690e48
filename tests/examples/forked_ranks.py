"""A script as torchrun runs it, in processes that share their imports: `forked_ranks.py RANKS SCRIPT OPTIONS...`.

Importing torch, and what its optimizers import when one is made, takes longer than a dozen steps of a tiny model.
"""

from __future__ import annotations

import os
import runpy
import signal
import socket
import sys

import torch._dynamo  # noqa: F401


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def fork_rank(rank: int, ranks: int, port: int, script: str, options: list[str]) -> int:
    """Begin one rank; its pid."""
    if pid := os.fork():
        return pid
    said = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}  # fmt: skip
    os.environ.update({name: str(value) for name, value in said.items()})
    sys.argv = [script, *options]
    runpy.run_path(script, run_name="__main__")
    sys.exit(0)


def main(ranks: str, script: str, *options: str) -> int:
    """Run all ranks to their end: 0 if every one of them ended well; none outlives one that did not."""
    sys.path[0] = os.path.dirname(script)
    runpy.run_path(script, run_name="imported")
    port, code = free_port(), 0
    running = {fork_rank(rank, int(ranks), port, script, [*options]) for rank in range(int(ranks))}
    while running:
        pid, status = os.wait()
        running.discard(pid)
        if status and not code:
            code = 1
            for other in running:
                os.kill(other, signal.SIGKILL)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
