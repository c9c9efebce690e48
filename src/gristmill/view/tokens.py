"""Tokens as coloured text: each with its id on hover, as many as it takes to spell a character together."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.core.errors import ConfigError
from gristmill.report.markup import Html, plain, tag
from gristmill.store.reader import Store
from gristmill.store.token_bytes import TokenBytes, token_bytes

HUES = 4
# What a page shows of one text: some 8,000 characters, and half a megabyte of markup.
PART = 2048


class Piece(NamedTuple):
    """Text of tokens [start, end): several where one alone is no whole character."""

    text: str
    start: int
    end: int


def pieces(store: Store, ids: npt.NDArray[Any]) -> list[Piece]:
    """Tokens as pieces of text; without a tokenizer, and for EOS, their ids in brackets."""
    try:
        table = token_bytes(store)
    except ConfigError:
        return [Piece(f"[{id}] ", i, i + 1) for i, id in enumerate(ids.tolist())]
    return list(_by_bytes(store, table, ids) if table else _one_by_one(store, ids))


def _one_by_one(store: Store, ids: npt.NDArray[Any]) -> Iterator[Piece]:
    """Where tokens have no bytes of their own: each as its tokenizer spells it."""
    for i, id in enumerate(ids.tolist()):
        yield Piece(_mark(store, id) or str(store.tokenizer.id_to_token(id) or f"[{id}]"), i, i + 1)


def _mark(store: Store, id: int) -> str:
    """EOS, which is no text, has a sign of its own."""
    return "■" if id == store.eos else ""


def _by_bytes(store: Store, table: TokenBytes, ids: npt.NDArray[Any]) -> Iterator[Piece]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    start = 0
    for i, id in enumerate(ids.tolist()):
        mark = _mark(store, id)
        text = decoder.decode(table.of(np.array([id])), final=bool(mark) or i == len(ids) - 1) + mark
        if text or not decoder.getstate()[0]:
            yield Piece(text or f"[{id}]", start, i + 1)
            start = i + 1


def coloured(
    found: Sequence[Piece], ids: Sequence[int], kinds: Sequence[str], first: int = 0, here: int | None = None
) -> Html:
    """Pieces in the colours of their kinds, as one text that keeps its direction to itself.

    `first` is the number of the first token; the piece with token `here` can be gone to by `#here`.
    """
    spans = []
    for number, (text, start, end) in enumerate(found):
        named = ", ".join(map(str, ids[start:end]))
        at = here is not None and start <= here - first < end
        kind = f"{kinds[start] if kinds else f't{number % HUES}'}{' here' if at else ''}"
        title = f"{'id' if end - start == 1 else 'ids'} {named}, token {first + start:,}"
        spans.append(tag("span", Html(_shown(text)), class_=kind, title=title, id="here" if at else None))
    return tag("div", tag("pre", *spans, dir="auto"), class_="tokens")


def _shown(text: str) -> str:
    """Text with the line feeds that a reader would not see marked."""
    return plain(text).replace("\n", "<i>↵</i>\n")
