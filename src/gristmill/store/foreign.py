"""The documents of one foreign token file: by its own index, by OLMo-core's sidecar, or by EOS."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, StoreError
from gristmill.places.address import Address
from gristmill.places.door import address_of, place_at
from gristmill.store.idx import scanned_lengths
from gristmill.store.opening import open_store
from gristmill.store.reader import Store
from gristmill.store.table import offsets

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ForeignFile:
    """A token file and its documents: document i is tokens [starts[i], starts[i + 1]), its names row i of `names`.

    No document holds EOS but at its end, or at its start where `comes_first`; `has_eos` says which hold it there.
    """

    path: Address
    header: int
    tokens: npt.NDArray[Any]
    starts: Ints
    has_eos: npt.NDArray[np.bool_]
    comes_first: bool
    names: pa.Table
    cut: int  # documents that an EOS inside another one made
    empty: int  # documents of the index that have no token
    unnamed: int  # documents made of tokens that the sidecar does not mention


@dataclass(frozen=True)
class Marked:
    """The edges of documents as a file's own index has them, and a row of names for each."""

    edges: Ints
    names: pa.Table
    unnamed: int = 0


def open_foreign(path: Address, dtype: str | None, eos: int) -> Store:
    """One foreign file as a store of one shard, its tokens not read yet."""
    if place_at(path).is_folder():
        raise ConfigError(f"{path} is a folder: give its token files; stores that Gristmill made are joined.")
    store = open_store(path, dtype=dtype, eos=eos)
    if not store.num_tokens:
        raise StoreError(f"{path} is empty: it holds no tokens.")
    return store


def read_foreign(store: Store, eos: int, boundaries: str) -> ForeignFile:
    """Read the boundaries of one file, and look through its tokens for EOS."""
    tokens = store.shard_tokens(0)
    tokens = tokens.view(f"<u{tokens.dtype.itemsize}")  # a negative id shows as one that is far too large
    path, header, comes_first = address_of(store.files.path(0)), int(store.files.header[0]), _comes_first(store)
    return cut_at_eos(
        path, tokens, _marked(store, tokens, eos, boundaries), eos, header=header, comes_first=comes_first
    )


def _comes_first(store: Store) -> bool:
    return store.facts.boundary == "bos"


def cut_at_eos(
    path: Address, tokens: npt.NDArray[Any], marked: Marked, eos: int, *, header: int, comes_first: bool = False
) -> ForeignFile:
    """The documents that an index marks, each cut once more where it holds EOS."""
    edges = np.unique(marked.edges)
    starts = np.union1d(edges, offsets(scanned_lengths(tokens, eos, comes_first)))
    rows = np.searchsorted(marked.edges, starts[:-1], side="right") - 1
    return ForeignFile(
        path=path,
        header=header,
        tokens=tokens,
        starts=starts,
        has_eos=np.asarray(tokens[starts[:-1] if comes_first else starts[1:] - 1] == eos),
        comes_first=comes_first,
        names=marked.names.take(rows),
        cut=len(starts) - len(edges),
        empty=len(marked.edges) - len(edges),
        unnamed=marked.unnamed,
    )


def _marked(store: Store, tokens: npt.NDArray[Any], eos: int, boundaries: str) -> Marked:
    path = address_of(store.files.path(0))
    sidecar = path.with_name(path.name.removesuffix(".npy") + ".csv.gz")
    if boundaries == "auto" and path.suffix == ".npy" and not store.files.header[0] and place_at(sidecar).exists():
        return _by_sidecar(sidecar, path, store.num_tokens)
    if boundaries == "auto" and store.facts.boundary == "idx":
        lengths = store.document_lengths(0)
        if (lengths < 0).any() or lengths.sum() != store.num_tokens:
            raise StoreError(f'{path.with_suffix(".idx")} does not describe {path.name}: import with boundaries="eos".')
    else:
        lengths = scanned_lengths(tokens, eos, _comes_first(store))
    return Marked(offsets(lengths), document_names(path.stem, path.name, numbered(path.stem, 0, len(lengths))))


def numbered(stem: str, first: int, stop: int) -> list[str]:
    """The ids of documents that bring none: their rows in a file."""
    return [f"{stem}:{row}" for row in range(first, stop)]


def document_names(source: str, file: str, ids: list[str], origins: list[str] | None = None) -> pa.Table:
    """What is known of documents beside their tokens."""
    import pyarrow as pa

    return pa.table({"id": ids, "source": [source] * len(ids), "path": origins or [file] * len(ids)})


def _by_sidecar(sidecar: Address, path: Address, count: int) -> Marked:
    """Documents and ids from a `.csv.gz`; tokens between its documents become documents too, so that none is lost."""
    spans, rows = _read_sidecar(sidecar, count)
    edges = np.union1d(spans.ravel(), [0, count])
    row_of = np.full(len(edges) - 1, -1, dtype=np.int64)
    row_of[np.searchsorted(edges, spans[:, 0])] = np.arange(len(spans))
    found = [rows[row] if row >= 0 else [] for row in row_of.tolist()]
    ids = [row[2] if len(row) > 2 else f"{path.stem}:{i}" for i, row in enumerate(found)]
    origins = [row[3] if len(row) > 3 else path.name for row in found]
    return Marked(edges, document_names(path.stem, path.name, ids, origins), int((row_of < 0).sum()))


def _read_sidecar(sidecar: Address, count: int) -> tuple[Ints, list[list[str]]]:
    """The (start, end) of each row that has tokens, in rising order, and the rows: start,end[,id,src,loc]."""
    try:
        with place_at(sidecar).open() as packed:
            lines = io.TextIOWrapper(gzip.GzipFile(fileobj=packed), encoding="utf-8", newline="")
            rows = [row for row in csv.reader(lines) if row and row[0] != row[1]]
        spans = np.array([(int(row[0]), int(row[1])) for row in rows], dtype=np.int64).reshape(-1, 2)
    except (OSError, EOFError, ValueError, IndexError) as error:
        raise StoreError(f'{sidecar} cannot be read ({error}): restore it or import with boundaries="eos".') from error
    order = np.argsort(spans[:, 0], kind="stable")
    spans = spans[order]
    flat = spans.ravel()
    if len(flat) and (flat[0] < 0 or flat[-1] > count or (np.diff(flat) < 0).any()):
        raise StoreError(
            f"{sidecar} has documents that overlap or lie outside the {count:,} tokens beside it: "
            'was dtype right? Else import with boundaries="eos".'
        )
    return spans, [rows[i] for i in order.tolist()]
