"""The order read both ways: the documents of a step, and the steps of a document."""

import pytest

import gristmill as gm
from gristmill.testing import tiny_store

DOCUMENTS = [[1] * 7, [2] * 3, [3] * 11, [4] * 6]


@pytest.fixture
def plan(tmp_path):
    options = gm.PlanOptions(shuffle=False, exclude=[gm.Exclude("part-0:2", from_step=1)])
    return gm.Plan(tiny_store(tmp_path, DOCUMENTS, shards=1), seq_len=8, batch_size=1, options=options)


def test_a_row_names_each_document_that_it_holds_with_its_positions(plan):
    rows = [(row.doc_id, row.start, row.end) for step in range(3) for row in plan.trace(step)]
    assert rows == [("part-0:0", 0, 8), ("part-0:1", 0, 4), ("part-0:2", 0, 4), ("part-0:2", 4, 12)]


def test_what_is_excluded_says_so_from_its_step_on(plan):
    assert [row.excluded for row in plan.trace(1)] == [False, True]
    assert plan.trace(1)[1]["excluded"] is True and plan.trace(0)[0]["source"] == "data"


def test_a_document_is_found_in_the_steps_that_show_it(plan):
    assert [(seen.step, seen.row, seen.epoch) for seen in plan.find("part-0:2")] == [(1, 0, 0), (2, 0, 0)]
    assert plan.find("part-0:2", until=2) == plan.find("part-0:2")[:1]
    assert plan.find("part-0:3") == []  # the tail fills no sequence


def test_what_is_nowhere_and_what_has_no_end_are_refused(plan, tmp_path):
    with pytest.raises(gm.ConfigError, match="'x' is in none of the sources data"):
        plan.find("x")
    other = tiny_store(tmp_path / "b", DOCUMENTS)
    endless = gm.Plan({"a": other, "b": tiny_store(tmp_path / "c", DOCUMENTS)}, seq_len=8, batch_size=1)
    with pytest.raises(gm.ConfigError, match=r"say find\(doc_id, until=STEP\)"):
        endless.find("part-0:0")
