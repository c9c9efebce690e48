"""The documents in a folder of samples (MDS, LitData), file by file.

Samples of one length are pieces of a stream, and documents are found in it by EOS, on from one file into the next.
Samples of many lengths are documents, each cut once more where it holds EOS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.core.errors import ConfigError, StoreError
from gristmill.core.values import parse_json
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.store.foreign import ForeignFile, Marked, cut_at_eos, document_names, numbered
from gristmill.store.idx import scanned_lengths
from gristmill.store.litdata import litdata_files
from gristmill.store.manifest import SPLITS
from gristmill.store.mds import mds_files
from gristmill.store.samples_in import INDEX, SampleFile
from gristmill.store.table import offsets

# Tokens never lie at the very start of such a file, so that it cannot be linked.
_HEADER = 8
# Tokens of a document that goes on in another file.
_MOST_KEPT = 1 << 27


@dataclass(frozen=True)
class SampleFolder:
    """A folder with an index of sample files."""

    path: Address
    files: Sequence[SampleFile]

    def read(self, eos: int, boundaries: str) -> Iterator[Iterator[ForeignFile]]:
        """The documents of each file, a batch of them at a time; each file is read to its end before the next."""
        if boundaries == "eos" or self._is_stream():
            stream = _Stream(eos)
            yield from (stream.documents(file, is_last=file is self.files[-1]) for file in self.files)
        else:
            yield from (_documents(file, eos) for file in self.files)

    def _is_stream(self) -> bool:
        """Whether the samples of the first file that has several are of one length."""
        several = next((file for file in self.files if file.samples > 1), None)
        return several is not None and several.is_cut_evenly()


def split_folders(path: Address) -> dict[str, Address]:
    """The splits below a folder that is no folder of samples itself: those that have an index."""
    if not place_at(path).is_folder() or place_at(path / INDEX).exists():
        return {}
    return {split: path / split for split in SPLITS if place_at(path / split / INDEX).exists()}


def open_samples(path: Address, dtype: str | None) -> SampleFolder | None:
    """The folder as its index describes it; None where there is no index of samples."""
    if not place_at(path).is_folder() or not place_at(path / INDEX).exists():
        return None
    try:
        index = parse_json(place_at(path / INDEX).read(), str(path / INDEX), StoreError)
    except OSError as error:
        raise StoreError(f"{path / INDEX} cannot be read ({error.strerror}): restore it.") from error
    if isinstance(index, dict) and "shards" in index:
        files = mds_files(path, path.name, index["shards"], dtype)
    elif isinstance(index, dict) and "chunks" in index:
        files = litdata_files(path, path.name, index, dtype)
    else:
        raise ConfigError(f"{path / INDEX} is the index of neither MDS nor LitData: give the token files themselves.")
    filled = [file for file in files if file.samples]
    if not filled:
        raise StoreError(f"{path / INDEX} names no samples: there is nothing to import.")
    return SampleFolder(path, filled)


def _documents(file: SampleFile, eos: int) -> Iterator[ForeignFile]:
    """Each sample as a document."""
    row = 0
    for tokens, lengths in file.batches():
        names = document_names(file.name, file.path.name, numbered(file.name, row, row + len(lengths)))
        yield cut_at_eos(file.path, tokens, Marked(offsets(lengths), names), eos, header=_HEADER)
        row += len(lengths)


class _Stream:
    """Documents of samples that were cut without regard to them; the one that has not ended yet is kept.

    It goes on in the next file, unless it is very long by then: so that a wrong EOS does not fill the memory.
    """

    def __init__(self, eos: int) -> None:
        self._eos = eos
        self._open: list[npt.NDArray[Any]] = []

    def documents(self, file: SampleFile, *, is_last: bool) -> Iterator[ForeignFile]:
        row = 0
        for tokens, _ in file.batches():
            ends = np.flatnonzero(tokens == self._eos)
            end = int(ends[-1]) + 1 if len(ends) else 0
            if end:
                yield self._ended(file, row, tokens[:end])
                row += len(ends)
            self._open.append(tokens[end:])
        kept = sum(map(len, self._open))
        if kept and (is_last or kept > _MOST_KEPT):
            yield self._ended(file, row, tokens[:0])

    def _ended(self, file: SampleFile, row: int, tokens: npt.NDArray[Any]) -> ForeignFile:
        whole = np.concatenate([*self._open, tokens])
        self._open = []
        edges = offsets(scanned_lengths(whole, self._eos, False))
        names = document_names(file.name, file.path.name, numbered(file.name, row, row + len(edges) - 1))
        return cut_at_eos(file.path, whole, Marked(edges, names), self._eos, header=_HEADER)
