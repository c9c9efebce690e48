"""Pack indexes whose sums are right and whose values are not: they are refused, or lead nowhere outside their store.

An input is the file behind its header. Sums are made again, so that the checks behind them are reached.
"""

from __future__ import annotations

import functools
import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xxhash

import gristmill as gm
from gristmill.order.cut import Pack
from gristmill.store.index import _array, _head, layout, read_header, shard_sum
from gristmill.testing import random_documents, tiny_store

CASES = (100, 20_000)
COLUMNS = ("full_before", "order", "piece_starts")
ODD = (0, 1, 2, 15, 16, 17, 60, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, -1, -16, -(2**63))


def _store(folder: Path) -> gm.Store:
    return tiny_store(folder, random_documents(60, mean_tokens=25, seed=3), shards=2)


@functools.cache
def _good() -> tuple[bytes, dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        path = gm.index(_store(Path(folder)), seq_len=16, progress=False)
        return path.read_bytes()[4096:], read_header(path)


def seeds() -> list[bytes]:
    return [_good()[0]]


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    data, header = bytearray(seeds[0]), _good()[1]
    places = layout(*(header[key] for key in ("documents", "ranges", "shards")))
    del places["end"]
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, kind, count = places[rng.choice([name for name in places if name != "shard_sums"])]
        size = np.dtype(kind).itemsize
        place = at - 4096 + size * rng.randrange(count)
        data[place : place + size] = (rng.choice(ODD) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return bytes(data)


def _summed(data: bytes) -> bytes:
    """The whole file, with the sums that fit it."""
    header = dict(_good()[1])
    places = layout(*(header[key] for key in ("documents", "ranges", "shards")))
    whole = np.frombuffer(bytes(4096) + data, np.uint8).copy()
    arrays = {name: _array(whole, place) for name, place in places.items() if name != "end"}
    ranges, docs, bins = arrays["shard_ranges"], arrays["range_docs"], arrays["range_bins"]
    for shard in range(len(ranges) - 1):
        edges = np.clip(ranges[shard : shard + 2], 0, len(docs) - 1)
        first, last = np.clip(docs[edges], 0, header["documents"]).tolist()
        count = (int(bins[edges[1]]) - int(bins[edges[0]])) % 2**63
        arrays["shard_sums"][shard] = shard_sum([arrays[name][first:last] for name in COLUMNS], count)
    header["tables"] = xxhash.xxh3_128_hexdigest(whole[4096 : places["full_before"][0]].data)
    return _head(header) + whole[4096:].tobytes()


def attempt(data: bytes, folder: Path) -> None:
    shutil.rmtree(folder / "s", ignore_errors=True)
    store = _store(folder / "s")
    (folder / "s" / "part-0.bin.pack-16.gmi").write_bytes(_summed(data))
    plan = gm.Plan({"a": store}, seq_len=16, batch_size=1, options=gm.PlanOptions(cut="pack", shuffle=False))
    index, bins = store.pack_index(16), Pack(store)
    for step, _ in zip(range(200), gm.Loader(plan, keys=("labels", "doc_ids", "cu_seqlens"), threads=0), strict=False):
        bins.spans(step, 16)
    for document in range(store.num_documents):
        index.bins_of(np.array([document]))
