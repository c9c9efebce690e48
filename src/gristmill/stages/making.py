"""The process that makes ahead what a machine keeps: it imports what it makes, and nothing else."""

from __future__ import annotations

import gc
import importlib
import os
import sys

from gristmill.core.watched import end_with


def make() -> None:
    """The main function of that process: its arguments are its parent's id, and shares of tasks.

    It makes the first share, and is then forked for each of the others: the compiler is ready, which takes 1.3 s.
    """
    sys.modules.setdefault("torch", None)  # type: ignore[arg-type]  # spaCy would import it for nothing: 3.5 s
    gc.disable()  # a twentieth of the time, for 150 MB
    _make(sys.argv[2])
    own = os.getpid()
    for share in sys.argv[3:]:
        if os.fork() == 0:
            end_with(own)
            _make(share)
            return
    end_with(int(sys.argv[1]))  # by a thread, of which a fork would leave half
    for _ in sys.argv[3:]:
        os.wait()


def _make(share: str) -> None:
    for task in share.split(","):
        module, _, function = task.partition(":")
        made = importlib.import_module(module)
        if function:
            getattr(made, function)()
