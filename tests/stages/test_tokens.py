"""The last pass over texts: ids, splits and the order of a shuffle; of what was dropped, its tokens."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.curate.ledger import Ledger, passed, start_documents
from gristmill.stages.relation import Drops, Relation
from gristmill.stages.tokens import Encoding, TokensJob, encoded_schema
from gristmill.tokenize.tokenizer import load_tokenizer


@pytest.fixture
def job(tmp_path: Path) -> TokensJob:
    """Three documents, of which one goes to another's favour and one has no text."""
    columns = {"id": ["a", "b", "c"], "source": ["web"] * 3, "path": ["f"] * 3, "row": [0, 1, 2],
               "text": pa.array(["abc", "gone", ""], pa.large_string()), "url": ["u", None, None]}  # fmt: skip
    kept = passed(start_documents(pa.record_batch(columns), 0), Ledger()).kept
    pq.write_table(pa.Table.from_batches([kept]), tmp_path / "texts.parquet")
    pq.write_table(pa.table({"doc": [1], "kept": [0]}), tmp_path / "gone.parquet")
    drops = Drops("exact", "duplicate", Relation((tmp_path / "gone.parquet",), "gone"))
    tokenizer = load_tokenizer("byte")
    encoding = Encoding(pickle.dumps(tokenizer), tokenizer.fingerprint, 0.0, 7, ("clean",))
    return TokensJob(texts=tmp_path / "texts.parquet", upstream="", dropped=(), drops=(drops,), fields=("url",),
                     encoding=encoding, folder=tmp_path / "tokens")  # fmt: skip


def test_what_is_left_becomes_tokens_and_what_is_not_is_counted(job: TokensJob) -> None:
    facts: dict[str, Any] = job()
    (row,) = pq.read_table(job.outputs[0]).to_pylist()
    assert (row["id"], row["start"], row["length"], row["field_0"], row["val"]) == ("a", 0, 4, "u", False)
    assert np.fromfile(job.outputs[2], load_tokenizer("byte").dtype)[:3].tolist() == list(b"abc")
    assert facts["splits"] == {"train": {"documents": 1, "bytes": 3, "tokens": 4},
                               "val": {"documents": 0, "bytes": 0, "tokens": 0}}  # fmt: skip
    assert facts["reasons"] == {"exact": {"duplicate": 1}, "tokenize": {"no_tokens": 1}}
    assert facts["tokens_dropped"]["exact"] == len("gone") + 1
    assert pq.read_schema(job.outputs[0]).names == encoded_schema(1).names
