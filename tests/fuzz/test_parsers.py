"""Every parser on damaged input: a GristmillError or a right answer, no other exception, no signal, no hang."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _load_harness() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_harness", Path(__file__).with_name("harness.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


harness = _load_harness()


@pytest.mark.parametrize("target", harness.target_names())
def test_a_damaged_input_is_refused_or_read_and_nothing_else(target: str, soak: bool, record: Path | None) -> None:
    outcome = harness.fuzz(target, soak=soak)
    if record:
        (record / f"fuzz-{target}.json").write_text(json.dumps(vars(outcome), indent=1) + "\n")
    assert not outcome.failures, outcome.kinds
    assert outcome.read and outcome.cases >= len(harness.load_target(target).seeds())


def test_the_harness_sees_exceptions_signals_hangs_and_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fuzzer that finds nothing must be one that could have found something."""
    harness_file = tmp_path / "harness.py"
    harness_file.write_text(Path(harness.__file__).read_text())
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "bad.py").write_text(BAD)
    monkeypatch.setattr(harness, "__file__", str(harness_file))
    monkeypatch.setattr(harness, "TARGETS", tmp_path / "targets")
    outcome = harness.fuzz("bad", 6)
    assert (outcome.cases, outcome.read, outcome.refused) == (6, 1, 1)
    said = "\n".join(outcome.failures)
    assert all(word in said for word in ("ZeroDivisionError", "SIGSEGV", "took too long", "MemoryError")), said


BAD = """
import os, signal, time
from gristmill.core.errors import SourceError
SECONDS, MEMORY = 1.0, 1 << 28
def seeds(): return [b"fine", b"refused", b"error", b"signal", b"hang", b"memory"]
def attempt(data, folder):
    if data == b"refused": raise SourceError("no")
    if data == b"error": 1 / 0
    if data == b"signal": os.kill(os.getpid(), signal.SIGSEGV)
    if data == b"hang": time.sleep(60)
    if data == b"memory": bytearray(1 << 31)
"""
