"""Batches of documents as rules get them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from gristmill.curate.documents import Documents

MakeDocuments = Callable[..., Documents]


def make_documents(texts: Sequence[str], **columns: Sequence[str | None]) -> Documents:
    """Documents with these texts, ids `0`, `1`, … and any further columns."""
    count = len(texts)
    base = {"doc": range(count), "id": map(str, range(count)), "source": ["s"] * count, "path": [""] * count} | columns
    arrays = {name: pa.array(list(values)) for name, values in base.items()}
    return Documents(pa.RecordBatch.from_pydict(arrays | {"text": pa.array(list(texts), pa.large_string())}))


@pytest.fixture
def documents() -> MakeDocuments:
    return make_documents
