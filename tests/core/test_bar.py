"""What long work shows: a bar on a terminal, plain lines in a log, and the figures that close a command."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from gristmill.core.bar import Bar
from gristmill.core.sizes import mega

WORK = """
from gristmill.core.bar import Bar
with Bar({options}) as bar:
    bar.start("reading and filtering", 48_000_000)
    bar.advance(12_000_000)
    bar.advance(36_000_000)
    bar.start("finding near duplicates", 0)
    bar.start("writing shards", 3, "shards")
    bar.advance(2)
    bar.note("something")
"""


def test_a_log_gets_plain_lines_in_megabytes(capsys: pytest.CaptureFixture[str]) -> None:
    exec(WORK.format(options="log_seconds=0"))
    said = capsys.readouterr().err
    assert re.search(r"^reading and filtering: 12\.0 of 48\.0 MB, 25%, [\d,.]+ MB/s$", said, re.MULTILINE)
    assert re.search(r"^finding near duplicates: 0 s$", said, re.MULTILINE)
    assert "writing shards: 2 of 3 shards, 67%\n" in said and "\x1b" not in said


def test_a_log_is_sparse(capsys: pytest.CaptureFixture[str]) -> None:
    exec(WORK.format(options=""))
    assert capsys.readouterr().err == "note: something\n"


def test_who_asks_for_quiet_gets_the_notes_alone(capsys: pytest.CaptureFixture[str]) -> None:
    exec(WORK.format(options="quiet=True, log_seconds=0"))
    assert capsys.readouterr().err == "note: something\n"


def test_a_terminal_of_80_columns_gets_a_bar_in_megabytes_on_one_line() -> None:
    ours, theirs = pty.openpty()
    code = WORK.format(options="").replace("bar.advance(36", "bar._live.refresh(); bar.advance(36")
    place = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    child = subprocess.Popen([sys.executable, "-c", code], stderr=theirs, env=place)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
    assert child.wait() == 0
    lines = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.decode()).replace("\r", "\n").splitlines()
    assert any("reading and filtering" in line and "12.0 of 48.0 MB" in line for line in lines), lines
    assert max(map(len, lines)) <= 80


def test_small_sizes_are_figures_too() -> None:
    assert [mega(size) for size in (0, 999, 1000, 12_345, 949_999, 1_500_000, 12_345_678_901)] == [
        "0", "<0.001", "0.001", "0.012", "0.95", "1.5", "12,345.7"
    ]  # fmt: skip


def test_a_command_closes_by_the_bytes_that_its_first_work_read() -> None:
    with Bar(quiet=True) as bar:
        assert (bar.read, bar.seconds >= 0) == (0, True)
        bar.start("checking ids", 0)
        bar.start("reading", 10)
        bar.advance(7)
        bar.start("writing", 99)
        bar.advance(99)
        assert bar.read == 7


def test_a_log_tells_of_documents_once_they_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar(log_seconds=0) as bar:
        bar.start("reading", 10)
        bar.count(3, 4)
        bar.count(-1, 0)
        bar.advance(5)
    assert re.search(r"; 2 of 4 documents kept, [\d,.]+ MB of memory$", capsys.readouterr().err, re.MULTILINE)


PICTURE = """
from gristmill.core import bar as picture
picture._WORTH_SECONDS = 0
with picture.Bar() as bar:
    bar.start("reading and filtering", 48_000_000)
    bar.count(900, 1000)
    bar.advance(48_000_000)
    bar.start("writing shards", 3, "shards")
    bar.advance(2)
    bar._live.refresh()
"""


def test_a_terminal_keeps_what_is_done_above_what_is_at_work_and_documents_below() -> None:
    ours, theirs = pty.openpty()
    place = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    child = subprocess.Popen([sys.executable, "-c", PICTURE], stderr=theirs, env=place)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
    assert child.wait() == 0
    lines = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.decode()).replace("\r", "\n").split("\n")
    last = [line for line in lines if line.strip()][-3:]
    assert "reading and filtering" in last[0] and "48.0 of 48.0 MB" in last[0]
    assert "writing shards" in last[1] and "2 of 3 shards" in last[1]
    assert re.fullmatch(r"900 of 1,000 documents kept, [\d,.]+ MB of memory", last[2].strip())
