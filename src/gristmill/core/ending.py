"""How a command ends that is told to: by Ctrl-C or SIGTERM, in one sentence, leaving nobody at work behind it.
Where its reader has gone, as `head` does, it ends without a word.

The first signal raises KeyboardInterrupt, so that files that are half written are removed. Where that is not heard in
time (a library is at work that looks at no signals, or has swallowed the exception), or at a second signal, the process
ends by force: a store is never left in a state that a later run could not go on from.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_WORDS: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_PRINTED = (1, 2)  # stdout and stderr
_GRACE_SECONDS, _AGAIN_SECONDS = 10.0, 1.0


class Ending:
    """Within the block signals are heard; `told` is the one that came, if any. `hint` is said with it.

    Where the process ends with the block, `last`, a signal that comes after the first is not heard any more.
    """

    def __init__(self, *, last: bool = False) -> None:
        self._last = last
        self.told: int | None = None
        self.hint = ""
        self._when = 0.0
        self._before: dict[int, signal._HANDLER] = {}
        self._hooks = sys.unraisablehook, threading.excepthook
        self._said = threading.Lock()
        self._over = threading.Event()

    def __enter__(self) -> Ending:
        if threading.current_thread() is threading.main_thread():
            heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._hear) for number in heard}
            self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._before:
            return
        signal.set_wakeup_fd(-1)
        os.close(self._woken)  # the listener ends; or its clock runs on, where the process is to end with the block
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self._last and self.told else handler)
        if not self._last:
            self._over.set()
            sys.unraisablehook, threading.excepthook = self._hooks

    def _listen(self) -> None:
        """A thread that learns of signals at once, whatever the main thread is doing."""
        asleep, self._woken = os.pipe()
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(asleep,), daemon=True).start()

    def _watch(self, asleep: int) -> None:
        heard = b""
        while heard not in (bytes([number]) for number in _SIGNALS):  # a change of window size is not ours
            heard = os.read(asleep, 1)
            if not heard:
                os.close(asleep)
                return
        over = self._over.wait(_GRACE_SECONDS)
        os.close(asleep)
        if not over:
            self._force(heard[0])

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.told is not None:
            if time.monotonic() - self._when > _AGAIN_SECONDS:
                self._force(number)
            return  # the same one, by another way: a terminal tells all processes of a group
        self.told, self._when = number, time.monotonic()
        # What is thrown away now may complain that it was not finished: that is the point.
        sys.unraisablehook = threading.excepthook = _pass_over
        raise KeyboardInterrupt

    def _force(self, number: int) -> None:
        self.told = self.told or number
        leave(self.say())

    def say(self) -> int:
        """The sentence, once, and the exit code that shells expect."""
        number = self.told or signal.SIGINT
        if self._said.acquire(blocking=False):
            said = f"gristmill: {_WORDS.get(number, 'stopped')}{self.hint}\n"
            os.write(2, said.encode())
        # An interrupt inside a string that is executed (dataclasses are made so) leaves a mark in Python 3.11, by which
        # `python -m` ends of SIGINT, whatever became of the exception. Another string wipes it off.
        exec("")
        return 128 + number


def open_closed() -> None:
    """Let what is printed go nowhere where stdout or stderr was closed, as by `>&-`.

    It takes the number of what was closed, which a file that is being written would otherwise get.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


def unread() -> bool:
    """Whether what is printed goes into a pipe that nobody reads any more, as behind `| head`."""
    return bool(_closed_pipes())


def _closed_pipes() -> list[int]:
    asked = select.poll()
    for number in _PRINTED:
        asked.register(number, 0)
    return [number for number, events in asked.poll(0) if events & (select.POLLERR | select.POLLHUP)]


def fall_silent() -> int:
    """Let the rest of what is printed go nowhere; the exit code of a tool that such a pipe has ended."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in _closed_pipes():
        os.dup2(nowhere, number)  # so that the interpreter's last flush has somewhere to go
    os.close(nowhere)
    return 128 + signal.SIGPIPE


def leave(code: int) -> None:
    """End now, without the interpreter's own ending: only children and semaphores, which would live on, are seen to."""
    if "multiprocessing" in sys.modules:
        import multiprocessing
        import multiprocessing.util

        for child in multiprocessing.active_children():
            child.kill()
        multiprocessing.util._run_finalizers(0)  # type: ignore[attr-defined]
    os._exit(code)


def _pass_over(unheard: object) -> None:
    """Say nothing of what broke off."""
