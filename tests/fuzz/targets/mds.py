"""An index of MDS with one of its shards: whatever they say, the tokens are those of the shard or they are refused."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from _values import change_values

import gristmill as gm
from gristmill.store.importing import import_store
from harness import mutate as change_bytes

CASES = (125, 100_000)
# Written by mosaicml-streaming; the name of the second shard follows.
MADE = Path(__file__).parents[2] / "data" / "samples"
KINDS = {"mds-documents": ".mds", "mds-windows": ".mds", "mds-foundry": ".mds.zstd", "mds-columns": ".mds.gz"}
INDEX, SHARD = "index.json", "shard.00001"
_MARK = b"\0SHARD\0"


def seeds() -> list[bytes]:
    found = [(MADE / kind, kind, SHARD + suffix) for kind, suffix in KINDS.items()]
    return [b"%s\n" % kind.encode() + (folder / INDEX).read_bytes() + _MARK + (folder / shard).read_bytes()
            for folder, kind, shard in found]  # fmt: skip


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Values of the index, or bytes of index or shard, are other ones."""
    kind, _, rest = rng.choice(seeds).partition(b"\n")
    index, _, shard = rest.partition(_MARK)
    match rng.randrange(4):
        case 0 | 1:
            index = change_values(rng, [index])
        case 2:
            index = change_bytes(rng, [index])
        case _:
            shard = change_bytes(rng, [shard])
    return kind + b"\n" + index + _MARK + shard


def attempt(data: bytes, folder: Path) -> None:
    named, _, rest = data.partition(b"\n")
    index, _, shard = rest.partition(_MARK)
    kind = named.decode()
    here = folder / kind
    if not here.exists():
        shutil.copytree(MADE / kind, here)
        import_store(MADE / kind, folder / f"{kind}-whole", eos=50256, vocab_size=50_257)
    (here / INDEX).write_bytes(index)
    (here / (SHARD + KINDS[kind])).write_bytes(shard)
    import_store(here, folder / "new", eos=50256, vocab_size=50_257, overwrite=True)
    new, whole = gm.open(folder / "new"), gm.open(folder / f"{kind}-whole")
    if kind != "mds-columns" and index == (MADE / kind / INDEX).read_bytes():  # whose hashes cover every byte
        assert new.tokens(0, new.num_tokens).tolist() == whole.tokens(0, whole.num_tokens).tolist()
