"""`.blocks`: xxh3-64 of each 4 KiB block of a shard's `.idx`, `.ids` and tokens: any part can be checked by itself.

magic | bytes of `.idx`, `.ids` and tokens (uint64 each) | xxh3-128 of the tokens' sums | sums of `.idx`, of `.ids`
| sums of the tokens

All but the sums of the tokens is the *head*, whose xxh3-128 is in the manifest. So the way from the manifest to any
block is two short reads, here or from afar. A block is a page, so that checking a sample reads no page that it does not
need; 8 bytes of sums for each are 0.2 % of the store. Tokens are summed as they are before compression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

import numpy as np
import xxhash

from gristmill.core.arrays import Bytes, Hashes, Ints
from gristmill.core.errors import StoreError
from gristmill.places.base import read_at
from gristmill.store.format import block_sums

BLOCKS_SUFFIX = ".blocks"
BLOCK = 4 << 10
MAGIC = b"GMBLOCK\1"
_FIXED = 8 + 3 * 8 + 16
Sums = Hashes


def write_blocks(file: IO[bytes], idx: bytes, ids: bytes, token_bytes: int, token_sums: Sums) -> str:
    """Write the sums of a shard's files; returns the checksum of the head, for the manifest."""
    sizes = np.array([len(idx), len(ids), token_bytes], dtype="<u8")
    tokens = token_sums.tobytes()
    sums = b"".join(block_sums(np.frombuffer(data, np.uint8), BLOCK).tobytes() for data in (idx, ids))
    head = MAGIC + sizes.tobytes() + xxhash.xxh3_128_digest(tokens) + sums
    file.write(head + tokens)
    return str(xxhash.xxh3_128_hexdigest(head))


@dataclass(frozen=True)
class BlockHead:
    """The head of a `.blocks` file, found whole."""

    sizes: tuple[int, int, int]
    tokens_digest: bytes
    idx: Sums
    ids: Sums

    @property
    def tokens_at(self) -> int:
        """Where the sums of the tokens begin."""
        return _FIXED + 8 * (len(self.idx) + len(self.ids))

    @property
    def size(self) -> int:
        """The bytes of the whole file."""
        return self.tokens_at + 8 * -(-self.sizes[2] // BLOCK)


def sums_bytes(token_bytes: Ints) -> Ints:
    """The bytes of `.blocks` files of shards of so many bytes, but for the few that the sums of documents take."""
    sizes: Ints = _FIXED + 8 * -(-token_bytes // BLOCK)
    return sizes


def head_bytes(documents: int) -> int:
    """Enough bytes for the head of a shard of so many documents, even if some have several sequences in the `.idx`."""
    return _FIXED + 8 * (40 * documents // BLOCK + 64)


def read_head(data: bytes | Bytes, checksum: str, name: str) -> BlockHead:
    """The head that a file's bytes begin with, if it is the one that the manifest knows."""
    fixed = bytes(data[:_FIXED])
    sizes = np.frombuffer(fixed[8:32], "<u8").tolist() if len(fixed) == _FIXED else [0, 0, 0]
    counts = [-(-size // BLOCK) for size in sizes[:2]]
    head = bytes(data[: _FIXED + 8 * min(sum(counts), len(data))])
    if fixed[:8] != MAGIC or xxhash.xxh3_128_hexdigest(head) != checksum:
        raise StoreError(f"{name} is damaged: its checksum differs from the manifest; restore it.")
    sums = np.frombuffer(head, "<u8", sum(counts), _FIXED)
    return BlockHead((sizes[0], sizes[1], sizes[2]), fixed[32:], sums[: counts[0]], sums[counts[0] :])


def check_blocks(data: Bytes, checksum: str, name: str) -> Sums:
    """The sums of the tokens in a whole `.blocks` file, all of it checked."""
    head = read_head(data, checksum, name)
    sums = data[head.tokens_at :]
    if len(data) != head.size or xxhash.xxh3_128_digest(sums.data) != head.tokens_digest:
        raise StoreError(f"{name} is damaged: it does not hold the sums of its tokens; restore it.")
    return sums.view("<u8")


def read_checked(file: IO[bytes], at: int, size: int, sums: Sums, name: str) -> bytes:
    """Bytes [at, at + size) of a file, each of whose blocks that they touch has the sum that it should have."""
    first, end = at // BLOCK, -(-(at + size) // BLOCK)
    data = memoryview(read_at(file, first * BLOCK, (end - first) * BLOCK))
    for block in range(first, end):
        part = data[(block - first) * BLOCK : (block - first + 1) * BLOCK]
        if block >= len(sums) or xxhash.xxh3_64_intdigest(part) != int(sums[block]):
            raise StoreError(
                f"{name} is damaged: the sum of its block {block:,} ({BLOCK:,} bytes) differs; restore it."
            )
    return bytes(data[at - first * BLOCK :][:size])
