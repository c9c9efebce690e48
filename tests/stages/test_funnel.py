"""The tally of jobs: rows of the funnel, notes and warnings."""

from __future__ import annotations

from typing import Any

import pytest

from gristmill.stages.funnel import Tally

READ: dict[str, Any] = {
    "after": {"read": [10, 1000], "length": [6, 900]}, "reasons": {"length": {"too_few_chars": 4}}, "unreadable": 3,
    "damaged": [1, ["a.jsonl is bad."]], "empty": [30, [f"{i}.txt" for i in range(20)]], "ignored": 2,
    "carried": {"url": 0, "lang": 5},
}  # fmt: skip
ENCODED: dict[str, Any] = {
    "after": {"tokenize": [6, 900]}, "reasons": {"tokenize": {}}, "tokens_dropped": {"length": 40},
    "splits": {"train": {"documents": 5, "bytes": 800, "tokens": 80},
               "val": {"documents": 1, "bytes": 100, "tokens": 10}},
}  # fmt: skip


@pytest.fixture
def tally() -> Tally:
    made = Tally(["web", "books"])
    for facts in (READ, ENCODED):
        made.add("web", facts)
    return made


def test_each_step_has_a_row_with_what_came_in_and_what_it_left(tally: Tally) -> None:
    rows = {row["stage"]: row for row in tally.rows()}
    assert list(rows) == ["unreadable", "read", "length", "tokenize", "train", "val"]
    assert rows["unreadable"] == {"stage": "unreadable", "source": "web", "documents": 3}
    assert rows["length"] == {
        "stage": "length", "source": "web", "documents_in": 10, "bytes_in": 1000, "tokens_in": 130, "documents": 6,
        "bytes": 900, "tokens": 90, "reasons": {"too_few_chars": 4},
    }  # fmt: skip
    assert rows["train"] == {"stage": "train", "source": "web", "documents": 5, "bytes": 800, "tokens": 80}


def test_units_add_up_and_sources_stay_apart(tally: Tally) -> None:
    tally.add("web", ENCODED)
    tally.add("books", ENCODED)
    assert (tally.left("web", "tokens"), tally.left("books", "documents")) == (180, 6)
    assert tally.tokens("train") == 240 and tally.tokens("val") == 30 and tally.dropped == 4


def test_what_is_left_in_the_end_takes_the_place_of_the_splits(tally: Tally) -> None:
    tally.end([{"stage": "mix", "source": "web", "documents": 9, "bytes": 9, "tokens": 9, "times": 1.5}],
              [{"source": "web", "split": "train", "documents": 9, "bytes": 9, "tokens": 9}])  # fmt: skip
    assert [row["stage"] for row in tally.rows()][-2:] == ["mix", "train"] and tally.rows()[-1]["documents"] == 9


def test_notes_name_files_and_fields_and_warnings_name_rules(tally: Tally) -> None:
    tally.add("web", {**READ, "damaged": [40, [f"{i}.jsonl is bad." for i in range(20)]]})
    damaged, empty, ignored, field = tally.notes(100)
    assert damaged.startswith("6 documents could not be read") and damaged.endswith("; and 21 more files")
    assert empty == f"Of the 100 input files 60 hold nothing (0 bytes): {', '.join(READ['empty'][1])}, ...."
    assert ignored.startswith("4 members of tar files") and "'url'" in field and tally.empty == 60
    assert tally.warnings(["length", "tokenize", "other"]) == ["The rule 'tokenize' never fired on 6 documents."]
    tally.add("web", {"after": {"length": [0, 0]}, "reasons": {"length": {"too_few_chars": 90}}})
    assert tally.warnings(["length"]) == ["The rule 'length' dropped 98 of 110 documents (89%)."]
