"""Small files of documents, and what a stream makes of them."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm

Files = Callable[..., Path]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Writes `count` JSONL files of `rows` documents each: document j of file i begins with its id."""

    def write(count: int = 3, rows: int = 40, longest: int = 60, folder: str = "raw", seed: int = 0) -> Path:
        rng = np.random.default_rng(seed)
        made = tmp_path / folder
        made.mkdir(parents=True)
        for i in range(count):
            lengths = rng.integers(1, longest + 1, rows).tolist()
            texts = [{"id": f"{i}-{j}", "text": f"<{i}-{j}> " + "word " * length} for j, length in enumerate(lengths)]
            (made / f"{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
        return made

    return write


def bytes_stream(folder: Path, cut: str = "chunk", seq_len: int = 32) -> Any:
    """Documents as bytes, in rows."""
    return getattr(gm.stream(f"{folder}/*.jsonl").tokenize("byte"), cut)(seq_len)


def copied(batches: Iterator[Any]) -> list[dict[str, np.ndarray[Any, Any]]]:
    """Batches whose memory is nobody else's."""
    return [{key: array.copy() for key, array in batch.items()} for batch in batches]


def taken(loader: Any, count: int) -> list[dict[str, np.ndarray[Any, Any]]]:
    """The next `count` batches of a loader, no matter what it has made ahead."""
    found = iter(loader)
    return copied(next(found) for _ in range(count))


def assert_equal(one: Sequence[Any], other: Sequence[Any]) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def joined(parts: Sequence[Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The global batch of those of all ranks."""
    world = len(parts)
    whole = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    for key, array in whole.items():
        for rank, part in enumerate(parts):
            array[rank::world] = part[key]
    return whole


def served_texts(batches: Sequence[Any], lanes: int) -> list[str]:
    """The documents of byte tokens that lanes have served, each lane's rows end to end, cut at EOS."""
    found: list[str] = []
    for lane in range(lanes):
        rows = [batch["input_ids"][lane][batch["attention_mask"][lane] > 0] for batch in batches]
        line = np.concatenate(rows) if rows else np.empty(0, np.int64)
        parts = np.split(line, np.flatnonzero(line == 256) + 1)
        found += [bytes(part[part != 256].astype(np.uint8)).decode() for part in parts if len(part)]
    return found


def tars_of(folder: Path, packing: str = "") -> Path:
    """The same documents as tars, a member .txt and a member .json each, in a folder of their own."""
    made = folder.with_name(f"{folder.name}-tars{packing}")
    made.mkdir()
    for path in sorted(folder.glob("*.jsonl")):
        suffix = f".tar.{packing}" if packing else ".tar"
        with tarfile.open(made / f"{path.stem}{suffix}", f"w:{packing}") as tar:  # type: ignore[call-overload]
            for i, line in enumerate(path.read_text().splitlines()):
                row = json.loads(line)
                for name, data in ((f"{i}.txt", row["text"]), (f"{i}.json", json.dumps({"id": row["id"]}))):
                    member = tarfile.TarInfo(name)
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data.encode()))
    return made
