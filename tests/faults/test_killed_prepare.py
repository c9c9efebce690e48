"""A prepare that is killed leaves nothing that looks finished, and running it again gives the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import gristmill as gm

Start = Callable[..., "subprocess.Popen[str]"]
OPTIONS = ("--tokenizer", "byte", "--tokens-per-shard", 1000, "--val-fraction", "0.1")


def pure(root: Path) -> dict[str, bytes]:
    names = (path for path in root.rglob("*") if path.suffix not in (".parquet", ".lock") and path.name != "run.json")
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in names if path.is_file()}


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None and time.monotonic() < until, f"{path} never came"
        time.sleep(0.002)


@pytest.fixture
def killed(start: Start, slow_input: Path, tmp_path: Path) -> Path:
    """The folder of a prepare that got SIGKILL after its fifth shard."""
    process = start("prepare", slow_input, "--out", tmp_path / "killed", *OPTIONS)
    wait_for(tmp_path / "killed" / "train" / "shard-00004.bin", process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    return tmp_path / "killed"


def test_a_killed_prepare_leaves_no_store_and_its_rerun_the_bytes_of_an_uninterrupted_one(
    start: Start, killed: Path, slow_input: Path, tmp_path: Path
) -> None:
    assert not (killed / "manifest.json").exists()
    with pytest.raises(gm.StoreError, match=r"no manifest.json.*cut short; run it again"):
        gm.open(killed)
    verifying = start("verify", killed)
    _, said = verifying.communicate()
    assert verifying.returncode == 1 and said.count("\n") == 1 and "manifest.json" in said
    for out in ("killed", "whole"):
        process = start("prepare", slow_input, "--out", tmp_path / out, *OPTIONS)
        assert process.wait() == 0, process.communicate()
    assert pure(killed) == pure(tmp_path / "whole") and len(pure(killed)) > 100


def test_a_second_run_on_a_folder_is_told_of_the_first(start: Start, slow_input: Path, tmp_path: Path) -> None:
    first = start("prepare", slow_input, "--out", tmp_path / "out", *OPTIONS)
    wait_for(tmp_path / "out" / "train" / "shard-00000.bin", first)
    os.kill(first.pid, signal.SIGSTOP)
    second = start("prepare", slow_input, "--out", tmp_path / "out", *OPTIONS, "--overwrite")
    _, said = second.communicate()
    os.kill(first.pid, signal.SIGCONT)
    assert second.returncode == 2 and "Another run is writing" in said
    assert first.wait() == 0, first.communicate()
    assert gm.open(tmp_path / "out").num_documents > 1000


def test_an_interrupt_is_one_word_and_leaves_no_temporary_file(start: Start, slow_input: Path, tmp_path: Path) -> None:
    process = start("prepare", slow_input, "--out", tmp_path / "out", *OPTIONS)
    wait_for(tmp_path / "out" / "train" / "shard-00000.bin", process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130 and said.endswith("gristmill: interrupted\n") and "Traceback" not in said
    assert not list((tmp_path / "out").rglob("*.tmp")) and not (tmp_path / "out" / "manifest.json").exists()
