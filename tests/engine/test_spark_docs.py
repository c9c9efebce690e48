"""The blocks of docs/spark.md, run from first to last as a reader would."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from page_script import PATH, script


def test_a_reader_who_follows_the_page_gets_the_same_bytes_from_spark(tmp_path: Path) -> None:
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script("spark.md")], cwd=tmp_path, capture_output=True,
                          text=True, env={**os.environ, "PATH": PATH, "SPARK_LOCAL_IP": "127.0.0.1"})  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "The same bytes." in done.stdout and "shard-00000.bin" in done.stdout
    assert "75 pages were kept." in done.stdout
