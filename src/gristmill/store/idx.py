"""One `.idx` file read with numpy alone: for looking at documents, where a batch is not waited for."""

from __future__ import annotations

import bisect

import numpy as np

from gristmill.core.errors import StoreError
from gristmill.store.files import Ints
from gristmill.store.format import IDX_HEADER, IdxHeader, read_idx_header


def read_header(path: str) -> IdxHeader:
    """The head of an `.idx`, its file named if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return read_idx_header(file.read(IDX_HEADER), path)
    except OSError as error:
        raise StoreError(f"{path} cannot be opened ({error.strerror}): bring the file back.") from error


class Idx:
    """The documents of one shard of `tokens` tokens, memory-mapped."""

    def __init__(self, path: str, tokens: int, itemsize: int) -> None:
        header = read_header(path)
        data = np.memmap(path, np.uint8, "r")
        if len(data) < header.size:
            raise StoreError(f"{path} has {len(data):,} bytes, {header.size:,} were expected: it was cut off.")
        self.documents, self._tokens, self._itemsize = header.documents, tokens, itemsize
        self._pointers = data[header.pointers_at : header.documents_at].view("<i8")
        self._marks = data[header.documents_at : header.size].view("<i8")

    def start(self, document: int) -> int:
        """The first token of a document; for the number after the last one, the end of the shard."""
        sequence = int(self._marks[document])
        return int(self._pointers[sequence]) // self._itemsize if sequence < len(self._pointers) else self._tokens

    def document_at(self, token: int) -> int:
        """The document that holds a token, by bisection; empty ones are passed over."""
        return bisect.bisect_right(range(self.documents), token, key=self.start) - 1

    def lengths(self) -> Ints:
        """Tokens of every document."""
        starts = np.append(self._pointers // self._itemsize, self._tokens)
        lengths: Ints = np.diff(starts[self._marks]).astype(np.int64)
        return lengths
