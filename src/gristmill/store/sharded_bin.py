"""Folders of raw uint32 shards, as training scripts make them: read in place, and what an export writes beside shards.

data/corpus/
  dataset_metadata.json    total_tokens, train_shards, val_shards, vocab_size, ...; written last
  tokenizer_state.json     {"token_kind": "gpt2" or "char", "chars": the characters of the latter}
  train/shard_00000.bin    uint32 ids without a header; a line or a document may go on in the next shard
  val/shard_00046.bin      numbered on, or from 0

Such scripts put no EOS between documents. An export of ours has one, and says which under the key `eos`.
"""

from __future__ import annotations

import json
import re

from gristmill.core.errors import ConfigError, StoreError
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.store.manifest import SPLITS

METADATA = "dataset_metadata.json"
TOKENIZER_STATE = "tokenizer_state.json"
DTYPE = "uint32"
_SHARD = re.compile(r"shard_(\d+)\.bin")


def shard_name(split: str, shard: int) -> str:
    """Where a shard lies in the folder."""
    return f"{split}/shard_{shard:05d}.bin"


def read_metadata(root: Address) -> dict[str, object]:
    """What the folder says of itself."""
    return _read_mapping(root / METADATA)


def read_tokenizer_state(root: Address) -> dict[str, object]:
    """Which tokenizer made the shards; empty where the folder does not tell."""
    path = root / TOKENIZER_STATE
    return _read_mapping(path) if place_at(path).exists() else {}


def eos_of(metadata: dict[str, object]) -> int | None:
    """The id that ends documents, where there is one."""
    eos = metadata.get("eos")
    return eos if isinstance(eos, int) and not isinstance(eos, bool) and 0 <= eos < 1 << 32 else None


def shard_paths(root: Address, split: str) -> list[Address]:
    """The shards of a split in the order of their numbers; what cannot be told from a shard is refused."""
    if not any(place_at(root / each).is_folder() for each in SPLITS):
        raise ConfigError(
            f"{root} has a {METADATA}, but neither of {' and '.join(SPLITS)}: it holds no tokens to open."
        )
    found = [root / split / name for name in place_at(root / split).names() if name.endswith(".bin")]
    for path in found:
        if not _SHARD.fullmatch(path.name):
            raise ConfigError(
                f"{path} is no shard (these are called shard_00000.bin and so on), and Gristmill does not know what it "
                "says about the tokens beside it: move it elsewhere, or open a list of the token files."
            )
    expected = read_metadata(root).get(f"{split}_shards")
    if isinstance(expected, int) and len(found) < expected:
        raise StoreError(
            f"{root / split} holds {len(found):,} shards, and {METADATA} counts {expected:,}: bring the others back, "
            f"or correct {split}_shards there."
        )
    return sorted(found, key=lambda path: (int(path.stem.removeprefix("shard_")), path.name))


def _read_mapping(path: Address) -> dict[str, object]:
    try:
        values = json.loads(place_at(path).read())
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path} cannot be read ({error}): restore it.") from error
    if not isinstance(values, dict):
        raise StoreError(f"{path} holds no mapping: restore it.")
    return values
