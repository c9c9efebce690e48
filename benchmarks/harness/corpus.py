"""The tokens that every contender reads: made once, from a fixed seed, as one file and as many shards."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SEQ_LEN = 2_048
BATCH_SIZE = 64
BATCHES = 1_526  # one epoch; 1,526 * 64 * 2,048 is the first whole number of batches over 200 M tokens
WINDOWS = BATCHES * BATCH_SIZE
TOKENS = WINDOWS * SEQ_LEN
TOKENS_PER_BATCH = BATCH_SIZE * SEQ_LEN
EOS = 50_256
SEED = 0

_MEAN_DOCUMENT = 600
_SPREAD = 1.0  # sigma of the log-normal document lengths
_BLOCK = 1 << 22

Tokens = NDArray[np.uint16]


@dataclass(frozen=True)
class Corpus:
    """Where the benchmark's files are, under one directory that git does not see."""

    root: Path

    @property
    def tokens_path(self) -> Path:
        """The whole corpus as one headerless uint16 file."""
        return self.root / "tokens.bin"

    def windows(self) -> Tokens:
        """The corpus as a memory-mapped (windows, tokens) matrix."""
        return self._flat().reshape(-1, SEQ_LEN)

    def made(self, name: str, write: Callable[[Path], None]) -> Path:
        """A directory that `write` fills once; it appears under its name only when it is whole."""
        target, partial = self.root / name, self.root / f"{name}.partial"
        if not target.exists():
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            write(partial)
            partial.rename(target)
        return target

    def shards(self, count: int) -> list[Path]:
        """The same stream in `count` files, each ending with a document, in stream order."""
        directory = self.made(f"shards-{count}", lambda d: _write_shards(self._flat(), count, d))
        return sorted(directory.glob("*.bin"))

    def repeated(self, times: int) -> "Corpus":
        """A corpus that holds this one so many times over, for what must not fit into a few reads."""
        return Corpus(self.made(f"repeated-{times}", lambda d: _repeat(self.tokens_path, times, d)))

    def make(self) -> None:
        """Write the token file unless it is there already."""
        if self.tokens_path.exists():
            return
        self.root.mkdir(parents=True, exist_ok=True)
        partial = self.tokens_path.with_suffix(".partial")
        with partial.open("wb") as file:
            for block in _token_blocks():
                block.tofile(file)
        partial.rename(self.tokens_path)

    def _flat(self) -> Tokens:
        return np.memmap(self.tokens_path, dtype=np.uint16, mode="r")


def _token_blocks() -> Iterator[Tokens]:
    """Blocks of Zipf-like ids with EOS at document ends, TOKENS in all, the last token an EOS."""
    rng = np.random.default_rng(SEED)
    ends = _document_ends(rng)
    for start in range(0, TOKENS, _BLOCK):
        size = min(_BLOCK, TOKENS - start)
        block = _zipf_ids(rng, size)
        inside = ends[(ends >= start) & (ends < start + size)] - start
        block[inside] = EOS
        yield block


def _zipf_ids(rng: np.random.Generator, size: int) -> Tokens:
    """Ids below EOS whose frequency falls as 1/rank, by the inverse of the continuous distribution."""
    ranks = np.exp(rng.random(size, dtype=np.float32) * np.float32(np.log(EOS)))
    ids: Tokens = np.minimum(ranks, EOS).astype(np.uint16) - np.uint16(1)
    return ids


def _document_ends(rng: np.random.Generator) -> NDArray[np.int64]:
    """Positions of the EOS tokens: log-normal document lengths with the wanted mean."""
    log_mean = np.log(_MEAN_DOCUMENT) - _SPREAD**2 / 2
    enough = 2 * TOKENS // _MEAN_DOCUMENT
    lengths = rng.lognormal(log_mean, _SPREAD, enough).astype(np.int64) + 2
    ends = np.cumsum(lengths) - 1
    return np.append(ends[ends < TOKENS - 1], TOKENS - 1)


def _write_shards(flat: Tokens, count: int, directory: Path) -> None:
    """Cut the stream into shards of equally many documents, so that their lengths vary and none is empty."""
    ends = np.flatnonzero(flat == EOS) + 1
    last_documents = np.arange(1, count + 1) * len(ends) // count - 1
    cuts = [0, *ends[last_documents].tolist()]
    for i, (start, stop) in enumerate(pairwise(cuts)):
        flat[start:stop].tofile(directory / f"shard-{i:05d}.bin")


def _repeat(path: Path, times: int, directory: Path) -> None:
    with (directory / path.name).open("wb") as target:
        for _ in range(times):
            with path.open("rb") as source:
                shutil.copyfileobj(source, target, 1 << 24)
