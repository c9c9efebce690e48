"""Commands as processes that may be killed or starved, and what each of them writes when it is left alone."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[[Path], list[object]]
Whole = tuple[Command, dict[str, bytes]]


def ran(arguments: list[object], **variables: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gristmill.cli", *map(str, arguments)]
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def content_of(folder: Path) -> dict[str, bytes]:
    """The promised bytes: all but times, locks and Parquet, which a library shapes."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.endswith(".lock"))
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in found
        if path.suffix != ".parquet" and path.name not in ("run.json", "report.html")
    }


@pytest.fixture(scope="session")
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run(arguments, NAME=value)`: a command to its end, with variables of the environment."""
    return ran


@pytest.fixture(scope="session")
def content() -> Callable[[Path], dict[str, bytes]]:
    """`content(folder)`: the files whose bytes are promised."""
    return content_of


@pytest.fixture(scope="session")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files, some documents twice, some nearly."""
    folder, rng = tmp_path_factory.mktemp("raw"), random.Random(1)
    words = [f"word{i}" for i in range(300)]
    texts = [" ".join(rng.choices(words, k=60)) for _ in range(60)]
    texts += texts[:10] + [text.replace("word1", "other", 1) for text in texts[10:20]]
    for part, name in enumerate("ab"):
        (folder / f"{name}.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in texts[part::2]))
    return folder


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all output lies: a joined store names its parts as seen from itself."""
    return tmp_path_factory.mktemp("outputs")


@pytest.fixture(scope="session")
def commands(raw: Path, place: Path) -> dict[str, Whole]:
    """Each command as a function of its output folder, and what it writes there."""
    store = place / "prepare"
    kinds: dict[str, Command] = {
        "prepare": lambda out: ["prepare", *sorted(raw.glob("*.jsonl")), "--out", out, "--tokenizer", "byte", "--dedup",
                                "exact,near,lines", "--tokens-per-shard", 5000, "--val-fraction", 0.1],
        "index": lambda out: ["index", store / "train", "--seq-len", 64, "--index-dir", out],
        "export": lambda out: ["export", store, "--to", "npy", "--out", out],
        "import": lambda out: ["import", store / "train" / "shard-00000.bin", "--tokenizer", "byte", "--out", out],
        "join": lambda out: ["join", store, "--out", out],
    }  # fmt: skip
    made = {}
    for name, command in kinds.items():
        ended = ran(command(place / name))
        assert ended.returncode == 0, ended.stderr
        made[name] = (command, content_of(place / name))
    return made
