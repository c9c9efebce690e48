"""`variant: datatrove` decides, and edits, as the installed datatrove does."""

from __future__ import annotations

import argparse
import inspect
import pydoc_data.topics
import random
import textwrap

import pyarrow as pa
import pytest

from gristmill.curate.documents import Documents
from gristmill.curate.rules.c4 import C4, C4Paragraph
from gristmill.curate.rules.gopher_repetition import GopherRepetition

ODD = [
    "the",
    "dog.",
    "Dog!",
    "?",
    "...",
    "it's'",
    '"so"',
    "[1]",
    "[]",
    "[edit]",
    "[\u0663]",
    "[12",
    "java",
    "[2]script",
]
ODD += ["{", "lorem ipsum", "use", "cookies", "coo\u212aies", "terms of use", "Privacy Policy", "pr\u0130vacy policy"]
ODD += [
    "x" * 1001,
    "\u00e9" * 600,
    "\u4e2d\u6587",
    "\u3002",
    "U.S.",
    "Mr.",
    "- - -",
    "---",
    "ab c",
    "a bc",
    "\0",
    "\U0001f600",
]
PLAIN = ["alpha", "beta.", "gamma", "delta", "of", "Words", "here."]
BREAKS = ["  ", "\t", "\u3000", "\n", "\n\n", "\r\n", "\r", "\x0b", "\x1c", "\x1f", "\x85", "\u2028", " \n ", ""]


def odd_text(seed: int) -> str:
    """A text of a few words again and again, with what the rules look for strewn in."""
    rng = random.Random(seed)
    pool = [rng.choice(ODD if rng.random() < 0.3 else PLAIN) for _ in range(rng.choice([3, 10, 30]))]
    blanks = [rng.choice(BREAKS) if rng.random() < 0.2 else " " for _ in range(rng.choice([0, 5, 20, 60, 150]))]
    return "".join(blank + rng.choice(pool) for blank in blanks) + rng.choice(["", " ", "\n", "."])


def real_texts() -> list[str]:
    """The manual of Python, its paragraphs, its paragraphs as one line, and a source file by functions."""
    topics = list(pydoc_data.topics.topics.values())
    paragraphs = [part for text in topics[::4] for part in text.split("\n\n")]
    lines = [" ".join(textwrap.dedent(part).split()) for part in paragraphs]
    return [
        *(text for text in topics if len(text) < 20_000),
        *paragraphs,
        *lines,
        *inspect.getsource(argparse).split("\ndef "),
    ]


TEXTS = [*real_texts(), *map(odd_text, range(400)), "", " ", "\n\n", "a"]


def judged(rule: GopherRepetition | C4) -> list[tuple[str | None, str | None]]:
    """Why each text goes, or what it is when it stays."""
    ids = pa.array(map(str, range(len(TEXTS))))
    batch = Documents(pa.record_batch({"id": ids, "text": pa.array(TEXTS, pa.large_string())}))
    verdict = rule.judge(batch)
    after = verdict.documents or batch
    return [
        (verdict.reasons[code], None) if code >= 0 else (None, after.string(row))
        for row, code in enumerate(verdict.codes)
    ]


def filtered(peer) -> list[tuple[str | None, str | None]]:
    from datatrove.data import Document

    found = []
    for text in TEXTS:
        document = Document(text=text, id="0")
        answer = peer.filter(document)
        found.append((None, document.text) if answer is True else (answer[1], None))
    return found


def test_gopher_repetition_decides_as_datatrove_does():
    from datatrove.pipeline.filters import GopherRepetitionFilter

    ours = judged(GopherRepetition(variant="datatrove"))
    assert ours == filtered(GopherRepetitionFilter())
    assert len({reason for reason, _ in ours}) > 6


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {}),
        ({"skip": ["terminal"], "min_words": 0}, {"filter_no_terminal_punct": False, "min_words_per_line": -1}),
        (
            {"skip": ["citations", "curly_bracket", "lorem_ipsum"], "min_sentences": 2},
            {
                "remove_citations": False,
                "filter_curly_bracket": False,
                "filter_lorem_ipsum": False,
                "min_num_sentences": 2,
            },
        ),
        ({"skip": ["javascript", "policy"]}, {"filter_javascript": False, "filter_policy": False}),
    ],
)
def test_c4_decides_and_edits_as_datatrove_does(ours, theirs):
    from datatrove.pipeline.filters import C4QualityFilter

    found = judged(C4(variant="datatrove", **ours))
    assert found == filtered(C4QualityFilter(**theirs))
    assert None in {reason for reason, _ in found} and "too_few_sentences" in {reason for reason, _ in found}


def test_the_paragraph_rule_decides_as_datatrove_does():
    from datatrove.pipeline.filters.c4_filters import C4ParagraphFilter

    kept = [reason is None for reason, _ in judged(C4Paragraph())]
    assert kept == [reason is None for reason, _ in filtered(C4ParagraphFilter())]
    assert any(kept)
