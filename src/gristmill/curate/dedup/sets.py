"""Shingle sets: sorted 64-bit hashes by document, in Arrow batches whose memory is read where it lies.

By them candidate pairs are verified: their real Jaccard similarity is found.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill.core.arrays import Bytes, Ints
from gristmill.core.arrow_messages import batch_buffers, batch_extent
from gristmill.core.texts import runs
from gristmill.curate.dedup.near import Near, unit_table
from gristmill.curate.documents import Documents
from gristmill.places.base import Place, read_at
from gristmill.places.local import disk_errors
from gristmill.places.ranges import copy_runs
from gristmill.places.uploads import mapped_file

# Texts are shingled in slices of this size: at most 64 MiB of hashes at once by words, 128 MiB by characters.
_SLICE_BYTES = 16 << 20
# An Arrow file begins with a magic; before the header of a message stands a mark and its size, which is 0 at the end.
_MAGIC_BYTES, _HEAD = 8, struct.Struct("<Ii")
# Of a batch of sets, the buffers that hold documents, the ends of their sets, and shingles; the others tell of nulls.
_BUFFERS = (1, 3, 5)


def shingle_sets(documents: Documents, options: Near) -> tuple[npt.NDArray[np.uint64], Ints]:
    """The sorted distinct shingles of each text: those of text i are hashes[ends[i] : ends[i + 1]]."""
    from gristmill.curate.dedup import shingle_kernels

    size = int(documents.offsets[-1] - documents.offsets[0])
    # A unit has a byte at least, and a word a separator too; pages that stay empty cost nothing.
    room = (size if options.unit == "char" else size // 2) + len(documents) + 1
    hashes, ends = np.empty(room, np.uint64), np.empty(len(documents) + 1, np.int64)
    characters = options.unit == "char"
    shingle_kernels.shingle(documents.data, documents.offsets, unit_table(), characters, options.ngram, hashes, ends)
    for begin, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        # numpy's sort uses vector instructions: five times the speed of a compiled one.
        hashes[begin:end].sort()
    return hashes[: shingle_kernels.unique(hashes, ends)], ends


def sets_schema() -> pa.Schema:
    """The columns of a file of shingle sets."""
    return pa.schema([("doc", pa.int64()), ("shingles", pa.large_list(pa.uint64()))])


def set_rows(batch: pa.RecordBatch, wanted: Ints, numbers: Ints, options: Near) -> Iterator[pa.RecordBatch]:
    """The sets of the documents `wanted` (sorted) of a batch (doc, text), known by `numbers` from here on."""
    rows = np.flatnonzero(np.isin(np.asarray(batch.column("doc")), wanted, assume_unique=True))
    columns = [batch.column("doc"), batch.column("text").cast(pa.large_string())]
    texts = pa.RecordBatch.from_arrays(columns, names=["doc", "text"])
    taken = texts.take(pa.array(rows))
    for first, last in runs(Documents(taken).offsets, _SLICE_BYTES):
        documents = Documents(taken.slice(first, last - first))
        hashes, ends = shingle_sets(documents, options)
        docs = numbers[np.searchsorted(wanted, np.asarray(documents.batch.column("doc")))]
        sets = pa.LargeListArray.from_arrays(ends, hashes)
        yield pa.RecordBatch.from_arrays([pa.array(docs), sets], schema=sets_schema())


class Sets:
    """The sets of some batches: where the set of a document lies in memory, and how many shingles it has."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        # Their memory, of a mapped file as a rule, stays for as long as this object lives.
        self._batches = batches
        docs = [np.asarray(batch.column("doc")) for batch in batches]
        places = [_places(batch.column("shingles")) for batch in batches]
        self._docs = _joined(docs)
        self._addresses = _joined([address for address, _ in places])
        self._sizes = _joined([size for _, size in places])

    def locate(self, docs: Ints) -> tuple[Ints, Ints]:
        """Addresses and sizes of the sets of these documents, which must all be here."""
        rows = np.searchsorted(self._docs, docs)
        return self._addresses[rows], self._sizes[rows]


class FetchedSets:
    """The sets of a file that cannot be mapped: those that are asked for are brought, to a disk of this machine."""

    def __init__(self, place: Place) -> None:
        self._place = place
        found = list(_batches_in(place))
        self._docs = _joined([docs for docs, _, _ in found])
        self._starts = _joined([begin + ends[:-1] for _, ends, begin in found])
        self._sizes = _joined([np.diff(ends) for _, ends, _ in found])
        self._held: list[Bytes] = []

    def locate(self, docs: Ints) -> tuple[Ints, Ints]:
        """Addresses and sizes of the sets of these documents, which must all be here, for as long as this lives."""
        rows, of = np.unique(np.searchsorted(self._docs, docs), return_inverse=True)
        sizes = self._sizes[rows]
        begins = np.cumsum(sizes) - sizes
        shingles = np.empty(int(sizes.sum()), np.uint64)
        copy_runs(self._place, np.column_stack([self._starts[rows], sizes, begins]), shingles)
        address = 0
        if len(shingles):
            with disk_errors(f"a copy of {self._place.path}"):
                self._held.append(mapped_file(lambda file: file.write(shingles.data)))
            address = self._held[-1].ctypes.data
        return (address + 8 * begins)[of], sizes[of]


def open_sets(place: Place) -> Sets | FetchedSets:
    """The sets of a file: mapped, or brought as they are asked for."""
    if not place.maps:
        return FetchedSets(place)
    reader = pa.ipc.open_file(pa.py_buffer(place.view()))
    return Sets([reader.get_batch(i) for i in range(reader.num_record_batches)])


def _batches_in(place: Place) -> Iterator[tuple[Ints, Ints, int]]:
    """Of each batch of a file of sets the documents, the ends of their sets, and which number of the file, of 8 bytes
    each, is its first shingle. Shingles themselves are not read.
    """
    at = _MAGIC_BYTES
    with place.open() as file:
        while size := _HEAD.unpack(read_at(file, at, _HEAD.size))[1]:
            header, begin = memoryview(read_at(file, at + _HEAD.size, size)), at + _HEAD.size + size
            rows, body = batch_extent(header)
            if rows:
                docs, ends, shingles = (begin + batch_buffers(header)[buffer][0] for buffer in _BUFFERS)
                yield (np.frombuffer(read_at(file, docs, 8 * rows), np.int64),
                       np.frombuffer(read_at(file, ends, 8 * (rows + 1)), np.int64), shingles // 8)  # fmt: skip
            at = begin + body


def _joined(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate([*arrays, np.empty(0, np.int64)])


def _places(sets: pa.LargeListArray) -> tuple[Ints, Ints]:
    ends = np.asarray(sets.offsets)
    begin = sets.values.buffers()[1].address if len(sets.values) else 0
    return begin + 8 * ends[:-1], np.diff(ends)


def verified(pairs: pa.Table, sets_of: Callable[[int], Sets | FetchedSets], threshold: float) -> pa.Table:
    """The pairs (earlier, later) at or over the threshold, with their similarity; `sets_of` gives a unit's sets."""
    from gristmill.curate.dedup import pair_kernels

    docs = np.concatenate([pairs["earlier"].to_numpy(), pairs["later"].to_numpy()])
    # The sets stay in memory until the pairs are compared.
    addresses, sizes, held = _locate(docs, sets_of)
    similarity = np.empty(len(pairs), np.float64)
    pair_kernels.similarities(addresses.reshape(2, -1), sizes.reshape(2, -1), threshold, similarity)
    del held
    return pairs.append_column("similarity", pa.array(similarity)).filter(pa.array(similarity >= threshold))


def _locate(docs: Ints, sets_of: Callable[[int], Sets | FetchedSets]) -> tuple[Ints, Ints, list[Sets | FetchedSets]]:
    """Addresses and sizes of the sets of `docs`; they hold while the returned sets are held."""
    addresses, sizes = np.empty_like(docs), np.empty_like(docs)
    held = list[Sets | FetchedSets]()
    order = np.argsort(docs, kind="stable")
    units, begins = np.unique(docs[order] >> 32, return_index=True)
    for unit, rows in zip(units.tolist(), np.split(order, begins[1:]), strict=True):
        held.append(sets_of(unit))
        addresses[rows], sizes[rows] = held[-1].locate(docs[rows])
    return addresses, sizes, held
