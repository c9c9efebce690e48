"""Words as strings, and texts that are odd enough to split."""

from __future__ import annotations

import pydoc_data.topics

import pyarrow as pa

from gristmill.curate.documents import Documents
from gristmill.curate.words import Words, words

TOPICS = list(pydoc_data.topics.topics.values())
ODD = [
    "",
    " \t\n",
    "(e.g., don't) can't. U.S.A. 20°C. 10km/h $5.00 US$3 C$4 5+6 a--b a---b x—y :-) ):",
    "see https://example.org/a?b=c, mail me@example.org or visit www.python.org/~x. 10.0.0.1 file.txt:80 os.path",
    "Grüße aus 東京。это «тест»… नमस्ते। ﷽ 👍🏽 e\u0301 \u2028 x\u00a0y\u3000z\x1cq\x85",
    "a" * 1000 + " " + "(" * 300 + " " + "ab-" * 200,
    "id cannot Im dont gonna user-id (id) id, _id_ 5m 5m. 3mm² 20% 1,000.50 a,b A.B a.B",
]


def documents(texts: list[str]) -> Documents:
    return Documents(
        pa.record_batch({"id": list(map(str, range(len(texts)))), "text": pa.array(texts, pa.large_string())})
    )


def spelt(batch: Documents, split: Words) -> list[list[str]]:
    """The words of each document as strings."""
    rows = zip(split.offsets[:-1], split.offsets[1:], strict=True)
    return [
        [
            batch.string(row).encode()[begin:end].decode()
            for begin, end in zip(split.starts[first:last], split.ends[first:last], strict=True)
        ]
        for row, (first, last) in enumerate(rows)
    ]


def split(texts: list[str], splitter: str) -> list[list[str]]:
    batch = documents(texts)
    return spelt(batch, words(batch, splitter))
