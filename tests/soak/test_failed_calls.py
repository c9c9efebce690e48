"""System calls that fail: a sentence or the right bytes, never a signal; and the next run gives the right bytes."""

from __future__ import annotations

import errno
import json
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ERRORS = {
    "open": (errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOSPC), "read": (errno.EIO,), "mmap": (errno.ENOMEM,),
    "write": (errno.ENOSPC, errno.EIO), "sync": (errno.EIO, errno.ENOSPC), "rename": (errno.ENOSPC, errno.EIO),
    "memory": (errno.ENOMEM,), "reserve": (errno.ENOSPC,),
}  # fmt: skip
Command = Callable[[Path], list[object]]
Whole = tuple[Command, dict[str, bytes]]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`failing_calls.c`, compiled; where there is no compiler, the tests that need it cannot run."""
    made = tmp_path_factory.mktemp("library") / "failing_calls.so"
    source = Path(__file__).with_name("failing_calls.c")
    try:
        subprocess.run(["cc", "-O1", "-fPIC", "-shared", "-o", made, source, "-ldl"], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no C compiler here")
    return made


def cases(count: int) -> Iterator[tuple[str, dict[str, object]]]:
    rng = random.Random(5)
    for _ in range(count):
        call = rng.choice(list(ERRORS))
        at = int(rng.choice((rng.uniform(1, 20), 10 ** rng.uniform(0, 3))))
        failing = {"FAIL_CALL": call, "FAIL_AT": at, "FAIL_ERRNO": rng.choice(ERRORS[call])}
        name = rng.choice(("prepare", "prepare", "index", "export", "import", "join"))
        yield name, {**failing, "FAIL_FOR": rng.choice((1, 1, 3, 10**6))}


@pytest.fixture
def check(run: Any, content: Any, library: Path) -> Callable[[Whole, dict[str, object], Path], str]:
    """`check(whole, failing, out)`: how it ended, `untouched` where no call failed."""

    def checked(whole: Whole, failing: dict[str, object], out: Path) -> str:
        (command, expected), mark = whole, out.with_suffix(".mark")
        ended = run(command(out), LD_PRELOAD=library, FAIL_UNDER=out, FAIL_MARK=mark, **failing)
        where = f"{failing}: {ended.returncode} {ended.stderr}"
        if ended.returncode == 0:
            assert content(out) == expected, where
            return "finished" if mark.exists() else "untouched"
        said = [line for line in ended.stderr.splitlines() if line.startswith("gristmill: ")]
        assert ended.returncode > 0 and len(said) == 1 and "Traceback" not in ended.stderr, where
        again = run([*command(out), *(["--overwrite"] if (out / "manifest.json").exists() else [])])
        assert again.returncode == 0 and content(out) == expected, f"{where} and again: {again.stderr}"
        return "refused"

    return checked


def test_a_call_that_fails_is_a_sentence_or_harmless_and_the_next_run_gives_the_right_bytes(
    check: Any, commands: dict[str, Whole], place: Path, soak: bool, record: Path | None
) -> None:
    tried = enumerate(cases(400 if soak else 3))
    ends = [check(commands[name], failing, place / f"failed-{number}") for number, (name, failing) in tried]
    if record:
        (record / "failed-calls.json").write_text(json.dumps(Counter(ends)) + "\n")
    assert ends.count("refused") + ends.count("finished") > len(ends) / 4, ends
