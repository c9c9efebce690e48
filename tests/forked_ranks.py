"""Scripts as torchrun runs them, in processes that share their imports: a server imports a script, and forks its ranks.

Importing torch, and what its optimizers and trainers import, takes longer than a dozen steps of a tiny model.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def fork_rank(rank: int, ranks: int, port: int, command: list[str], log: str) -> int:
    """Begin one rank; its pid."""
    if pid := os.fork():
        return pid
    said = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}  # fmt: skip
    os.environ.update({name: str(value) for name, value in said.items()} if ranks > 1 else {})
    told = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(told, 1)
    os.dup2(told, 2)
    sys.argv = command
    runpy.run_path(command[0], run_name="__main__")
    sys.exit(0)


def run_all(ranks: int, command: list[str], log: str) -> int:
    """Run all ranks to their end: 0 if every one of them ended well; none outlives one that did not."""
    sys.path[0] = os.path.dirname(command[0])
    runpy.run_path(command[0], run_name="imported")
    port, code = free_port(), 0
    running = {fork_rank(rank, ranks, port, command, log) for rank in range(ranks)}
    while running:
        pid, status = os.wait()
        running.discard(pid)
        if status and not code:
            code = 1
            for other in running:
                os.kill(other, signal.SIGKILL)
    return code


def serve() -> None:
    """Answer each line that asks for ranks by the code with which they ended."""
    import torch._dynamo  # noqa: F401

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(run_all(**json.loads(line)), file=answers, flush=True)


@pytest.fixture(scope="session")
def run_ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """`run_ranks(2, script, *options)`: all ranks of a script to their good end; what they printed."""
    server = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True)  # fmt: skip
    assert server.stdin and server.stdout
    requests, answers = server.stdin, server.stdout

    def run(ranks: int, *command: object) -> str:
        log = tmp_path_factory.mktemp("ranks") / "log"
        print(json.dumps({"ranks": ranks, "command": [*map(str, command)], "log": str(log)}), file=requests, flush=True)
        code = answers.readline()
        printed = Path(log).read_text(errors="replace")
        assert code == "0\n", printed[-4000:]
        return printed

    yield run
    os.killpg(server.pid, signal.SIGKILL)
    server.communicate()


if __name__ == "__main__":
    serve()
