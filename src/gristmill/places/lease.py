"""Who writes to a folder in object storage: an object that its holder renews, and others take over once it stays.

No clocks are compared. Whoever finds a lock watches it: if it changes, its holder lives; if it is the same for a whole
lease, it is replaced on the condition that it is still that one, so by one of those who try. A holder that was a
process of this machine and is gone is known at once.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol, Self

from gristmill.core.errors import ConfigError, EngineError
from gristmill.core.usage import began

# Seconds: how often a lock is renewed, how long it may stay as it is, and how often it is looked at.
RENEWED, LEASE, LOOKED_AT = 10.0, 30.0, 1.0
_KIND = "lock"


class Register(Protocol):
    """An object that can be replaced on a condition; FileExistsError where it is not met."""

    path: str

    def current(self) -> tuple[bytes, str] | None:
        """What it holds and its version, if it is there."""

    def put_if(self, data: bytes, version: str | None) -> str:
        """Replace this version, or be new; the new version."""

    def remove(self) -> None: ...


@dataclass(frozen=True)
class Holder:
    """A process that holds a lock, as the lock says."""

    host: str
    pid: int
    began: str
    since: str
    nonce: str
    gristmill: str = _KIND
    renewed: int = 0

    @staticmethod
    def here() -> Holder:
        now = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        return Holder(_machine(), os.getpid(), _began(os.getpid()), now, secrets.token_hex(8))

    @classmethod
    def of(cls, data: bytes) -> Self | None:
        """What a lock says; None where it is no lock of ours."""
        with contextlib.suppress(ValueError, TypeError):
            found = cls(**json.loads(data))
            return found if found.gristmill == _KIND else None
        return None

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    def is_alive(self) -> bool | None:
        """Whether the process runs; None where that cannot be seen from here."""
        return None if self.host != _machine() else _began(self.pid) == self.began

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host.partition('/')[0]}, since {self.since}"


def _machine() -> str:
    """This machine since it was started, and which processes are seen here."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{platform.node()}/{file.read().strip()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{platform.node()}/{secrets.token_hex(8)}"  # nobody's: a lock is watched then


def _began(pid: int) -> str:
    """When a process began, as a lock says it; nothing of one that has ended."""
    return str(began(pid) or "")


@dataclass
class Lease:
    """A lock while it is held: renewed by a thread, given back in the end."""

    register: Register
    holder: Holder
    version: str
    lost: bool = False
    _over: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        renewing = threading.Thread(target=self._renew, daemon=True, name="gristmill-lock")
        renewing.start()
        try:
            yield
        finally:
            self._over.set()
            renewing.join()
            if not self.lost:
                self.register.remove()
        if self.lost:
            raise EngineError(f"{self.register.path} was taken over by another run, which goes on: run again after it.")

    def _renew(self) -> None:
        while not self.lost and not self._over.wait(RENEWED):
            self.holder = replace(self.holder, renewed=self.holder.renewed + 1)
            try:
                self.version = self.register.put_if(self.holder.to_bytes(), self.version)
            except FileExistsError:
                self._look()
            except (OSError, EngineError):
                continue  # the server does not answer; whoever could take the lock over does not reach it either

    def _look(self) -> None:
        """An answer may have been lost on its way: then what lies there is still ours."""
        found = self.register.current()
        holder = Holder.of(found[0]) if found else None
        self.lost = found is None or holder is None or holder.nonce != self.holder.nonce
        self.version = found[1] if found else self.version


@contextlib.contextmanager
def held(register: Register, *, wait: bool) -> Iterator[None]:
    """Hold a lock; BlockingIOError, which says who does, where another holds it and `wait` is not said."""
    holder = Holder.here()
    with Lease(register, holder, _taken(register, holder, wait)).kept():
        yield


def _taken(register: Register, mine: Holder, wait: bool) -> str:
    """The version of the lock once it is ours: a new one, or one that was watched for long enough."""
    watched, since = "", 0.0
    while True:
        with contextlib.suppress(FileExistsError):
            return register.put_if(mine.to_bytes(), None)
        if (found := register.current()) is None:
            continue
        other, version = _read(register, found)
        if other.nonce == mine.nonce:  # the answer that said so was lost
            return version
        alive = other.is_alive()
        if not wait and (alive or (watched and version != watched)):
            raise BlockingIOError(errno.EWOULDBLOCK, str(other), register.path)
        if version != watched:
            watched, since = version, time.monotonic()
        if alive is False or time.monotonic() - since >= LEASE:
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                return register.put_if(mine.to_bytes(), version)
        time.sleep(LOOKED_AT)


def _read(register: Register, found: tuple[bytes, str]) -> tuple[Holder, str]:
    other = Holder.of(found[0])
    if other is None:
        raise ConfigError(f"{register.path} is no lock that Gristmill made: choose another folder, or move it away.")
    return other, found[1]
