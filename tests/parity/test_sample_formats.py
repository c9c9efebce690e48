"""MDS and LitData as we write them, read by mosaicml-streaming and LitData themselves.

They live in a virtual environment of their own, which `benchmarks/setup_peers.sh` makes: they do not go with the
numpy that the tests have. Files that they wrote are in tests/data/samples, and are compared in tests/store.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill.store.export import export_store
from gristmill.store.opening import open_store

HERE = Path(__file__).parent
PEERS = HERE.parents[1] / ".venv-bench" / "bin" / "python"
pytestmark = pytest.mark.skipif(not PEERS.exists(), reason="benchmarks/setup_peers.sh has not been run")


def read(*arguments: object) -> Any:
    command = [PEERS, HERE / "sample_formats.py", "read", *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(params=[50_257, 128_256], ids=["uint16", "uint32"])
def root(request: pytest.FixtureRequest, tmp_path: Path, make_store: Callable[..., Path]) -> Path:
    return make_store(tmp_path / "s", vocab=request.param, tokens_per_shard=700)


def test_streaming_reads_every_document(root: Path, tmp_path: Path) -> None:
    export_store(root, "mds", tmp_path / "out")
    store = open_store(root)
    documents = [store.document(i).tokens.tolist() for i in range(store.num_documents)]
    assert read("mds", tmp_path / "out" / "train") == documents


def test_streaming_reads_samples_of_one_length(root: Path, tmp_path: Path) -> None:
    export_store(root, "mds", tmp_path / "out", seq_len=32)
    store = open_store(root)
    whole = store.tokens(0, store.num_tokens // 32 * 32).reshape(-1, 32)
    assert read("mds", tmp_path / "out" / "train") == whole.tolist()


def test_litdata_reads_every_block_of_the_length_that_was_exported(root: Path, tmp_path: Path) -> None:
    export_store(root, "litdata", tmp_path / "out", seq_len=32)
    store = open_store(root)
    whole = store.tokens(0, store.num_tokens // 32 * 32).reshape(-1, 32)
    assert read("litdata", tmp_path / "out" / "train", 32) == whole.tolist()


def test_litdata_reads_blocks_of_documents_and_drops_what_the_export_says(root: Path, tmp_path: Path) -> None:
    export_store(root, "litdata", tmp_path / "out")
    store = open_store(root)
    shards = [store.shard_tokens(i) for i in range(store.num_shards)]
    blocks = [block for tokens in shards for block in tokens[: len(tokens) // 32 * 32].reshape(-1, 32).tolist()]
    assert read("litdata", tmp_path / "out" / "train", 32) == blocks
