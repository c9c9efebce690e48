"""The bytes of each token, where the tokenizer gives a token the same bytes wherever it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Bytes, Ints
from gristmill.core.texts import byte_letters

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from gristmill.store.reader import Store

_known: WeakKeyDictionary[Store, TokenBytes | None] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class TokenBytes:
    """Token t has the bytes data[offsets[t]:offsets[t + 1]]; EOS, which is no text, and ids without a token none."""

    data: Bytes
    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lengths(self, ids: npt.NDArray[Any]) -> Ints:
        """Bytes of each of some tokens."""
        known = np.minimum(ids, len(self)).astype(np.int64)
        ends: Ints = np.append(self.offsets, self.offsets[-1])
        lengths: Ints = ends[known + 1] - ends[known]
        return lengths

    def of(self, ids: npt.NDArray[Any]) -> bytes:
        """The bytes of some tokens, end to end."""
        spans = (self.offsets[i : i + 2] for i in ids.tolist() if i < len(self))
        return b"".join(self.data[start:end].tobytes() for start, end in spans)


def token_bytes(store: Store) -> TokenBytes | None:
    """The bytes of the tokens of a store, as its tokenizer decodes them; None where that is done by context.

    50,000 tokens take 0.1 s; they are kept for as long as the store is.
    """
    if store not in _known:
        _known[store] = _read(store.tokenizer, store.eos)
    return _known[store]


def _read(tokenizer: Tokenizer, eos: int | None) -> TokenBytes | None:
    from tokenizers.decoders import ByteLevel

    if not isinstance(tokenizer.decoder, ByteLevel):
        return None
    letters = _letters()
    size = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
    parts = [b"" if id == eos else _spelt(tokenizer.id_to_token(id) or "", letters) for id in range(size)]
    offsets = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    return TokenBytes(np.frombuffer(b"".join(parts), np.uint8), offsets)


def _letters() -> dict[int, str]:
    """For `str.translate`: letters as the bytes they stand for, in Latin-1; what stands for none becomes U+FFFF."""
    known = {letter: chr(byte) for byte, letter in enumerate(byte_letters())}
    return {ord(letter): known.get(letter, "\uffff") for letter in {*map(chr, range(256)), *known}}


def _spelt(token: str, letters: dict[int, str]) -> bytes:
    """The bytes of a token's letters; one with a letter that stands for no byte (an added token) is taken literally."""
    try:
        return token.translate(letters).encode("latin-1")
    except UnicodeEncodeError:
        return token.encode("utf-8")
