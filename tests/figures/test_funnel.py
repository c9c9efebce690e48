"""The funnel of a manifest, summed over sources."""

from __future__ import annotations

from gristmill.figures.funnel import SourcePart, sum_up
from gristmill.store.manifest import FunnelRow


def row(stage: str, source: str, documents: int, **reasons: int) -> FunnelRow:
    """Ten bytes and two tokens a document."""
    return {"stage": stage, "source": source, "documents": documents, "bytes": 10 * documents,
            "tokens": 2 * documents, "reasons": reasons}  # fmt: skip


ROWS = [
    {"stage": "unreadable", "source": "web", "documents": 3},
    row("read", "web", 90), row("read", "books", 10),
    row("length", "web", 60, short=20, long=10), row("length", "books", 9, short=1),
    row("c4", "web", 60), row("c4", "books", 9),
    {"stage": "mix", "source": "web", "documents": 69, "bytes": 690, "tokens": 138, "times": 1.15},
    row("train", "web", 50), row("train", "books", 9), row("val", "web", 10),
]  # fmt: skip


def test_a_step_adds_up_its_sources_and_says_what_it_kept_of_what_it_saw() -> None:
    steps = {step.name: step for step in sum_up(ROWS).steps}
    length = steps["length"]
    assert (length.documents, length.bytes, length.tokens, length.kept) == (69, 690, 138, (69, 100))
    assert length.reasons == {"short": 21, "long": 10}
    assert steps["read"].kept is None and steps["unreadable"].documents == 3
    assert steps["mix"].times == {"web": 1.15}


def test_a_split_is_a_share_of_the_tokens_of_all_splits() -> None:
    steps = {step.name: step for step in sum_up(ROWS).steps}
    assert steps["train"].kept == (118, 138) and steps["val"].kept == (20, 138)


def test_rules_that_dropped_nothing_are_named_apart_and_the_first_step_is_none_of_them() -> None:
    funnel = sum_up(ROWS)
    assert funnel.idle == ["c4"]
    assert [step.name for step in funnel.steps] == ["unreadable", "read", "length", "mix", "train", "val"]


def test_documents_kept_in_all_are_those_after_the_last_rule_of_those_read() -> None:
    assert sum_up(ROWS).kept == (69, 100)


def test_a_source_has_what_was_read_of_it_what_is_left_and_its_tokens() -> None:
    assert sum_up(ROWS).sources == [SourcePart("web", 90, 60, 120), SourcePart("books", 10, 9, 18)]


def test_a_store_of_tokens_alone_has_splits_and_no_rules() -> None:
    funnel = sum_up([{"stage": "train", "source": "import", "documents": 4, "tokens": 9}])
    assert funnel.kept is None and funnel.steps[0].bytes == 0 and funnel.steps[0].kept == (9, 9)
    assert sum_up([]).steps == []
