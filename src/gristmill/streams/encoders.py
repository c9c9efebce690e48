"""A tokenizer for the threads of all loaders of a process."""

from __future__ import annotations

import functools
import os
import pickle
import time
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.core.texts import Texts
from gristmill.tokenize.backends import Ids
from gristmill.tokenize.tokenizer import Tokenizer

# Building takes 0.4 s: threads wait for twice of it, since those of a first batch of 64 rows wait for 0.4 s in all.
_PATIENCE_SECONDS, _BUILDING_SECONDS = 0.2, 0.8
_CORES = os.cpu_count() or 1  # asking takes 80 microseconds


class Encoders:
    """A tokenizer for many threads: each uses one for itself, and what is idle serves the next.

    A further one takes 0.4 s to build, a block 4 ms to encode: so threads wait for their turn until they have waited,
    in all, twice as long as building one takes, and no first batch waits for it. Once there is one a core they still do
    not wait for ever, since the threads that had them may be those of a process that this one is a fork of.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._pickled, self.eos, self.dtype = pickle.dumps(tokenizer), tokenizer.eos, tokenizer.dtype
        self._idle: SimpleQueue[Tokenizer] = SimpleQueue()
        self._idle.put(tokenizer)
        self.made, self._waited = 1, 0.0

    def encode(self, texts: pa.Array | Texts, order: Ints | None = None) -> tuple[Ids, Ints]:
        """Ids end to end, the EOS after each document, and offsets; order: the rows as they are to come."""
        tokenizer = self._taken()
        try:
            return tokenizer.encode_ended(texts, order)
        finally:
            self._idle.put(tokenizer)

    def _taken(self) -> Tokenizer:
        try:
            return self._idle.get_nowait()
        except Empty:
            pass
        began = time.perf_counter()
        patience = _PATIENCE_SECONDS if self.made >= _CORES else max(_BUILDING_SECONDS - self._waited, 0.0)
        try:
            tokenizer = self._idle.get(timeout=patience)
            self._waited += time.perf_counter() - began
        except Empty:
            self.made, self._waited = self.made + 1, 0.0
            tokenizer = pickle.loads(self._pickled)  # which this object has pickled itself
        return tokenizer


@dataclass(frozen=True)
class _Alike:
    """A tokenizer, equal to those that give the same ids and the same sentences."""

    kind: tuple[type[Tokenizer], str, str, str]
    tokenizer: Tokenizer = field(compare=False)


def encoders(tokenizer: Tokenizer) -> Encoders:
    """One for all loaders of a process: to build an encoder takes tenths of a second, and a second loader's first batch
    and a resume should take none, though each stream has loaded its tokenizer by itself.
    """
    return _encoders(_Alike((type(tokenizer), tokenizer.name, tokenizer.fingerprint, tokenizer.backend), tokenizer))


@functools.lru_cache(maxsize=4)
def _encoders(alike: _Alike) -> Encoders:
    return Encoders(alike.tokenizer)
