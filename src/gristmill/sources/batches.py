"""Documents as Arrow record batches: the columns, the names of documents that bring none, and the batches' size."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.core.arrays import Ints
from gristmill.core.texts import runs
from gristmill.sources.base import InputFile

# A batch is whole documents: 8 MiB of text or 8,192 of them, whichever comes first.
BATCH_BYTES, BATCH_DOCUMENTS = 8 << 20, 8_192

# Between a file's name and a document's place in it: a byte in text and JSONL, a row or a key in all others.
BYTE, ROW = "@", ":"


def document_batch(
    file: InputFile, places: Sequence[int] | Ints, texts: pa.Array, ids: pa.Array, fields: Mapping[str, pa.Array]
) -> pa.RecordBatch:
    """A batch of one file's documents; `ids` and `fields` are string arrays, `texts` large strings.

    The column `row`, by which stores and accounts know a document's place, is a byte in text and JSONL.
    """
    count = len(texts)
    columns = {
        "id": ids,
        "source": _repeated(file.source, count),
        "path": _repeated(file.name, count),
        "row": pa.array(places, pa.int64()),
        "text": texts,
        **fields,
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _repeated(text: str, count: int) -> pa.Array:
    """A column of one text, which may be part of a longer one that others share."""
    return _shared(text, 1 << count.bit_length()).slice(0, count)


@functools.lru_cache(maxsize=64)
def _shared(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def place_ids(file: InputFile, mark: str, places: Sequence[int] | Ints) -> pa.Array:
    """Ids for documents that bring none: `web/part.jsonl@1842` for what begins at byte 1,842."""
    spelt = pa.array(places, pa.int64()).cast(pa.string())
    return pc.binary_join_element_wise(f"{file.source}/{file.name}", spelt, mark)


def rebatch(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same documents in batches of at most 8,192 and about 8 MiB of text."""
    held: list[pa.RecordBatch] = []
    count = size = 0
    for piece, text_bytes in (piece for batch in batches for piece in _pieces(batch)):
        if held and (count + len(piece) > BATCH_DOCUMENTS or size + text_bytes > BATCH_BYTES):
            yield joined(held)
            held, count, size = [], 0, 0
        held.append(piece)
        count, size = count + len(piece), size + text_bytes
    if held:
        yield joined(held)


def joined(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches as one."""
    return held[0] if len(held) == 1 else pa.concat_batches(held)


def _pieces(batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int]]:
    """A batch in slices of at most 8,192 documents and, unless it is a single one, 8 MiB of text; and their bytes."""
    text = batch.column("text")
    begins = np.frombuffer(text.buffers()[1] or bytes(8), np.int64, len(text) + 1, text.offset * 8)
    for at, end in runs(begins, BATCH_BYTES, BATCH_DOCUMENTS):
        yield batch.slice(at, end - at), int(begins[end] - begins[at])
