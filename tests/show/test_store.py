"""A store on a screen, when it was made, and when it was checked."""

from __future__ import annotations

import pytest

from gristmill.figures.store import SplitFigures, StoreFigures
from gristmill.show.store import show_findings, show_made, show_store, show_token_files
from gristmill.store.manifest import FunnelRow, Manifest, ShardEntry
from gristmill.store.verify import Findings


def _shard(path: str) -> ShardEntry:
    return ShardEntry(path, 1234, 4, "", "", "")


def figures(path: str, *splits: str) -> StoreFigures:
    funnel: list[FunnelRow] = [
        {"stage": "read", "source": "web", "documents": 5, "bytes": 10},
        {"stage": "length", "source": "web", "documents": 4, "reasons": {"too_few_chars": 1}},
        {"stage": "train", "source": "web", "documents": 4, "tokens": 1234},
    ]  # type: ignore[typeddict-item]
    rows = funnel if len(splits) > 1 else funnel[-1:]
    shards = {"train": [_shard(f"train/shard-{i:05d}.bin") for i in range(3)], "val": [_shard("val/shard-00000.bin")]}
    manifest = Manifest("uint16", 256, 257, {"name": "byte"}, shards, funnel=rows)
    return StoreFigures(path, {name: SplitFigures(1, 4, 1234, "f00d") for name in splits}, manifest)


def test_a_store_shows_its_splits_and_its_funnel(capsys: pytest.CaptureFixture[str]) -> None:
    show_store(figures("corpus", "train", "val"))
    out = capsys.readouterr().out
    assert out.startswith("corpus: byte tokens, uint16, EOS 256\n") and "4 of 5 documents were kept (80.0%)." in out


def test_a_split_shows_what_it_holds_of_each_source(capsys: pytest.CaptureFixture[str]) -> None:
    show_store(figures("corpus/train", "train"))
    out = capsys.readouterr().out
    assert "were kept" not in out and out.splitlines()[-2].split()[:2] == ["source", "documents"]


def test_a_new_store_says_how_to_look_at_what_was_dropped_and_how_to_open_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_made(figures("my corpus", "train", "val"), "in 1.0 s")
    *_, wrote, dropped, train, val, opened = capsys.readouterr().out.splitlines()
    assert wrote == "Wrote 2,468 tokens in 1.0 s."
    assert dropped == "Look at what was dropped: gristmill dropped 'my corpus'"
    assert train == "Token files of train, for a training config: my corpus/train/shard-{00000..00002}.bin"
    assert val == "Token files of val, for a training config: my corpus/val/shard-00000.bin"
    assert opened == 'Open it in Python: gristmill.open("my corpus/train")'


def test_token_files_are_one_a_line_and_those_of_a_split_alone(capsys: pytest.CaptureFixture[str]) -> None:
    show_token_files(figures("corpus", "train", "val"))
    files = [f"corpus/train/shard-{i:05d}.bin" for i in range(3)]
    assert capsys.readouterr().out.splitlines() == [*files, "corpus/val/shard-00000.bin"]
    show_token_files(figures("corpus/train", "train"))
    assert capsys.readouterr().out.splitlines() == files


def test_a_check_names_what_no_sum_covers_and_counts_faults(capsys: pytest.CaptureFixture[str]) -> None:
    covered: dict[str, dict[str, int | str]] = {"tokens": {"files": 1, "bytes": 2468, "by": "the manifest"}}
    uploads = {"train/shard-00001.bin": "2026-11-17T22:00:23Z"}
    show_findings("corpus", Findings(1, 1234, 4, ["torn"], covered, ["stray.txt"], uploads), "in 1.0 s")
    out = capsys.readouterr().out
    assert "train/shard-00001.bin has an upload that began 2026-11-17T22:00:23Z and has not ended" in out
    assert "tokens      1  2,468  the manifest\n" in out and "stray.txt is covered by no sum" in out
    assert "corpus: 1 shards, 4 documents, 1,234 tokens: faults: 1\n" in out and out.endswith("Verified in 1.0 s.\n")
