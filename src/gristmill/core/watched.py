"""A command in a process of its own, with one beside it that only watches: to die of a signal is a sentence, too.

Where memory runs out, libraries abort or touch what they did not get, and the kernel kills without a word. The watcher
is forked off before anything is imported, so it costs a millisecond and is in nobody's way.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

_FORWARDED = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_LOOK_SECONDS = 0.5
_TASKS, _UNKNOWN = "/proc/self/task", -2
# Threads of libraries by the commands that have imported them: allocators and BLAS have some, and stop them for a fork.
_imported: dict[int, int] = {}


def watched(run: Callable[[], int]) -> int:
    """What `run` returns, from a forked process; where that dies, a sentence and 1."""
    if threading.active_count() > 1:  # a fork would leave their locks locked
        return run()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, signal.SIGCHLD})
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        end_with(parent)
        _imported[os.getpid()] = 0
        _end(run())
    return _watch(child)


def _end(code: int) -> NoReturn:
    """End as Python does, but do not take everything apart first (0.5 s, for memory that goes anyway)."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def imported() -> None:
    """Called by a command that has imported its libraries and begins to work."""
    if is_command():
        _imported[os.getpid()] = _threads_of_others()


def is_command() -> bool:
    """Whether this process was started for a command, and is nobody else's."""
    return os.getpid() in _imported


def may_fork() -> bool:
    """Whether this is a command's process in which no library has begun to work in threads: locks that a fork
    inherits from those would stay locked."""
    return _imported.get(os.getpid(), _UNKNOWN) == _threads_of_others()


def _threads_of_others() -> int:
    """Threads that Python did not start."""
    try:
        return len(os.listdir(_TASKS)) - threading.active_count()
    except OSError:  # not Linux
        return _UNKNOWN + 1


def _watch(child: int) -> int:
    """Hand signals on to the child until it ends."""
    told = 0
    while True:
        heard = signal.sigwaitinfo({*_FORWARDED, signal.SIGCHLD}).si_signo
        if heard != signal.SIGCHLD:
            told = heard
            os.kill(child, heard)  # it is not waited for yet, so its number is still its own
            continue
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return _ended(os.waitstatus_to_exitcode(status), told)


def _ended(code: int, told: int) -> int:
    if code >= 0:
        return code
    if told == -code:  # before it was ready to answer for itself
        print(f"gristmill: {_FORWARDED[signal.Signals(told)]}", file=sys.stderr)
        return 128 + told
    print(
        f"gristmill: The process died ({signal.Signals(-code).name}), most likely for want of memory. Run the same "
        "command again; if it happens again, give it more memory or fewer workers.",
        file=sys.stderr,
    )
    return 1


def end_with(parent: int) -> None:
    """End this process when another has ended: a killed run must not work on behind its user."""
    threading.Thread(target=_look_for, args=(parent,), daemon=True).start()


def _look_for(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)
