"""Small real stores and foreign token files for every test. EOS is the last id of the vocabulary."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pyarrow as pa
import pytest

from gristmill.store.format import dtype_for, write_idx
from gristmill.store.manifest import Manifest
from gristmill.store.writer import shard_cuts, shard_name, write_shard

sys.path.append(str(Path(__file__).parent))
from forked_ranks import run_ranks
from near_texts import edit, engine, jaccard, make_batch, shingles, texts_of
from nobody import as_nobody, open_folder
from s3_fixtures import _proxy, proxy, server, upload
from spark_cluster import needs_cluster, spark, spark_cluster, spark_connect

__all__ = [  # fixtures
    "_proxy", "as_nobody", "edit", "engine", "jaccard", "make_batch", "open_folder", "proxy", "run_ranks", "server",
    "shingles", "spark", "spark_cluster", "spark_connect", "texts_of", "upload",
]  # fmt: skip

# No deadlines: the first call of a kernel compiles it, and the machines are shared.
hypothesis.settings.register_profile("gristmill", deadline=None, print_blob=True)
hypothesis.settings.load_profile("gristmill")

Documents = Sequence[Sequence[int]]


def random_documents(count: int = 50, vocab: int = 50_257, longest: int = 80, seed: int = 0) -> list[list[int]]:
    """Documents of 1 to `longest` ids, without EOS."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, vocab - 1, length).tolist() for length in rng.integers(1, longest + 1, count)]


def with_eos(documents: Documents, vocab: int = 50_257) -> np.ndarray[Any, Any]:
    """Documents end to end as a store holds them."""
    ids = [token for document in documents for token in (*document, vocab - 1)]
    return np.array(ids, dtype=dtype_for(vocab))


def store_of(
    root: Path,
    documents: Documents | None = None,
    *,
    val: Documents = (),
    tokens_per_shard: int = 1000,
    vocab: int = 50_257,
    seed: int = 0,
    tokenizer: str = "test",
    compression: str = "none",
) -> Path:
    """Write a whole store at `root` and return it: document i of a split has the id `SPLIT-i`."""
    train = random_documents(vocab=vocab, seed=seed) if documents is None else documents
    entries = {}
    for split, part in (("train", train), ("val", val)):
        (root / split).mkdir(parents=True, exist_ok=True)
        lengths = np.array([len(document) + 1 for document in part], dtype=np.int64)
        ends, tokens, rows = np.append(0, np.cumsum(lengths)), with_eos(part, vocab), _rows(split, len(part))
        entries[split] = [
            write_shard(
                root,
                shard_name(split, i, compression),
                dtype_for(vocab),
                [(tokens[ends[first] : ends[stop]], lengths[first:stop], rows.slice(first, stop - first))],
            )[0]
            for i, (first, stop) in enumerate(shard_cuts(lengths, tokens_per_shard, 0))
        ]
    funnel = [{"stage": "train", "source": "test", "documents": len(train), "bytes": 0, "tokens": 0}]
    named = {"name": tokenizer, "fingerprint": tokenizer}
    Manifest(dtype_for(vocab), vocab - 1, vocab, named, entries, funnel=funnel, versions={"test": "1"}).save(root)
    return root


def _rows(split: str, count: int) -> pa.Table:
    ids = [f"{split}-{i}" for i in range(count)]
    hashes = pa.array(np.arange(count, dtype=np.int64))
    columns = {"id": ids, "source": ["test"] * count, "path": [f"{split}.txt"] * count, "content_hash": hashes}
    return pa.table(columns)


def bare_file(path: Path, documents: Documents, *, vocab: int = 50_257, idx: bool = False) -> Path:
    """Write documents as another system's headerless file, with a Megatron `.idx` beside it if asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with_eos(documents, vocab).tofile(path)
    if idx:
        with open(path.with_suffix(".idx"), "wb") as file:
            write_idx(file, np.array([len(document) + 1 for document in documents]), dtype_for(vocab))
    return path


def pytest_addoption(parser: pytest.Parser) -> None:
    """The long runs of `make soak`, and where they leave their figures."""
    parser.addoption("--soak", action="store_true", help="try many more cases: hours instead of minutes")
    parser.addoption("--record", type=Path, help="a folder for the figures of docs/reliability.md")


def pytest_configure(config: pytest.Config) -> None:
    """No process that tests start waits for the disk, as `_no_fsync` has it: 10 ms a file where the disk is busy."""
    if hasattr(config, "workerinput") or "LD_PRELOAD" in os.environ or not shutil.which("cc"):
        return
    folder = tempfile.mkdtemp(prefix="no-fsync-")
    config.add_cleanup(lambda: shutil.rmtree(folder))
    command = ["cc", "-shared", "-fPIC", "-o", f"{folder}/no_fsync.so", "-x", "c", "-"]
    subprocess.run(command, input="int fsync(int file) { return 0; }\nint fdatasync(int file) { return 0; }\n",
                   text=True, check=True)  # fmt: skip
    os.environ["LD_PRELOAD"] = command[4]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the cluster first: the worker of pytest's that gets the first part of all has them, and starts one."""
    items.sort(key=needs_cluster, reverse=True)


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether this is `make soak`."""
    return bool(request.config.getoption("--soak"))


@pytest.fixture(scope="session")
def record(request: pytest.FixtureRequest) -> Path | None:
    """A folder for figures, if one was asked for."""
    folder: Path | None = request.config.getoption("--record")
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(autouse=True, scope="session")
def _no_fsync() -> Iterator[None]:
    """Small stores are many files, and no test can see whether they would survive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        yield


@pytest.fixture(scope="session")
def make_documents() -> Callable[..., list[list[int]]]:
    """`make_documents(count, vocab, longest, seed)`: random documents without EOS."""
    return random_documents


@pytest.fixture(scope="session")
def stream() -> Callable[..., np.ndarray[Any, Any]]:
    """`stream(documents, vocab)`: the tokens that a store of these documents holds."""
    return with_eos


@pytest.fixture(scope="session")
def make_store() -> Callable[..., Path]:
    """`make_store(root, documents=, val=, tokens_per_shard=, vocab=, compression=)`: a store on disk, its root."""
    return store_of


@pytest.fixture(scope="session")
def make_bare() -> Callable[..., Path]:
    """`make_bare(path, documents, vocab=, idx=)`: a foreign `.bin` (or headerless `.npy`), with `.idx` if asked."""
    return bare_file


@pytest.fixture(scope="session")
def open_files() -> Callable[[Path], list[str]]:
    """`open_files(folder)`: those below a folder that this process has open, whatever other tests' threads have."""

    def below(folder: Path) -> list[str]:
        found = []
        for descriptor in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        return [path for path in found if path.startswith(str(folder))]

    return below
