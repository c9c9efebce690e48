from __future__ import annotations

from pathlib import Path

from gristmill.figures.lengths import length_figures
from gristmill.testing import tiny_store


def lengths(folder: Path, *documents: int):
    return length_figures([tiny_store(folder, [[1] * (count - 1) for count in documents], shards=1)])


def test_lengths_are_counted_by_powers_of_two_with_exact_quantiles(tmp_path: Path) -> None:
    found = lengths(tmp_path, 2, 3, 4, 5, 6, 7, 8, 9, 10, 40)
    assert (found.documents, found.tokens, found.median, found.ninth_decile, found.longest) == (10, 94, 6, 10, 40)
    assert [(bin.least, bin.most, bin.documents) for bin in found.bins] == [
        (2, 3, 2), (4, 7, 4), (8, 15, 3), (16, 31, 0), (32, 63, 1)]  # fmt: skip
    assert sum(bin.tokens for bin in found.bins) == 94


def test_sequences_split_pad_and_cut_off_what_they_must(tmp_path: Path) -> None:
    found = lengths(tmp_path, 500, 100, 1000)
    fits = {fit.seq_len: fit for fit in found.fits}
    assert fits[512].split_documents == 2  # 500 to 600 lies across 512, 600 to 1,600 across 1,024 and 1,536
    assert fits[512].padding_tokens == 12 + 412
    assert (fits[512].truncated_documents, fits[512].truncated_tokens) == (1, 488)
    assert fits[2048].split_documents == fits[2048].truncated_tokens == 0


def test_a_longer_document_than_can_be_counted_is_in_the_last_bin(tmp_path: Path) -> None:
    found = lengths(tmp_path, 5, (1 << 20) + 10)
    assert found.longest == (1 << 20) + 10 and found.bins[-1].documents == 1
    assert sum(bin.tokens for bin in found.bins) == found.tokens


def test_nothing_has_no_lengths() -> None:
    found = length_figures([])
    assert found.documents == 0 and found.bins == [] and found.fits == []
