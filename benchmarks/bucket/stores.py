"""The tokens in the bucket: one corpus as stores of few shards and of 10,000, and as the peers have it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bucket.server import Bucket
from gristmill.importing import import_tokens
from gristmill.store.importing import import_store
from harness.corpus import BATCH_SIZE, EOS, SEQ_LEN, Corpus

SMALL_BATCHES = 512  # 134 MB: what the slowest contender reads in some seconds
COPIES = 2  # 800 MB: enough that the start is a small part of an epoch
# The corpus once, ids of four bytes: 800 MB too. All four are in use: the server compresses what begins with bytes that
# compress well, as ids with two zeros do, and then unpacks chunks of 4 MiB for whatever is asked of them.
WIDE, SPREAD = "wide-spread", 32_749
SHARDS, MANY_SHARDS = 12, 10_000
PEER_FORMATS = ("mosaic-mds-small", "litdata-chunks-small")


def small_corpus(corpus: Corpus) -> Corpus:
    """The first windows of the corpus."""
    tokens = SMALL_BATCHES * BATCH_SIZE * SEQ_LEN
    return Corpus(corpus.made("small", lambda folder: _cut(corpus, tokens, folder)))


def _cut(corpus: Corpus, tokens: int, folder: Path) -> None:
    """The first tokens, the last of which ends a document as in the whole."""
    flat = np.array(np.memmap(corpus.tokens_path, np.uint16, mode="r")[:tokens])
    flat[-1] = EOS
    flat.tofile(folder / corpus.tokens_path.name)


def add_stores(bucket: Bucket, corpus: Corpus) -> dict[str, Path]:
    """Stores of Gristmill's in the bucket, by their names; all but `many` are folders, too."""
    small, large = small_corpus(corpus), corpus.repeated(COPIES)
    parts = {"small": small.shards(SHARDS), "large": large.shards(SHARDS)}
    folders = {
        name: corpus.made(f"store-{name}", lambda folder, files=files: _import(files, folder))  # type: ignore[misc]
        for name, files in parts.items()
    }
    folders[WIDE] = corpus.made(f"store-{WIDE}", lambda folder: _import_wide(corpus.shards(SHARDS), folder))
    for name, folder in folders.items():
        bucket.add(name, folder.rglob("*.*"), folder)
    with _unsynced() as folder:
        if not bucket.holds("many"):
            _import(small.shards(MANY_SHARDS), folder / "store")
            bucket.add("many", _trained_from(folder / "store"), folder / "store")
    return folders


def _import(files: list[Path], folder: Path) -> None:
    """A store with sums of token files, one shard a file."""
    import_tokens(files, folder, "gpt2", dtype="uint16", progress=False)


def _import_wide(files: list[Path], folder: Path) -> None:
    """The same ids in four bytes each, spread over a vocabulary of 2^31."""
    with tempfile.TemporaryDirectory() as wide:
        made = [Path(wide) / path.name for path in files]
        for path, other in zip(files, made, strict=True):
            (np.fromfile(path, np.uint16).astype(np.uint32) * SPREAD).tofile(other)
        import_store(made, folder, eos=EOS * SPREAD, vocab_size=1 << 31, dtype="uint32", progress=False)


def _trained_from(store: Path) -> Iterator[Path]:
    """What training reads: not the documents' tables and what else would be 40,000 objects more."""
    yield from (path for path in store.rglob("*.*") if path.parent == store or path.suffix in (".bin", ".blocks"))


@contextmanager
def _unsynced() -> Iterator[Path]:
    """A folder in memory where there is one: on disk 60,000 small files take minutes to be synced."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)
