"""The blocks of docs/spark.md and docs/spark_streaming.md, run from first to last as a reader would."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from page_script import PATH, script


def follow(page: str, folder: Path) -> str:
    """What is printed to somebody who runs all blocks of a page."""
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script(page)], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "PATH": PATH, "SPARK_LOCAL_IP": "127.0.0.1"})  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_reader_who_follows_the_page_gets_the_same_bytes_from_spark(tmp_path: Path) -> None:
    printed = follow("spark.md", tmp_path)
    assert "The same bytes." in printed and "shard-00000.bin" in printed
    assert "75 pages were kept." in printed


def test_a_reader_who_follows_the_page_trains_from_a_dataframe_and_goes_on(tmp_path: Path) -> None:
    printed = follow("spark_streaming.md", tmp_path)
    assert [f"{step} (16, 128)" in printed for step in range(1, 7)] == [True] * 6
    assert "torch.Size([16, 128])" in printed
