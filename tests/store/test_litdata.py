"""LitData's chunks for its TokensLoader: the bytes that its own writer makes, and the tokens in what it made."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill.core.errors import ConfigError, StoreError
from gristmill.store import litdata
from gristmill.store.export import export_store
from gristmill.store.importing import import_store
from gristmill.store.opening import open_store
from gristmill.store.verify import verify

Make = Callable[..., Path]
# Written by LitData itself: see tests/parity/sample_formats.py, where these documents are, too.
MADE = Path(__file__).parents[1] / "data" / "samples"
EOS = 50256
DOCUMENTS = [[*range(i, i + 3 + 37 * i % 50), EOS] for i in range(12)] + [[*range(300), EOS]]
SEQ_LEN, SIZE_LIMIT = 16, 500
GPT2: dict[str, Any] = {"eos": EOS, "vocab_size": 50_257}


def documents_of(root: Path) -> list[list[int]]:
    assert verify(root).faults == []
    store = open_store(root)
    return [store.document(i).tokens.tolist() for i in range(store.num_documents)]


def test_an_export_has_the_bytes_of_the_library_but_for_the_time(
    tmp_path: Path, make_store: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litdata, "SIZE_LIMIT", SIZE_LIMIT)
    # LitData has its windows as int32, which is what 100,000 ids are written as.
    for vocab, name, seq_len in ((50_257, "litdata-documents", None), (100_000, "litdata-windows", SEQ_LEN)):
        plain = [document[:-1] for document in DOCUMENTS]
        root = make_store(tmp_path / name / "s", plain, vocab=vocab)
        export_store(root, "litdata", tmp_path / name / "out", seq_len=seq_len)
        made, ours = MADE / name, tmp_path / name / "out" / "train"
        assert sorted(path.name for path in ours.iterdir()) == sorted(path.name for path in made.iterdir())
        said, expected = (json.loads((folder / "index.json").read_text()) for folder in (ours, made))
        assert said.pop("updated_at") == open_store(root).fingerprint and expected.pop("updated_at")
        assert said == expected
        if vocab == 50_257:
            assert all(path.read_bytes() == (ours / path.name).read_bytes() for path in made.glob("*.bin"))


@pytest.mark.parametrize("name", ["litdata-documents", "litdata-packed"])
def test_items_of_many_lengths_are_documents(tmp_path: Path, name: str) -> None:
    report = import_store(MADE / name, tmp_path / "new", **GPT2)
    assert documents_of(tmp_path / "new") == DOCUMENTS
    assert (report.documents, report.eos_added) == (len(DOCUMENTS), 0)
    assert open_store(tmp_path / "new").document_id(0) == f"{name}/chunk-0-0:0"


def test_items_of_one_length_are_a_stream_that_goes_on_from_chunk_to_chunk(tmp_path: Path) -> None:
    import_store(MADE / "litdata-windows", tmp_path / "new", **GPT2)
    found = documents_of(tmp_path / "new")
    assert found[:-1] == DOCUMENTS[: len(found) - 1]
    assert found[-1] == [*DOCUMENTS[len(found) - 1][: len(found[-1]) - 1], EOS]


@pytest.mark.parametrize("vocab", [50_257, 100_000])
@pytest.mark.parametrize("seq_len", [None, 7])
def test_what_was_exported_is_imported_again_but_for_the_tail(
    tmp_path: Path, make_store: Make, seq_len: int | None, vocab: int
) -> None:
    root = make_store(tmp_path / "s", vocab=vocab, val=[[1, 2, 3], [4] * 300], tokens_per_shard=500)
    export_store(root, "litdata", tmp_path / "out", seq_len=seq_len)
    import_store(tmp_path / "out", tmp_path / "new", eos=vocab - 1, vocab_size=vocab)
    for split in ("train", "val"):
        own, new = open_store(root / split), open_store(tmp_path / "new" / split)
        kept = own.num_tokens // (seq_len or 1) * (seq_len or 1)
        assert new.tokens(0, kept).tolist() == own.tokens(0, kept).tolist()


def test_what_the_loader_drops_is_counted(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s", [[1] * 2999, [2] * 99], val=[[3] * 9])
    notes = export_store(root, "litdata", tmp_path / "out").notes
    assert any("drops the end of each chunk that fills no block: 1,062 of 3,110 tokens" in note for note in notes)
    notes = export_store(root / "train", "litdata", tmp_path / "cut", seq_len=100).notes
    assert notes[1:] == [] and "block_size=100" in notes[0]


def test_ids_that_torch_cannot_hold_are_refused(tmp_path: Path, make_store: Make) -> None:
    with pytest.raises(ConfigError, match=r"2\^31 and more do not fit"):
        export_store(make_store(tmp_path / "s", [[1]], vocab=2**31 + 9), "litdata", tmp_path / "out")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"item_loader": "PyTreeLoader"}, "for PyTreeLoader: only tokens"),
        ({"data_format": ["tensor"]}, "only tokens"),
        ({"data_format": ["no_header_tensor:1"]}, "only tokens"),
        ({"data_format": ["no_header_tensor:20", "int"]}, "only tokens"),
        ({"data_format": []}, "only tokens"),
        ({"data_format": 5}, "data_format cannot be"),
        ({"encryption": {"level": "chunk"}}, "encrypted"),
        ({"compression": "zstd", "compression_level": "batch"}, "compressed inside"),
        ({"compression": "lz4"}, "packed by 'lz4'"),
        ({"data_format": ["no_header_tensor:18"]}, "are not those of"),
    ],
)
def test_an_index_of_what_cannot_be_read_is_a_sentence(tmp_path: Path, config: Any, said: str) -> None:
    folder = shutil.copytree(MADE / "litdata-documents", tmp_path / "l")
    index = json.loads((folder / "index.json").read_text())
    index["config"].update(config)
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises((ConfigError, StoreError), match=said):
        import_store(folder, tmp_path / "s", **GPT2)


@pytest.mark.parametrize(
    ("chunk", "said"),
    [
        ({"filename": "../chunk-0-0.bin"}, "none below"),
        ({"filename": "/etc/passwd"}, "none below"),
        ({"filename": "gone.bin"}, "gone.bin is missing"),
        ({"chunk_size": 2**33}, "chunk_size cannot be"),
        ({"chunk_bytes": 4, "dim": None}, "and 4 by the index"),
        ({"chunk_size": 1, "dim": None}, "says that it holds"),
        ({"dim": 5}, "are not those of 5 tokens"),
    ],
)
def test_a_chunk_that_is_not_so_is_a_sentence(tmp_path: Path, chunk: Any, said: str) -> None:
    folder = shutil.copytree(MADE / "litdata-documents", tmp_path / "l")
    index = json.loads((folder / "index.json").read_text())
    index["chunks"][0].update(chunk)
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(StoreError, match=said):
        import_store(folder, tmp_path / "s", **GPT2)
