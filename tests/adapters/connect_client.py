"""A training process at a Spark Connect server, run by test_spark_stream.py: `connect_client.py ADDRESS BATCHES`.

Prints as JSON what its batches were: of a loader whose session has ended, of one with a worker process, and the error
of a DataFrame that is another one for every query.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

from pyspark.sql import SparkSession

import gristmill as gm
from gristmill.adapters.spark_stream import SparkStreamLoader

ROWS, DOCUMENTS, SEQ_LEN = 4, 240, 64
TEXT = "concat('<', id, '> ', repeat('word ', 1 + cast(id % 40 as int))) as text"
sessions: list[Any] = []


def open_documents() -> Any:
    """A new session, and the rows that the tests have in a classic one."""
    sessions.append(SparkSession.builder.remote(sys.argv[1]).create())
    return sessions[-1].range(DOCUMENTS).selectExpr("concat('d', id) as id", TEXT)


def open_changing() -> Any:
    return open_documents().selectExpr("id", "concat(text, rand()) as text")


def make(df: Any) -> SparkStreamLoader:
    return SparkStreamLoader(df, "byte", SEQ_LEN, ROWS, options={"id_col": "id"})


def digest(batches: list[Any]) -> str:
    return hashlib.sha256(b"".join(batch["input_ids"].tobytes() for batch in batches)).hexdigest()


def cut_off(count: int) -> tuple[SparkStreamLoader, str]:
    """A loader, and `count` batches of it; its session is ended before the first."""
    loader = make(open_documents)
    sessions[-1].stop()
    batches = iter(loader)
    return loader, digest([next(batches) for _ in range(count)])


def told(df: Any) -> str:
    try:
        next(iter(make(df)))
    except gm.SourceError as error:
        return str(error)
    return "nothing"


def main() -> None:
    loader, found = cut_off(int(sys.argv[2]))
    opened = len(sessions)
    with loader.stream.loader(workers=1) as worked:
        batches = iter(worked)
        first = digest([next(batches) for _ in range(10)])
    print(json.dumps({"batches": found, "opened": opened, "worked": first, "changing": told(open_changing)}))


if __name__ == "__main__":
    main()
