from __future__ import annotations

import pytest

from gristmill.figures.evidence import offending


@pytest.mark.parametrize(
    ("reason", "detail", "text", "parts"),
    [
        ("profanity", "darn it", "Well, Darn  it! Darn it.", ["Darn  it", "Darn it"]),
        ("contaminated", "mmlu/3: the mill grinds", "So the mill, grinds on", ["the mill, grinds"]),
        ("dup_line_frac", None, "one\ntwo\none\n\none", ["one", "one"]),
        ("dup_para_char_frac", None, "a\nb\n\nc\n\na\nb", ["a\nb"]),
        ("char_dup_ratio", None, "one\none", ["one"]),
        ("top_2_gram", None, "a b c a b", ["a b"]),
        ("duplicated_5_n_grams", None, "a b c d e. A b c d e f", ["A b c d e"]),
        ("gopher_too_many_bullets", None, "- one\ntwo\n* three", ["- one", "* three"]),
        ("gopher_too_many_end_ellipsis", None, "one...\ntwo\nthree…", ["one...", "three…"]),
        ("gopher_too_many_hashes", None, "a # b ##", ["#", "#", "#"]),
        ("short_line_ratio", None, "short\n" + "long " * 10, ["short"]),
        ("curly_bracket", None, "f() { }", ["{", "}"]),
        ("long_line", None, "ab\nabcd\na", ["abcd"]),
        ("too_few_chars", None, "short", []),
        ("near_duplicate", "d7", "any text", []),
    ],
)
def test_the_part_for_which_a_text_went_is_found(reason: str, detail: str | None, text: str, parts: list[str]) -> None:
    assert [text[begin:end] for begin, end in offending(reason, detail, text)] == parts


def test_marks_are_few() -> None:
    assert len(offending("gopher_too_many_hashes", None, "#" * 10_000)) == 40
