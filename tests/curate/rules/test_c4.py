"""C4: every step of the edit by itself, and the whole against a plain Python reading of the reference."""

from __future__ import annotations

import pydoc_data.topics
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.curate.documents import Documents
from gristmill.curate.rules.c4 import C4, C4Paragraph

TOPICS = [text for text in pydoc_data.topics.topics.values() if len(text) > 500]
POLICIES = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")
ANY = C4(min_sentences=0)


def one(rule: C4, documents: Documents) -> str | None:
    """The text of the only document after the rule, or None if it is dropped."""
    verdict = rule.judge(documents)
    return verdict.documents.string(0) if verdict.kept[0] else None


def reference(text: str) -> tuple[str | None, str]:
    """The reason to drop a page, and its text, without the count of sentences."""
    kept = []
    for line in map(str.strip, text.splitlines()):
        if any(len(word) > 1000 for word in line.split()):
            continue
        line = re.sub(r"\[\d*\]|\[edit\]|\[citation needed\]", "", line)
        if not line.endswith((".", "?", "!", '"')) or line.endswith("...") or len(line.split()) < 5:
            continue
        if "lorem ipsum" in line.lower():
            return "lorem_ipsum", ""
        if "javascript" in line.lower():
            continue
        if "{" in line:
            return "curly_bracket", ""
        if not any(policy in line.lower() for policy in POLICIES):
            kept.append(line)
    return None, "\n".join(kept).strip()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("This line ends as it should.\nThis one does not\n", "This line ends as it should."),
        (
            'Is this a line here?\nYes, it is a line!\nHe said it is "so"',
            'Is this a line here?\nYes, it is a line!\nHe said it is "so"',
        ),
        ("And so it went on...\n", ""),
        ("Four words are few.", ""),
        ("Cited [1] in many [23] places[citation needed] by[edit] us [] all.", "Cited  in many  places by us  all."),
        ("[1] A text does not begin with white space.", "A text does not begin with white space."),
        ("This [x] is no citation [12 at all.", "This [x] is no citation [12 at all."),
        ("Digits of any script [\u0661\u0662] are a citation.", "Digits of any script  are a citation."),
        ("Please enable JavaScript in this browser.\nThis line stays where it is.", "This line stays where it is."),
        ("A citation hides java[1]script in this line.", ""),
        ("Our site uses cookies for your pleasure.", ""),
        ("Our site uses coo\u212aies for your pleasure.", ""),
        ("We cook ies and use of Cookies here is good.", ""),
        (
            "Cut at\u2028the line separators of Unicode here.\x85Not only at the newline!",
            "the line separators of Unicode here.\nNot only at the newline!",
        ),
        (
            "Words \u3000of \u00a0any white\u2009space are counted.",
            "Words \u3000of \u00a0any white\u2009space are counted.",
        ),
        ("A word too long " + "a" * 1001 + " for a line.", ""),
        (
            "A word not too long " + "\u00e9" * 1000 + " for this.",
            "A word not too long " + "\u00e9" * 1000 + " for this.",
        ),
    ],
)
def test_lines_that_stay(documents, text, left):
    assert one(ANY, documents([text])) == left


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Here is some Lorem IPSUM for your page.", "lorem_ipsum"),
        ("Here is some { of a program here.", "curly_bracket"),
        ("Here { comes before lorem ipsum in this line.", "lorem_ipsum"),
        ("Too few sentences are in this text.", "too_few_sentences"),
        ("", "too_few_sentences"),
    ],
)
def test_documents_that_go(documents, text, reason):
    verdict = C4().judge(documents([text]))
    assert verdict.reasons[verdict.codes[0]] == reason


def test_marks_in_lines_that_go_do_not_count(documents):
    assert one(ANY, documents(["lorem ipsum {\nThis is a line to keep."])) == "This is a line to keep."


def test_sentences_are_counted_inside_of_lines(documents):
    text = "It is one. Now there are two! What did I say?? 'And four.' That is all."
    verdict = C4(min_sentences=11).judge(documents([text, text + "\n" + text]))
    assert verdict.values[0] == 5
    assert verdict.kept.tolist() == [False, False]
    assert verdict.values[1] == 2 * verdict.values[0]


def test_variants_disagree_where_they_are_said_to(documents):
    batch = documents(["It ends in 'four words'\nThree [1] words.\nTwo words."])
    assert one(C4(variant="datatrove", min_sentences=0), batch) == "It ends in 'four words'\nThree  words."
    assert one(C4(min_sentences=0, min_words=2), batch) == "Three  words.\nTwo words."


def test_steps_can_be_skipped(documents):
    text = "JavaScript and cookie policy [1] with { and lorem ipsum in it"
    every = ("citations", "terminal", "lorem_ipsum", "javascript", "curly_bracket", "policy")
    assert one(C4(skip=every, min_sentences=0), documents([text])) == text
    for step in every[1:]:
        assert one(C4(skip=[one for one in every if one != step], min_sentences=0), documents([text])) in (None, "")


def test_real_text_is_edited_as_the_reference_does(documents):
    verdict = ANY.judge(documents(TOPICS))
    for row, text in enumerate(TOPICS):
        reason, left = reference(text)
        assert (None if verdict.codes[row] < 0 else verdict.reasons[verdict.codes[row]]) == reason
        assert verdict.documents.string(row) == left
    assert 0 < verdict.kept.sum() < len(TOPICS)


PIECES = ["word", "two words", "a. ", "end.", "end...", '"', "'", "?", "[1]", "[", "]", "[edit]", "{", "lorem", "ipsum"]
PIECES += ["Java", "SCRIPT", "terms of", " use", "cookie", "coo\u212aies", " policy", "pr\u0130vacy", "\u00e9" * 500]
PIECES += [
    " ",
    " ",
    "\n",
    "\r\n",
    "\r",
    "\x0b",
    "\x1c",
    "\x1f",
    "\x85",
    "\u2028",
    "\u3000",
    "\u4e2d",
    "\U0001f600",
    "\0",
]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), min_size=1))
def test_any_text_is_edited_as_the_reference_does(documents, texts):
    verdict = ANY.judge(documents(texts))
    for row, text in enumerate(texts):
        reason, left = reference(text)
        assert (None if verdict.codes[row] < 0 else verdict.reasons[verdict.codes[row]]) == reason
        assert verdict.documents.string(row) == left


def test_a_verdict_does_not_depend_on_the_batch(documents):
    whole = C4().judge(documents(TOPICS))
    for row, text in enumerate(TOPICS):
        alone = C4().judge(documents([text]))
        assert alone.codes[0] == whole.codes[row] and alone.documents.string(0) == whole.documents.string(row)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"variant": "datatrov"}, "did you mean 'datatrove'"), ({"skip": ["citation"]}, "did you mean 'citations'")],
)
def test_options_that_cannot_be_are_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        C4(**options)


def test_paragraphs_are_counted_in_characters(documents):
    line = "\u00e9" * 200
    texts = [f"{line}\n{line}\n{line}", f"{line}\n{line}\n{line[1:]}", "", f"{line}\n\n{line}\nshort\n{line}\n"]
    verdict = C4Paragraph().judge(documents(texts))
    assert verdict.kept.tolist() == [True, False, False, True]
    assert verdict.values[1:3].tolist() == [2, 0]
