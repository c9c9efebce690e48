"""Processes that share a cache under pressure and are killed at any moment: nothing wrong, hung or left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.places.cache import SMALLEST, Cache
from gristmill.places.eviction import Part
from s3_server import BUCKET, KEY, SECRET, Server

READERS = Path(__file__).parent / "cache_readers.py"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "s3").mkdir()
    made = Server(tmp_path / "s3")
    yield made
    made.stop()


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_kills_of_processes_that_share_a_cache_leave_it_whole_and_within_its_limit(
    tmp_path: Path, make_store: Any, server: Server, soak: bool, record: Path | None, compression: str
) -> None:
    import obstore
    from obstore.store import S3Store

    rng = np.random.default_rng(1)
    documents = [rng.integers(0, 40_000, 3000).tolist() for _ in range(1000)]
    root = make_store(tmp_path / "s", documents, tokens_per_shard=1_200_000, compression=compression)
    bucket = S3Store(BUCKET, endpoint=server.address, access_key_id=KEY, secret_access_key=SECRET, region="us-east-1",
                     client_options={"allow_http": True})  # fmt: skip
    for path in sorted(root.rglob("*")):
        if path.is_file():
            obstore.put(bucket, f"s/{path.relative_to(root).as_posix()}", path)
    limit, cache = gm.open(root).num_tokens * 2 // 10, tmp_path / "cache"
    storage = {f"s3://{BUCKET}": {"cache": str(cache), "cache_bytes": limit}}
    variables = {
        "AWS_ENDPOINT_URL": server.address, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1", "GRISTMILL_STORAGE": json.dumps(storage),
    }  # fmt: skip
    ended = subprocess.run(
        [sys.executable, READERS, root, f"s3://{BUCKET}/s", cache, "1000" if soak else "25"],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=7200,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    counts = json.loads(ended.stdout)
    print(counts)
    assert counts["kills"] >= (1000 if soak else 25) and counts["most bytes"] > limit / 2
    assert not any(counts[name] for name in ("wrong", "failed", "hangs", "wrong afterwards")), counts
    assert counts["most bytes"] <= limit + 8 * 140_000
    later = Part("0" * 32, 0, SMALLEST)  # whoever comes next clears up what was left
    Cache(cache, limit).add(later, np.zeros(SMALLEST, np.uint8), lambda parts: [0.0] * len(parts))
    assert not [*cache.rglob("*.tmp"), *cache.rglob("*.claim")]
    if record:
        (record / f"cache-kills-{compression}.json").write_text(json.dumps({**counts, "limit": limit}) + "\n")
