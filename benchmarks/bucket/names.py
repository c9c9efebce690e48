"""Where things are, as driver and readers know it: addresses in the bucket, and the folder for a contender's cache."""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
from s3_server import BUCKET

CACHE_VARIABLE = "BENCHMARK_CACHE"


def at(prefix: str) -> str:
    """The address of what was put below a prefix."""
    return f"s3://{BUCKET}/{prefix}"


def cache_folder() -> str:
    """An empty folder for a cold run, that of the run before for a warm one."""
    return os.environ[CACHE_VARIABLE]
