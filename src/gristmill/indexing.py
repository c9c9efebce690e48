"""Building the indices that serving never builds silently: pack indices, and the documents of bare token files."""

from __future__ import annotations

from collections.abc import Mapping

from gristmill.core.arguments import PathLike, as_flag, as_whole
from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError
from gristmill.core.progress import Progress, Shown, shown
from gristmill.places.address import Address
from gristmill.places.door import address_of, as_target, place_at
from gristmill.store.idx import write_scanned_idx
from gristmill.store.index import (
    PackHeader,
    PackIndex,
    index_path,
    new_index,
    only_builder,
    open_pack_index,
    remove_pack_index,
    shard_sum,
)
from gristmill.store.opening import as_store
from gristmill.store.reader import Store
from gristmill.store.table import offsets


def index(
    store: Store | PathLike,
    seq_len: int,
    *,
    range_documents: int | None = None,
    force: bool = False,
    progress: Shown = None,
) -> Address:
    """Build the pack index of a store for windows of `seq_len`, unless it is there; one process builds, others wait.

    range_documents: how many documents that follow each other are packed together, 65,536 unless given. A few hundred
    lie near each other, as `locality` wants them for stores in a bucket, and leave about 1 % of padding.
    """
    store, seq_len, force = as_store("store", store), as_whole("seq_len", seq_len), as_flag("force", force)
    wanted = None if range_documents is None else as_whole("range_documents", range_documents)
    path = as_target("index_dir", index_path(store, seq_len))
    with shown(progress) as told, only_builder(path):
        if force:
            remove_pack_index(path)
        if not place_at(path).exists():
            _build_index(store, seq_len, wanted, path, told)
    _check_range(open_pack_index(store, seq_len), wanted)
    return path


def _check_range(made: PackIndex, wanted: int | None) -> None:
    """Refuse an index that was there and packs more documents together than is wanted now."""
    if wanted is not None and made.range_documents > wanted:
        raise ConfigError(
            f"{made.path} is there already and packs {made.range_documents:,} documents together: say force=True to "
            "build it again.",
            arguments="force",
        )


def _build_index(store: Store, seq_len: int, wanted: int | None, path: Address, progress: Progress) -> None:
    """Pack shard by shard: ranges never cross shards, so a store that grows keeps the bins it had."""
    from gristmill.order.pack import ALGORITHM, RANGE_DOCUMENTS  # which imports Numba

    together = wanted or RANGE_DOCUMENTS
    counts = store.shard_documents()
    ranges = -(-counts // together)
    progress.start(f"packing into windows of {seq_len:,}", store.num_documents, "documents")
    header: PackHeader = {
        "algorithm": ALGORITHM,
        "seq_len": seq_len,
        "documents": store.num_documents,
        "ranges": int(ranges.sum()),
        "shards": store.num_shards,
        "store": store.fingerprint,
    }
    with new_index(path, header) as arrays:
        arrays["shard_ranges"][:] = offsets(ranges)
        arrays["range_bins"][0] = arrays["range_docs"][0] = 0
        for shard in range(store.num_shards):
            _pack_shard(store, seq_len, together, shard, arrays, int(offsets(counts)[shard]))
            progress.advance(int(counts[shard]))


def _pack_shard(
    store: Store, seq_len: int, together: int, shard: int, arrays: Mapping[str, Ints], first_document: int
) -> None:
    from gristmill.order.pack import pack_range  # as above

    lengths = store.document_lengths(shard)
    columns = [arrays[name] for name in ("full_before", "order", "piece_starts")]
    bins = 0
    for r, at in enumerate(range(0, len(lengths), together), int(arrays["shard_ranges"][shard])):
        part = lengths[at : at + together]
        here = slice(first_document + at, first_document + at + len(part))
        full, pieces, packed = pack_range(part, seq_len, *(column[here] for column in columns))
        arrays["range_full"][r], arrays["range_pieces"][r] = full, pieces
        arrays["range_docs"][r + 1] = here.stop
        arrays["range_bins"][r + 1] = arrays["range_bins"][r] + full + packed
        bins += full + packed
    whole = slice(first_document, first_document + len(lengths))
    arrays["shard_sums"][shard] = shard_sum([column[whole] for column in columns], bins)


def index_documents(store: Store, *, force: bool = False, progress: Progress) -> list[Address]:
    """Scan bare token files for EOS and write a Megatron `.idx` beside each: from then on they open with documents."""
    progress.start("finding documents", store.num_tokens * store.dtype.itemsize)
    written = []
    for shard in range(store.num_shards):
        path = address_of(store.files.sibling(shard, ".idx"))
        if place_at(path).exists() and not force:
            raise ConfigError(f"{path} is there already: say force=True to build it again.", arguments="force")
        place_at(path).clear_leftovers()
        write_scanned_idx(store, shard, path)
        written.append(path)
        progress.advance(int(store.files.tokens[shard]) * store.dtype.itemsize)
    return written
