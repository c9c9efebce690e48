"""`variant: datatrove` decides as datatrove does, with the same reasons, on text that every Python has."""

from __future__ import annotations

import pydoc_data.topics
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from datatrove import data
from datatrove.pipeline import filters

from gristmill.curate.documents import Documents
from gristmill.curate.rules.fineweb import FineWeb
from gristmill.curate.rules.gopher_quality import GopherQuality


def real_texts() -> list[str]:
    """Topics of the manual whole and by paragraph, and sources of the standard library: 600 texts, 1 MB."""
    topics = list(pydoc_data.topics.topics.values())
    paragraphs = [part for topic in topics for part in topic.split("\n\n\n")][:400]
    sources = sorted(Path(pydoc_data.topics.__file__).parent.parent.glob("*.py"))[:60]
    return topics + paragraphs + [path.read_text("utf-8", "replace") for path in sources]


def made_texts() -> list[str]:
    """What the real ones lack: each reason, and characters that are white space or line breaks to Python."""
    prose = "The miller said that it would be good to have flour with the bread of the town and some more of it.\n" * 3
    return [
        *("word " * 49, "word " * 50, "a b " * 30, "considerably " * 50, prose + "# " * 30, prose + " … ..." * 9),
        *("- the miller and the town\n" * 30, "and so on with the flour ...\x85" * 20, prose + "1 " * 30, "x\n" * 80),
        *("Das Korn wird von dem Müller gemahlen。\u2028" * 20, prose * 2, prose.replace("\n", "\n" * 30)),
        "".join(f"Donaudampfschifffahrtsgesellschaftskapitän {number}.\n\n" for number in range(20)),
    ]


def theirs(judge: Any, text: str) -> str | None:
    answer = judge.filter(data.Document(text=text, id="0"))
    return None if answer is True else answer[1]


@pytest.mark.parametrize(
    ("rule", "judge"),
    [
        (GopherQuality(variant="datatrove"), "GopherQualityFilter"),
        (FineWeb(variant="datatrove"), "FineWebQualityFilter"),
    ],
    ids=["gopher_quality", "fineweb"],
)
def test_decisions_and_reasons_are_datatroves(rule: Any, judge: str) -> None:
    texts = real_texts() + made_texts()
    ids = list(map(str, range(len(texts))))
    verdict = rule.judge(Documents(pa.record_batch({"id": ids, "text": pa.array(texts, pa.large_string())})))
    ours = [None if code < 0 else verdict.reasons[code] for code in verdict.codes]
    witness = getattr(filters, judge)()
    assert ours == [theirs(witness, text) for text in texts]
    assert len(set(ours)) > 4
