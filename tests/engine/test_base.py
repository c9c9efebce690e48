"""The seam: what an engine is, and which of them a run may name."""

from __future__ import annotations

import importlib
from pathlib import Path

from gristmill.engine import ENGINES, make_engine
from gristmill.engine.base import Engine, Means, part_of


def test_this_machine_is_an_engine_with_and_without_processes(tmp_path: Path) -> None:
    for workers in (1, 2):
        engine = make_engine("local", Means(workers, 1 << 28, tmp_path))
        assert isinstance(engine, Engine)
        engine.close()


def test_every_engine_that_a_run_may_name_has_a_function_that_makes_it() -> None:
    for where in ENGINES.values():
        module, _, function = where.partition(":")
        assert callable(getattr(importlib.import_module(f"gristmill.engine.{module}"), function))


def test_an_object_that_only_maps_is_no_engine() -> None:
    assert not isinstance(map, Engine) and not isinstance("local", Engine)


def test_files_of_one_query_lie_beside_each_other_in_order() -> None:
    parts = [part_of(Path("work/exact/00000000.parquet"), i) for i in (0, 9, 10)]
    assert [path.name for path in parts] == sorted(path.name for path in parts)
    assert parts[1] == Path("work/exact/00000000-00009.parquet")
