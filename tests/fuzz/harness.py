"""Damaged inputs by the thousand, each tried in a process that may die of it.

A target is a module in `targets/` with

    def seeds() -> list[bytes]                        a good input first, then others and the bad ones once found
    def attempt(data: bytes, folder: Path) -> None    hand `data` to the parser; assert what is known of its answer

and, where random changes of bytes rarely get past a parser's first line, `mutate(rng, seeds) -> bytes` of its own.
`CASES = (quick, soak)` says how many cases `make test` and `make soak` try, `SECONDS` how long one case may take and
`MEMORY` by how many bytes a process may grow. The folder is empty at the start of a process and shared by its cases.

A case is a pure function of (target, seed, number): the first ones are the seeds as they stand. It passes if `attempt`
returns or raises a GristmillError. Any other exception, a signal, a case that takes too long and memory beyond the
bound are failures, told with the number that makes them again:

    python tests/fuzz/harness.py jsonl 1234           try one case here, with its traceback
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

TARGETS = Path(__file__).parent / "targets"
SEED = 20_261_116
SECONDS, MEMORY, CASES = 10.0, 1 << 30, (300, 100_000)
_MAX_FAILURES = 20
_NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1)


@dataclass
class Outcome:
    """What became of the cases of one target."""

    target: str
    cases: int = 0
    read: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)


def load_target(name: str) -> ModuleType:
    """The module of a target, by its file; what several share is in modules that begin with `_`."""
    sys.path.extend({str(TARGETS), str(TARGETS.parent)} - set(sys.path))
    spec = importlib.util.spec_from_file_location(f"fuzz_{name}", TARGETS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def target_names() -> list[str]:
    """All targets."""
    return sorted(path.stem for path in TARGETS.glob("*.py") if not path.stem.startswith("_"))


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with one to four changes."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        _change(rng, data, seeds)
    return bytes(data)


def _change(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    at, end = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
    short = min(end, at + 64)
    match rng.randrange(9):
        case 0 if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 1 if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
        case 2:
            del data[at:]
        case 3:
            del data[at:short]
        case 4:
            data[at:at] = data[at:short]
        case 5:
            other = rng.choice(seeds)
            data[at:] = other[rng.randint(0, len(other)) :]
        case 6:
            data[at:at] = rng.randbytes(rng.randint(1, 16))
        case 7:
            width = rng.choice((1, 2, 4, 8))
            number = rng.choice(_NUMBERS) & ((1 << 8 * width) - 1)
            data[at : at + width] = number.to_bytes(width, rng.choice(("little", "big")))
        case 8:
            data[at:at] = str(rng.choice((-1, *_NUMBERS, 10**400))).encode()


def case(target: ModuleType, name: str, seed: int, number: int) -> bytes:
    """The input of one case."""
    seeds = _kept_seeds(target)
    if number < len(seeds):
        return seeds[number]
    return getattr(target, "mutate", mutate)(random.Random(f"{name}:{seed}:{number}"), seeds)


def _kept_seeds(target: ModuleType) -> list[bytes]:
    if not hasattr(target, "_kept_seeds"):
        target._kept_seeds = target.seeds()  # type: ignore[attr-defined]
    return target._kept_seeds  # type: ignore[no-any-return]


# The process that tries cases


def _serve(name: str, seed: int, first: int, last: int, where: str) -> None:
    """Try cases [first, last): the log has a line for each, its number before it is tried and then how it ended."""
    import resource

    from gristmill.core.errors import GristmillError

    target = load_target(name)
    with open(where, "ab", buffering=0) as log, tempfile.TemporaryDirectory() as folder:
        target.attempt(_kept_seeds(target)[0], Path(folder))  # what importing the parser maps is not the input's doing
        limit = _mapped() + getattr(target, "MEMORY", MEMORY)
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        for number in range(first, last):
            data = case(target, name, seed, number)
            log.write(b"%d " % number)
            log.write(_try(target, data, Path(folder), GristmillError).encode(errors="replace") + b"\n")


def _try(target: ModuleType, data: bytes, folder: Path, ours: type[Exception]) -> str:
    try:
        target.attempt(data, folder)
    except ours:
        return "refused"
    except BaseException as error:
        said = traceback.format_exception_only(error)[-1].strip().splitlines() or [""]
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {said[0][:200]}"
    return "read"


def _mapped() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


# The process that watches


def fuzz(name: str, cases: int | None = None, *, seed: int = SEED, soak: bool = False) -> Outcome:
    """Try a target's cases; a process that dies or hangs is a failure, and the next begins behind that case."""
    target = load_target(name)
    total = cases or getattr(target, "CASES", CASES)[soak]
    outcome, first = Outcome(name), 0
    while first < total and len(outcome.failures) < _MAX_FAILURES:
        first = _round(outcome, target, seed, first, total)
    outcome.kinds = dict(Counter(failure.partition(": ")[2] for failure in outcome.failures).most_common())
    return outcome


def _round(outcome: Outcome, target: ModuleType, seed: int, first: int, last: int) -> int:
    """Run one process until it ends or is stuck; where the next one begins."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        log.touch()
        command = [sys.executable, __file__, "--serve", outcome.target, str(seed), str(first), str(last), str(log)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)  # fmt: skip
        stuck = _wait(process, log, getattr(target, "SECONDS", SECONDS))
        said = process.communicate()[1]
        lines = log.read_text().splitlines()
    done = [line.partition(" ") for line in lines]
    for number, _, kind in done:
        if kind:
            _count(outcome, int(number), kind)
    if done and not done[-1][2]:
        _count(outcome, int(done[-1][0]), "took too long" if stuck else f"died: {_how(process.returncode)}")
    elif process.returncode:
        raise RuntimeError(f"The target {outcome.target} cannot be tried: {said[-2000:]}")
    return int(done[-1][0]) + 1 if done else last


def _wait(process: subprocess.Popen[str], log: Path, seconds: float) -> bool:
    """Wait for the end of a process; one whose log stands still for `seconds` (and its start-up, 60) is killed."""
    size, since = 0, time.monotonic() + 60
    while process.poll() is None:
        time.sleep(0.05)
        if (now := log.stat().st_size) != size:
            size, since = now, time.monotonic()
        elif time.monotonic() - since > seconds:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return True
    return False


def _count(outcome: Outcome, number: int, kind: str) -> None:
    outcome.cases += 1
    if kind in ("read", "refused"):
        setattr(outcome, kind, getattr(outcome, kind) + 1)
    else:
        outcome.failures.append(f"case {number}: {kind}")


def _how(code: int | None) -> str:
    return signal.Signals(-code).name if code and code < 0 else f"exit {code}"


def main(arguments: list[str]) -> Any:
    if arguments[0] == "--serve":
        name, seed, first, last, log = arguments[1:]
        return _serve(name, int(seed), int(first), int(last), log)
    target = load_target(arguments[0])
    if len(arguments) > 1:
        data = case(target, arguments[0], SEED, int(arguments[1]))
        print(len(data), data[:200])
        with tempfile.TemporaryDirectory() as folder:
            return target.attempt(data, Path(folder))
    return print(json.dumps(vars(fuzz(arguments[0])), indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
