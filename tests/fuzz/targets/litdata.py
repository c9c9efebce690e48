"""An index of LitData with one of its chunks: tokens come from inside of the chunk, or it is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

from mds import _MARK, INDEX, MADE, mutate

import gristmill as gm
from gristmill.store.importing import import_store

__all__ = ["mutate"]
CASES = (125, 100_000)
# Written by LitData.
KINDS = {"litdata-documents": "chunk-0-1.bin", "litdata-windows": "chunk-0-1.bin",
         "litdata-packed": "chunk-0-1.zstd.bin"}  # fmt: skip


def seeds() -> list[bytes]:
    return [b"%s\n" % kind.encode() + (MADE / kind / INDEX).read_bytes() + _MARK + (MADE / kind / chunk).read_bytes()
            for kind, chunk in KINDS.items()]  # fmt: skip


def attempt(data: bytes, folder: Path) -> None:
    named, _, rest = data.partition(b"\n")
    index, _, chunk = rest.partition(_MARK)
    kind = named.decode()
    here = folder / kind
    if not here.exists():
        shutil.copytree(MADE / kind, here)
    (here / INDEX).write_bytes(index)
    (here / KINDS[kind]).write_bytes(chunk)
    report = import_store(here, folder / "new", eos=50256, vocab_size=50_257, overwrite=True)
    store = gm.open(folder / "new")
    assert report.tokens == store.num_tokens and store.tokens(0, store.num_tokens).max() < 50_257
