"""A disk that is full, or a limit on files: one sentence, exit 1, no store and no temporary files."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB; where the machine lets nobody mount one, the test that needs it cannot run."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip("this user may not mount a file system; the limit on file sizes below is tested everywhere")
    yield place
    subprocess.run(["umount", place], check=True)


def check_refusal(process: subprocess.Popen[str], out: Path, message: str) -> None:
    _, said = process.communicate()
    sentences = [line for line in said.splitlines() if line.startswith("gristmill: ")]
    assert process.returncode == 1 and len(sentences) == 1 and message in sentences[0], said
    assert "Traceback" not in said and "Exception" not in said
    assert not list(out.rglob("*.tmp")) and not (out / "manifest.json").exists()


@pytest.mark.parametrize("per_shard", [1000, 100_000_000])
def test_a_full_disk_is_one_sentence(start: Start, slow_input: Path, tiny_disk: Path, per_shard: int) -> None:
    out = tiny_disk / "out"
    process = start("prepare", slow_input, "--out", out, "--tokenizer", "byte", "--tokens-per-shard", per_shard)
    check_refusal(process, out, "The disk is full while writing")


def test_a_file_that_may_not_grow_is_one_sentence(start: Start, slow_input: Path, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    out = tmp_path / "out"
    process = start("prepare", slow_input, "--out", out, "--tokenizer", "byte", preexec_fn=limit)
    check_refusal(process, out, "File too large")


def test_an_index_that_the_disk_has_no_room_for_is_one_sentence(start: Start, make_bare: Any, tiny_disk: Path) -> None:
    tokens = make_bare(tiny_disk.parent / "tokens.bin", [[1]] * 40_000)
    bare = ("--dtype", "uint16", "--eos", 50_256, "--index-dir", tiny_disk)
    process = start("index", tokens, "--seq-len", 16, *bare)
    check_refusal(process, tiny_disk, "The disk is full while writing")
