"""How far long work is: what every function with `progress` tells of it adds up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.testing import tiny_store

Work = Callable[[Path, Any], object]

WORK: dict[str, Work] = {
    **{
        f"export to {to}": lambda at, told, to=to: gm.export(at / "own", to, at / "new", progress=told)
        for to in ("megatron", "nanogpt", "npy", "sharded-bin", "mds", "litdata", "webdataset")
    },
    "export of samples": lambda at, told: gm.export(at / "own", "mds", at / "new", seq_len=64, progress=told),
    "import": lambda at, told: gm.import_(
        [at / "bare" / f"part-{i}.bin" for i in range(2)], at / "new", "byte", dtype="uint16", progress=told
    ),
    "verify": lambda at, told: gm.verify(at / "own", progress=told),
    "index": lambda at, told: gm.index(gm.open(at / "own"), 16, progress=told),
}


@pytest.mark.parametrize("what", WORK)
def test_work_begins_with_a_total_that_it_reaches(tmp_path: Path, notes: Any, what: str) -> None:
    tiny_store(tmp_path / "bare", shards=2)
    (tmp_path / "a.txt").write_text("\n".join(f"This is the line {i} of a text." for i in range(300)))
    sources = [{"name": "a", "paths": [str(tmp_path / "a.txt")], "documents": "line"}]
    settings = {"tokenizer": "byte", "store": {"tokens_per_shard": 2000, "val_fraction": 0.1}}
    gm.prepare({"out": str(tmp_path / "own"), "sources": sources, **settings}, progress=False)
    WORK[what](tmp_path, notes)
    assert notes.stages and all(total == done > 0 for _, total, done in notes.stages), notes.stages
