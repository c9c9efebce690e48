"""Entries by their names: which of them have their code kept."""

from __future__ import annotations

import pytest

from gristmill.core.kept_entries import code_name, entries, missing_code


def test_entries_are_found_in_every_way_in_which_they_are_written() -> None:
    from gristmill.curate.dedup import line_kernels, shingle_kernels

    for module in (line_kernels, shingle_kernels):
        made = {name for name, value in vars(module).items() if type(value).__name__ == "CPUDispatcher"}
        own = {name for name in made if getattr(module, name).__module__ == module.__name__}
        assert set(entries(module.__name__)) == own
        assert missing_code([module.__name__]) == []


def test_for_a_debugger_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert missing_code(["gristmill.core.kernels.texts"]) == []


def test_a_name_tells_module_function_and_machine() -> None:
    module, function, machine = code_name("gristmill.kernel", "run").rsplit(".", 2)
    assert (module, function) == ("gristmill.kernel", "run") and len(machine) == 16
    assert code_name("gristmill.kernel", "other").endswith(machine)
