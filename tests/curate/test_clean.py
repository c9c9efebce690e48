"""Cleaning against its definition, written out slowly with Python's own strings."""

from __future__ import annotations

import itertools
import pydoc_data.topics
import re
import sys
import unicodedata
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.curate.clean import CleanOptions, clean, fix_encoding
from gristmill.curate.documents import Documents

BREAKS = "\n\v\f\r\x85\u2028\u2029"
BLANKS = "\t" + "".join(chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Zs")
# Compose, reorder, are excluded from composition, expand, melt in Hangul; are removed, are blank, end lines, stay.
NASTY = (
    "aeA\u0300\u0301\u0308\u0323\u0327\u0338<>=\u0344\u0958\u0915\u093c\u1100\u1161\u11a8\uac00\u0bc6\u0bbe\u0b92\u0bd7"
    "\u1e9b\ufb01\u00bd\u2126\u212b\u2000\uff21\u0340\u0653\u0627\ufb1d\u05d9\u05b4\U0001d15e\U0001109b\U000110ba\U00011099"
    "\x00\x07\x1b\x7f\x80\x9f\ufeff\ufffe\ufdd0\U0001ffff\u200b\u200d\u00ad\ue000\ufffd"
    " \t\u00a0\u3000\u2003\n\r\v\f\x85\u2028\u2029"
)
TEXTS = st.lists(st.text(st.sampled_from(NASTY) | st.characters(exclude_categories=["Cs"])), max_size=4)
STEPS = [
    CleanOptions(unicode=form, control=control, line_ends=line_ends, whitespace=whitespace)
    for form, (control, line_ends, whitespace) in itertools.product(
        ("nfc", "nfkc", "none"), itertools.product((True, False), repeat=3)
    )
]


def documents(texts: Sequence[str]) -> Documents:
    return Documents(pa.record_batch({"text": pa.array(texts, pa.large_string())}))


def strings(batch: Documents) -> list[str]:
    return [batch.string(row) for row in range(len(batch))]


def cleaned(texts: Sequence[str], options: CleanOptions) -> list[str]:
    return strings(clean(documents(texts), options).documents)


def is_control(character: str) -> bool:
    code = ord(character)
    nonchar = 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE
    kept = character == "\t" or character in BREAKS
    return (unicodedata.category(character) == "Cc" and not kept) or nonchar or character == "\ufeff"


def reference(text: str, options: CleanOptions) -> str:
    if options.line_ends:
        text = re.sub(f"\r\n|[{BREAKS}]", "\n", text)
    if options.control:
        text = "".join(character for character in text if not is_control(character))
    if options.unicode != "none":
        text = unicodedata.normalize(options.unicode.upper(), text)
    if options.whitespace:
        text = re.sub(f"[{BLANKS}]+(?=[{BREAKS}])", "", text).rstrip(BLANKS + BREAKS)
    return text


@given(TEXTS, st.sampled_from(STEPS))
@settings(max_examples=600, deadline=None)
@example(["e\x00\u0301", "a \x00\n", "\r\x00\n", "\u00a8 \n", "\u1100\x01\u1161"], STEPS[0])
@example(["x" * 300 + " \n", "x" * 127 + "é" + "x" * 200, "x" * 126 + "e\u0301", " ", "", "\n"], STEPS[0])
def test_cleaning_is_its_definition_and_a_second_one_changes_nothing(texts: list[str], options: CleanOptions) -> None:
    once = clean(documents(texts), options)
    assert strings(once.documents) == [reference(text, options) for text in texts]
    assert clean(once.documents, options).documents is once.documents


@given(st.lists(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6).map("".join), st.data())
@settings(max_examples=300, deadline=None)
def test_normal_forms_hold_across_the_blocks_of_the_compiled_scan(text: str, data: st.DataObject) -> None:
    padded = "x" * data.draw(st.integers(120, 136)) + text + "y" * data.draw(st.integers(0, 200))
    for form in ("nfc", "nfkc"):
        options = CleanOptions(unicode=form, control=False, line_ends=False, whitespace=False)
        assert cleaned([padded], options) == [unicodedata.normalize(form.upper(), padded)]


@pytest.mark.parametrize("form", ["nfc", "nfkc"])
def test_every_character_and_every_mark_after_it_gets_its_normal_form(form: str) -> None:
    options = CleanOptions(unicode=form, control=False, line_ends=False, whitespace=False)
    every = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    marks = [character for character in every if unicodedata.combining(character)] + ["\u1161", "\u11a8", "\u0bbe"]
    letters = [
        "e",
        "<",
        "\u1100",
        "\uac00",
        *[character for character in every if unicodedata.decomposition(character)][::7],
    ]
    texts = every + [letter + mark for letter in letters for mark in marks[::31]]
    assert cleaned(texts, options) == [unicodedata.normalize(form.upper(), text) for text in texts]


def test_clean_text_is_not_copied_and_indentation_stays() -> None:
    batch = documents([text.rstrip() for text in pydoc_data.topics.topics.values()])
    once = clean(batch, CleanOptions())
    assert clean(once.documents, CleanOptions()).documents is once.documents
    code = "def f(x):\n\n\n    if x:\n\t\treturn  1"
    assert cleaned([code], CleanOptions()) == [code]


def test_the_account_names_each_step_and_the_documents_that_it_changed() -> None:
    texts = ["fine", "a\r\nb", "a\x07b", "e\u0301", "blank \nb", "end\n\n", "\r\n\x07e\u0301 \n"]
    result = clean(documents(texts), CleanOptions())
    assert strings(result.documents) == ["fine", "a\nb", "ab", "é", "blank\nb", "end", "\né"]
    assert result.counts == {"line_ends": 2, "control": 2, "unicode": 2, "whitespace": 3}
    assert result.changed["whitespace"].tolist() == [False, False, False, False, True, True, True]


def test_a_slice_of_a_batch_cleans_as_the_whole_does() -> None:
    texts = ["a \n", "b\r\n", "c\x07", "d", "e\u0301 "]
    batch = documents(texts).batch
    assert strings(clean(Documents(batch.slice(1, 3)), CleanOptions()).documents) == ["b", "c", "d"]


def test_an_empty_batch_and_empty_documents_stay() -> None:
    for texts in ([], ["", ""]):
        batch = documents(texts)
        assert clean(batch, CleanOptions(redact=["email", "ip", "phone"])).documents is batch


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"unicode": "nfd"}, "unicode"),
        ({"control": "yes"}, "control is true or false"),
        ({"redact": ["e-mail"]}, "did you mean 'email'"),
        ({"redact": "email"}, "a list such as"),
        ({"redact": {"email": ""}}, "placeholder for email"),
        ({"redact": ["phone"], "redact_variant": "datatrove"}, "phone"),
        ({"redact_variant": "dolma"}, "redact_variant"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        CleanOptions(**options)  # type: ignore[arg-type]


class TestFtfy:
    """Mojibake repair: skipped where ftfy is not installed."""

    def test_mojibake_is_repaired_and_nothing_else_that_ftfy_would_change(self) -> None:
        texts = ["schÃ¶n", "&amp; “quotes” ﬁ Ａ", "plain"]
        result = clean(documents(texts), CleanOptions(ftfy=True))
        assert strings(result.documents) == ["schön", *texts[1:]]
        assert result.counts == {"ftfy": 1}

    @given(st.text(st.characters(max_codepoint=127)))
    @settings(deadline=None)
    def test_ftfy_leaves_ascii_alone_so_that_it_is_passed_over(self, text: str) -> None:
        assert fix_encoding(text) == text

    @given(
        st.lists(st.text(st.sampled_from("aÃ©¶â€œ\x9d\x85\x80Â\u00a0Ð°\x00\r\n \u0301Ãƒ¢â‚¬™&lt;?\ufffd")), max_size=3)
    )
    @settings(max_examples=300, deadline=None)
    def test_a_second_cleaning_changes_nothing(self, texts: list[str]) -> None:
        once = clean(documents(texts), CleanOptions(ftfy=True))
        assert clean(once.documents, CleanOptions(ftfy=True)).documents is once.documents

    def test_what_a_control_character_kept_apart_is_repaired_too(self) -> None:
        assert cleaned(["sch\u00c3\x07\u00b6n"], CleanOptions(ftfy=True)) == ["schön"]
