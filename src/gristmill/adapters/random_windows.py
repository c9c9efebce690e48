"""Random windows for small experiments: from a text in memory, or from a store of any size.

data = GPTDataLoader(GPTDataConfig(batch_size=12, block_size=256), tokenizer="gpt2")
data.prepare_data(text)
x, y = data.get_batch("train")       # y is x shifted by one
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from gristmill.core.extras import extra

with extra("torch", __name__):
    import torch

from gristmill.adapters.local_files import ENDLESS
from gristmill.adapters.torch import Tensors, TorchLoader, as_device, data_parallel_rank
from gristmill.core.arguments import PathLike, as_whole, refuse
from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, StateError, did_you_mean
from gristmill.core.values import fits
from gristmill.loader.state import State
from gristmill.order.options import PlanOptions, check_positive
from gristmill.order.plan import Plan
from gristmill.places.address import Address
from gristmill.places.door import address_of, as_address, place_at
from gristmill.store.format import dtype_for
from gristmill.store.manifest import MANIFEST, SPLITS, read_manifest
from gristmill.store.opening import open_store
from gristmill.store.reader import Store
from gristmill.store.sharded_bin import METADATA, read_tokenizer_state


@runtime_checkable
class OwnTokenizer(Protocol):
    """A Tokenizer of `gristmill.tokenize`, which this half does not import: the only kind that has a fingerprint."""

    name: str
    fingerprint: str

    def encode_batch(self, texts: Sequence[str]) -> tuple[npt.NDArray[Any], Ints]: ...


@runtime_checkable
class ForeignTokenizer(Protocol):
    """A tokenizer of another library; its ids may lie in an object that has them as `ids`."""

    def encode(self, text: str) -> object: ...


@dataclasses.dataclass(frozen=True)
class GPTDataConfig:
    """What `GPTDataLoader` reads of a config: a trainer's own object or mapping with these names does as well.

    batch_size counts the windows of one rank, block_size the tokens of x. val_fraction of a text, its end, is for val.
    """

    batch_size: int
    block_size: int
    seed: int = 0
    device: str | torch.device = "cpu"
    val_fraction: float = 0.1

    def __post_init__(self) -> None:
        for name in ("batch_size", "block_size"):
            check_positive(**{name: as_whole(name, getattr(self, name))})
        as_whole("seed", self.seed, None)
        as_device(self.device)
        if not fits(self.val_fraction, float) or not 0 <= self.val_fraction < 1:
            raise refuse("val_fraction", "a share from 0 to below 1", self.val_fraction)

    @classmethod
    def read(cls, config: object) -> GPTDataConfig:
        """The fields of `config` that are named here; what it has besides is the trainer's."""
        get = config.get if isinstance(config, Mapping) else functools.partial(getattr, config)
        values = {field.name: get(field.name, field.default) for field in dataclasses.fields(cls)}
        for name, value in values.items():
            if value is dataclasses.MISSING:
                raise ConfigError(f"The config of GPTDataLoader needs {name}.")
        return cls(**values)


class GPTDataLoader:
    """Batches (x, y) of windows that begin anywhere, in an order drawn from the seed.

    Every start comes once before any comes again. Each split has its own order and its own place, both in the state.
    `tokenizer` is a name, a Tokenizer, or any object whose `encode` gives ids; with `dataset_dir`, a store (or a folder
    of raw uint32 shards, or of `train.bin` and `val.bin`), it may be None. Shards are mapped when a window first falls
    into them, without a file descriptor each, at most 16,384 at once.
    """

    def __init__(self, config: object, tokenizer: object, dataset_dir: PathLike | None = None) -> None:
        self.config = GPTDataConfig.read(config)
        self.tokenizer = _named_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        self._dataset_dir = None if dataset_dir is None else _folder(dataset_dir)
        self._loaders: dict[str, TorchLoader] = {}
        self._batches: dict[str, Iterator[Tensors]] = {}
        self._discard: Callable[[], object] | None = None
        if self._dataset_dir is not None:
            self._check_tokenizer(self._dataset_dir)
            for split in SPLITS:
                self._serve(split, _open_split(self._dataset_dir, split))

    def __repr__(self) -> str:
        splits = ", ".join(f"{split} {loader.plan!r}" for split, loader in self._loaders.items())
        return f"GPTDataLoader({splits or 'no data yet'})"

    def _check_tokenizer(self, folder: Address) -> None:
        """Refuse a store that another tokenizer has made, where both are known."""
        if not isinstance(self.tokenizer, OwnTokenizer):
            return
        name, fingerprint = _made_by(folder)
        if name is not None and fingerprint != self.tokenizer.fingerprint:
            raise ConfigError(
                f"{folder} was made with the tokenizer {name}, not with {self.tokenizer.name}: "
                "give that one, or prepare the store again."
            )

    def prepare_data(self, text: str) -> None:
        """Tokenise a text; its end is kept for val. A text prepared before is forgotten."""
        if self._dataset_dir is not None:
            raise ConfigError(f"The tokens come from {self._dataset_dir}: leave out prepare_data, or dataset_dir.")
        ids = _encode(self.tokenizer, text)
        edge = len(ids) - int(len(ids) * self.config.val_fraction)
        folder, forget = tempfile.mkdtemp(prefix="gristmill-"), self._discard
        self._discard = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._loaders.clear()
        for split, part in zip(SPLITS, (ids[:edge], ids[edge:]), strict=True):
            self._serve(split, _store_of(part, Path(folder) / f"{split}.bin"))
        if forget is not None:
            forget()

    def _serve(self, split: str, store: Store | None) -> None:
        """Draw windows of block_size + 1 tokens from a store; one without tokens is refused when it is asked for."""
        if store is None:
            return
        config, (rank, world_size) = self.config, data_parallel_rank()
        if store.num_tokens <= config.block_size:
            raise ConfigError(
                f"{split} has {store.num_tokens:,} tokens, too few for a window of block_size + 1 = "
                f"{config.block_size + 1:,}: lower block_size or give more text."
            )
        plan = Plan(
            {split: store},
            seq_len=config.block_size + 1,
            batch_size=config.batch_size * world_size,
            seed=config.seed,
            steps=ENDLESS,
            options=PlanOptions(cut="window"),
        )
        self._loaders[split] = TorchLoader(plan, rank, world_size, device=config.device, threads=0)
        self._batches[split] = iter(self._loaders[split])

    def get_batch(self, split: str) -> tuple[torch.Tensor, torch.Tensor]:
        """The split's next batch on the device: x and y, both int64 (batch_size, block_size), y one token later."""
        if split not in self._loaders:
            raise ConfigError(self._why_not(split))
        ids = next(self._batches[split])["input_ids"]
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    def _why_not(self, split: str) -> str:
        if split not in SPLITS:
            return f"Unknown split {split!r}{did_you_mean(str(split), SPLITS)}."
        if self._dataset_dir is None and not self._loaders:
            return "There are no tokens yet: call prepare_data(text) first, or give dataset_dir."
        return f"There are no tokens for {split}: give a val_fraction above 0."

    def state_dict(self) -> dict[str, State]:
        """The place in each split: JSON, under 2 KB, the same on every rank."""
        return {split: loader.state_dict() for split, loader in self._loaders.items()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, object]]) -> None:
        """Go on where `state` was taken; a text or a store must be there already, and be the same."""
        if not isinstance(state, dict) or state.keys() != self._loaders.keys():
            raise StateError(
                f"This state is not one of a GPTDataLoader with {' and '.join(self._loaders) or 'no data yet'}: "
                "prepare the same data first."
            )
        for split, loader in self._loaders.items():
            loader.load_state_dict(state[split])


def _folder(given: PathLike) -> Address:
    return address_of(os.path.expanduser(as_address("dataset_dir", given)))


def _open_split(folder: Address, split: str) -> Store | None:
    """A split of a store or of raw shards, or nanoGPT's file of that name; None where it has no tokens."""
    has_splits = place_at(folder / MANIFEST).exists() or place_at(folder / METADATA).exists()
    store = open_store(folder / (split if has_splits else f"{split}.bin"))
    return store if store.num_tokens else None


def _made_by(folder: Address) -> tuple[object, object]:
    """(name, fingerprint) of the tokenizer of a store or of raw shards; a name of None where the folder has none."""
    if place_at(folder / MANIFEST).exists():
        made_by = read_manifest(folder)["tokenizer"]
        return made_by["name"], made_by["fingerprint"]
    state = read_tokenizer_state(folder)
    kind = state.get("token_kind")
    return kind, _named_tokenizer("gpt2").fingerprint if kind == "gpt2" else state.get("fingerprint")


def _named_tokenizer(name: str) -> OwnTokenizer:
    """A tokenizer by its name: the one thing here that only the writing half knows, bound when it is asked for."""
    made: OwnTokenizer = importlib.import_module("gristmill.tokenize.tokenizer").load_tokenizer(name)
    return made


def _encode(tokenizer: object, text: str) -> Ints:
    """The ids of a text by our Tokenizer, or by another library's `encode`."""
    if isinstance(tokenizer, OwnTokenizer):
        return np.asarray(tokenizer.encode_batch([text])[0], dtype=np.int64)
    if not isinstance(tokenizer, ForeignTokenizer):
        raise ConfigError(f"A text needs a tokenizer, a name or an object with encode(text), not {tokenizer!r}.")
    ids = tokenizer.encode(text)
    return np.asarray(getattr(ids, "ids", ids), dtype=np.int64)


def _store_of(ids: Ints, path: Path) -> Store | None:
    """Ids as a store in a temporary file, which the page cache holds: one way of reading for texts and stores."""
    if not len(ids):
        return None
    dtype = dtype_for(int(ids.max()) + 1)
    ids.astype(dtype).tofile(path)
    return open_store(path, dtype=dtype)
