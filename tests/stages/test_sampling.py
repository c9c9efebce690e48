"""A sample of the input: even, always the same, and a fair measure of the whole."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gristmill.recipe import Recipe, SourceOptions
from gristmill.sources.base import expand
from gristmill.sources.units import cut_units
from gristmill.stages import sampling
from gristmill.stages.sampling import Amount, SourceSample, sample_sources


def sample(path: Path, count: int) -> SourceSample:
    recipe = Recipe("out", [SourceOptions("web", [str(path)])], tokenizer="byte")
    units = cut_units(expand("web", [str(path)]), {"web": recipe.sources[0].layout}, 4096)
    (found,) = sample_sources(recipe, units, count)
    return found


def texts(found: SourceSample) -> list[str]:
    return [text for documents in found.sample for text in documents.batch.column("text").to_pylist()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    lines = [json.dumps({"text": f"{number:04} " + "x" * 45}) for number in range(2000)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path / "a.jsonl"


def test_documents_lie_evenly_and_are_always_the_same(path: Path) -> None:
    found = texts(sample(path, 100))
    assert found == texts(sample(path, 100)) and 100 <= len(found) <= 116
    numbers = [int(text[:4]) for text in found]
    assert numbers == sorted(numbers) and numbers[0] < 50 and numbers[-1] > 1800
    assert len(texts(sample(path, 10_000))) < 2000  # of the units that were looked into


def test_what_is_there_is_inferred_from_what_was_read(path: Path) -> None:
    found = sample(path, 10)
    assert abs(found.documents.value - 2000) <= found.documents.margin and found.documents.margin < 500
    assert abs(found.text_bytes.value - 2000 * 50) <= found.text_bytes.margin


def test_a_packed_file_counts_by_the_bytes_that_were_unpacked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_ENOUGH_BYTES", 1)
    packed = path.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert sample(packed, 10).documents.value >= 1000


def test_amounts_carry_how_far_they_may_be_off() -> None:
    assert Amount(100, 10).times(2, 0.1) == Amount(200, pytest.approx(28.28, abs=0.01))
    assert Amount(3, 3).plus(Amount(4, 4)) == Amount(7, 5) and Amount(0).times(5) == Amount(0)
