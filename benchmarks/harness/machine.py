"""What the figures were measured on."""

import datetime
import os
import platform
from pathlib import Path


def facts() -> dict[str, str | int | float]:
    """The machine, the interpreter and the day."""
    return {
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(int(_field("/proc/meminfo", "MemTotal").split()[0]) / 2**20, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": load(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
    }


def load() -> float:
    """How many processes wanted a core over the last minute: more than the benchmark's own are company."""
    return round(os.getloadavg()[0], 2)


def read_ahead_kib(path: Path) -> int:
    """How far the kernel reads ahead, or around a page fault, on the disk that holds the path."""
    device = path.stat().st_dev
    node = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    disk = node if (node / "queue").exists() else node.parent  # a partition has its disk's queue
    return int((disk / "queue" / "read_ahead_kb").read_text())


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"
