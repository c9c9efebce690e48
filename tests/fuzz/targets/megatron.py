"""Foreign Megatron indexes: whatever they say, documents are found inside the tokens or the index is refused."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import gristmill as gm
from gristmill.store.format import IDX_HEADER, IDX_MAGIC, write_idx
from harness import mutate as change_bytes

CASES = (300, 100_000)
LENGTHS = (5, 1, 30, 8, 2, 60, 3, 11)
TOKENS = sum(LENGTHS)
ODD = (
    0,
    1,
    2,
    7,
    8,
    9,
    16,
    2 * TOKENS - 2,
    2 * TOKENS,
    2 * TOKENS + 2,
    2**31,
    2**40,
    2**62,
    2**63 - 1,
    -1,
    -2,
    -(2**63),
)


def _index(sequences: Sequence[int], pointers: Sequence[int], marks: Sequence[int]) -> bytes:
    counts = len(sequences).to_bytes(8, "little") + len(marks).to_bytes(8, "little")
    arrays = ((sequences, "<i4"), (pointers, "<i8"), (marks, "<i8"))
    head = IDX_MAGIC + (1).to_bytes(8, "little") + bytes([8]) + counts
    return head + b"".join(np.array(values, np.int64).astype(kind).tobytes() for values, kind in arrays)


def seeds() -> list[bytes]:
    whole = io.BytesIO()
    write_idx(whole, np.array(LENGTHS), "uint16")
    starts = (np.cumsum(LENGTHS) - LENGTHS) * 2
    several = _index(LENGTHS, starts, [0, 2, 2, 5, 8, 8])
    bad = [_index(LENGTHS, starts, [0, 2**40, *range(2, 9)]), _index(LENGTHS, starts[::-1], range(9))]
    narrow = whole.getvalue()[:17] + bytes([1]) + whole.getvalue()[18:]  # tokens of one byte, their number doubled
    return [whole.getvalue(), several, *bad, narrow, _index([], [], [0]), _index([], [], [0, 0]), IDX_MAGIC]


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    if rng.random() < 0.4:
        return change_bytes(rng, seeds)
    data = bytearray(rng.choice(seeds[:2]))
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = 18 + 8 * rng.randrange(2) if rng.random() < 0.2 else IDX_HEADER + 32 + 8 * rng.randrange(17)
        data[at : at + 8] = rng.choice(ODD).to_bytes(8, "little", signed=True)
    return bytes(data)


def attempt(data: bytes, folder: Path) -> None:
    tokens = np.arange(TOKENS, dtype=np.uint16)
    tokens.tofile(folder / "a.bin")
    (folder / "a.idx").write_bytes(data)
    store = gm.open(folder / "a.bin", eos=9)
    for cut in ("chunk", "window", "pad"):
        plan = gm.Plan({"a": store}, seq_len=8, batch_size=1, options=gm.PlanOptions(cut=cut, shuffle=False))
        for step, batch in enumerate(gm.Loader(plan, keys=("labels", "doc_ids", "cu_seqlens"), threads=0)):
            if cut != "pad":
                first = step * 8 if cut == "chunk" else step
                assert (batch["input_ids"][0] == tokens[first : first + 8]).all()
    spans = store.spans(0, TOKENS)
    assert sum(end - start for _, start, end in spans) == TOKENS
    assert [store.document_span(i) for i in range(store.num_documents)][-1][1] == TOKENS
    gm.index(store, seq_len=8, force=True, progress=False)
    packed = gm.Plan({"a": store}, seq_len=8, batch_size=1, options=gm.PlanOptions(cut="pack"))
    seen = np.concatenate([batch["input_ids"][0] for batch in gm.Loader(packed, threads=0)])
    assert set(tokens.tolist()) <= set(seen.tolist())
