"""A worker's end of the pipe: commands come as JSON lines on stdin, replies go to stdout. Standard library only."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO


def serve(worker: Any, core: int) -> None:
    """Answer each command by the worker's method of that name, on one core, until stdin ends."""
    os.sched_setaffinity(0, {core})
    replies = _private_stdout()
    for line in sys.stdin:
        name, arguments = json.loads(line)
        print(json.dumps(getattr(worker, name)(**arguments)), file=replies, flush=True)


def _private_stdout() -> TextIO:
    """Keep stdout for replies: whatever a library prints goes to stderr."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return replies


def read_texts(path: str) -> list[dict[str, str]]:
    """The documents of a JSONL file."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
