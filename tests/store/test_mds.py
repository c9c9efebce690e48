"""MosaicML's MDS: the bytes that its own writer makes, and the tokens that are in what it made."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from gristmill.core.errors import ConfigError, StoreError
from gristmill.store import mds
from gristmill.store.export import export_store
from gristmill.store.importing import import_store
from gristmill.store.mds import _Varying
from gristmill.store.opening import open_store
from gristmill.store.verify import verify

Make = Callable[..., Path]
# Written by mosaicml-streaming itself: see tests/parity/sample_formats.py, where these documents are, too.
MADE = Path(__file__).parents[1] / "data" / "samples"
EOS = 50256
DOCUMENTS = [[*range(i, i + 3 + 37 * i % 50), EOS] for i in range(12)] + [[*range(300), EOS]]
SEQ_LEN, SIZE_LIMIT = 16, 500
GPT2: dict[str, Any] = {"eos": EOS, "vocab_size": 50_257}


def documents_of(root: Path) -> list[list[int]]:
    assert verify(root).faults == []
    store = open_store(root)
    return [store.document(i).tokens.tolist() for i in range(store.num_documents)]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def root(tmp_path: Path, make_store: Make) -> Path:
    return make_store(tmp_path / "s", [document[:-1] for document in DOCUMENTS])


@pytest.mark.parametrize(("name", "seq_len"), [("mds-documents", None), ("mds-windows", SEQ_LEN)])
def test_an_export_has_the_bytes_of_the_library(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, seq_len: int | None
) -> None:
    monkeypatch.setattr(mds, "SIZE_LIMIT", SIZE_LIMIT)
    export_store(root, "mds", tmp_path / "out", seq_len=seq_len)
    assert content(tmp_path / "out" / "train") == content(MADE / name)


@pytest.mark.parametrize("name", ["mds-documents", "mds-columns"])
def test_samples_of_many_lengths_are_documents(tmp_path: Path, name: str) -> None:
    report = import_store(MADE / name, tmp_path / "new", **GPT2)
    assert documents_of(tmp_path / "new") == DOCUMENTS
    assert (report.documents, report.eos_added, report.documents_cut) == (len(DOCUMENTS), 0, 0)
    assert open_store(tmp_path / "new").document_id(0) == f"{name}/shard.00000:0"


@pytest.mark.parametrize("name", ["mds-windows", "mds-foundry"])
@pytest.mark.parametrize("boundaries", ["auto", "eos"])
def test_samples_of_one_length_are_a_stream_that_goes_on_from_file_to_file(
    tmp_path: Path, name: str, boundaries: str
) -> None:
    report = import_store(MADE / name, tmp_path / "new", dtype=None, boundaries=boundaries, **GPT2)
    stream = [token for document in DOCUMENTS for token in document]
    kept = stream[: len(stream) // SEQ_LEN * SEQ_LEN]
    found = documents_of(tmp_path / "new")
    assert found[:-1] == DOCUMENTS[: len(found) - 1] and [t for d in found for t in d] == [*kept, EOS]
    assert (report.eos_added, report.documents_cut) == (1, 0)


def test_the_dtype_of_bytes_is_found_or_asked_for(tmp_path: Path) -> None:
    import_store(MADE / "mds-foundry", tmp_path / "found", **GPT2)
    import_store(MADE / "mds-foundry", tmp_path / "given", dtype="int64", **GPT2)
    assert documents_of(tmp_path / "found") == documents_of(tmp_path / "given")
    with pytest.raises(ConfigError, match="says that its tokens are uint16, not int64"):
        import_store(MADE / "mds-windows", tmp_path / "other", dtype="int64", **GPT2)
    few = one_shard(tmp_path / "few", [b"\4\0\0\0\1\0\2\0"], ["bytes"], [None])
    with pytest.raises(ConfigError, match="do not tell their dtype"):
        import_store(few, tmp_path / "o", **GPT2)


@pytest.mark.parametrize("seq_len", [None, 7])
def test_what_was_exported_is_imported_again_but_for_the_tail(
    tmp_path: Path, make_store: Make, seq_len: int | None
) -> None:
    root = make_store(tmp_path / "s", vocab=100_000, val=[[1, 2, 3], [4] * 300], tokens_per_shard=500)
    report = export_store(root, "mds", tmp_path / "out", seq_len=seq_len)
    import_store(tmp_path / "out", tmp_path / "new", eos=99_999, vocab_size=100_000)
    for split in ("train", "val"):
        own, new = open_store(root / split), open_store(tmp_path / "new" / split)
        kept = own.num_tokens // (seq_len or 1) * (seq_len or 1)
        assert new.tokens(0, kept).tolist() == own.tokens(0, kept).tolist()
        lost = own.num_tokens - kept
        assert any(f"The last {lost:,} tokens of {split}" in note for note in report.notes) == bool(lost)
    if seq_len is None:
        assert documents_of(tmp_path / "new") == documents_of(root)


def test_a_split_that_fills_no_sample_is_told_before_anything_is_written(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="fill no sample of seq_len=100,000"):
        export_store(root, "mds", tmp_path / "out", seq_len=100_000)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match="npy has no samples: seq_len= is for mds, litdata and webdataset"):
        export_store(root, "npy", tmp_path / "out", seq_len=8)


@pytest.mark.parametrize("length", [1, 255, 256, 65_535, 65_536, 2**30])
def test_the_head_of_a_sample_has_the_size_that_is_counted(length: int) -> None:
    samples = _Varying(2)
    size = int(samples.sizes(np.array([length]))[0])
    assert len(samples.head(length)) == size - 2 * length


def one_shard(folder: Path, parts: list[bytes], encodings: list[str], sizes: list[int | None], **changed: Any) -> Path:
    """A folder of one shard, and what its index says of it."""
    folder.mkdir(parents=True)
    names = [f"c{i}" if i else "tokens" for i in range(len(encodings))]
    edges = np.cumsum([4 * (len(parts) + 2) + 2, *map(len, parts)]).astype("<u4")
    data = len(parts).to_bytes(4, "little") + edges.tobytes() + b"{}" + b"".join(parts)
    (folder / "shard.00000.mds").write_bytes(data)
    raw = {"basename": "shard.00000.mds", "bytes": len(data), "hashes": {}}
    said = {"column_encodings": encodings, "column_names": names, "column_sizes": sizes, "compression": None,
            "format": "mds", "version": 2, "samples": len(parts), "raw_data": raw, "zip_data": None}  # fmt: skip
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": [{**said, **changed}]}))
    return folder


def test_empty_samples_are_dropped_and_counted(tmp_path: Path) -> None:
    samples = [struct.pack("<I", 2 * len(part)) + np.array(part, "<u2").tobytes() for part in ([], [1, 2], [], [3])]
    report = import_store(one_shard(tmp_path / "m", samples, ["bytes"], [None]), tmp_path / "s", dtype="uint16", **GPT2)
    assert documents_of(tmp_path / "s") == [[1, 2, EOS], [3, EOS]]
    assert (report.empty_dropped, report.eos_added) == (2, 2)


@pytest.mark.parametrize(
    ("encoding", "sample", "said"),
    [
        ("bytes", struct.pack("<I", 3) + b"abc", "no multiple of 2"),
        ("bytes", struct.pack("<I", 9) + b"ab", "and its columns 13"),
        ("bytes", b"ab", "too short for the sizes"),
        ("ndarray", struct.pack("<IB", 1, 34), "no array of whole numbers"),
        ("ndarray", struct.pack("<I", 0), "a sample has no array"),
        ("ndarray", struct.pack("<IBBB", 3, 16, 4, 9), "for an array of shape"),
        ("ndarray:uint16", struct.pack("<IBB", 2, 4 | 3, 9), "too few for the shape"),
    ],
)
def test_a_sample_that_is_not_of_its_columns_is_damage(tmp_path: Path, encoding: str, sample: bytes, said: str) -> None:
    folder = one_shard(tmp_path / "m", [sample], [encoding], [None])
    dtype = "uint16" if encoding == "bytes" else None
    with pytest.raises(StoreError, match=rf"shard\.00000\.mds is damaged: .*{said}"):
        import_store(folder, tmp_path / "s", dtype=dtype, **GPT2)
    assert not (tmp_path / "s" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"format": "json"}, "MDS 2 is read"),
        ({"column_names": ["text"], "column_encodings": ["str"]}, "holds no token ids"),
        ({"column_names": ["a", "b"], "column_encodings": ["int"] * 2, "column_sizes": [8, 8]}, "none of which"),
        ({"column_sizes": []}, "an encoding and a size for each column"),
        ({"column_sizes": [-1]}, "column_sizes cannot be"),
        ({"column_encodings": ["ndarray:float32"]}, "no token ids"),
        ({"samples": 2**40}, "samples cannot be"),
        ({"samples": 2}, "it says that it holds 1 samples, and the index 2"),
        ({"raw_data": {"basename": "shard.00000.mds", "bytes": 9, "hashes": {}}}, "and 9 by the index"),
        ({"raw_data": {"basename": "shard.00000.mds", "bytes": 18, "hashes": {"sha1": 5}}}, "hashes cannot be"),
        ({"raw_data": None}, "must be a mapping"),
        ({"raw_data": {"basename": "gone.mds", "bytes": 18}}, "gone.mds is missing"),
    ],
)
def test_an_index_that_says_what_is_not_so_is_a_sentence(tmp_path: Path, changed: Any, said: str) -> None:
    folder = one_shard(tmp_path / "m", [struct.pack("<HH", 1, EOS)], ["ndarray:uint16:2"], [4], **changed)
    with pytest.raises((ConfigError, StoreError), match=said):
        import_store(folder, tmp_path / "s", **GPT2)


@pytest.mark.parametrize("name", ["../x.mds", "/etc/passwd", "a/../../x.mds", "", ".", "s3://b/x", "c:\\x", "a//b", 7])
def test_files_outside_the_folder_are_refused(tmp_path: Path, name: object) -> None:
    raw = {"basename": name, "bytes": 18, "hashes": {}}
    folder = one_shard(tmp_path / "m", [struct.pack("<HH", 1, EOS)], ["ndarray:uint16:2"], [4], raw_data=raw)
    with pytest.raises(StoreError, match=r"none below|basename cannot be"):
        import_store(folder, tmp_path / "s", **GPT2)


def test_a_hash_that_differs_is_damage(tmp_path: Path) -> None:
    for name, shard in (("mds-windows", "shard.00001.mds"), ("mds-foundry", "shard.00001.mds.zstd")):
        folder = shutil.copytree(MADE / name, tmp_path / name)
        index = json.loads((folder / "index.json").read_text())
        which = "zip_data" if name == "mds-foundry" else "raw_data"
        sums = index["shards"][1][which]["hashes"]
        sums.update({key: "0" * len(value) for key, value in sums.items()})
        (folder / "index.json").write_text(json.dumps(index))
        with pytest.raises(StoreError, match=rf"{shard}.*its hash is another"):
            import_store(folder, tmp_path / f"{name}-new", **GPT2)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    data = zstandard.compress(bytes(1 << 24))
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "shard.00000.mds.zstd").write_bytes(data)
    raw, lies = (
        {"basename": "shard.00000.mds", "bytes": 2**32 - 1},
        {"basename": "shard.00000.mds.zstd", "bytes": len(data)},
    )
    said = {"column_encodings": ["bytes"], "column_names": ["tokens"], "column_sizes": [None], "compression": "zstd",
            "format": "mds", "version": 2, "samples": 1, "raw_data": raw, "zip_data": lies}  # fmt: skip
    (tmp_path / "m" / "index.json").write_text(json.dumps({"version": 2, "shards": [said]}))
    with pytest.raises(StoreError, match="are said to unpack to 4,294,967,295"):
        import_store(tmp_path / "m", tmp_path / "s", dtype="uint16", **GPT2)


def test_packings_that_are_not_known_are_named(tmp_path: Path) -> None:
    raw = {"basename": "shard.00000.mds", "bytes": 18, "hashes": {}}
    folder = one_shard(tmp_path / "m", [struct.pack("<HH", 1, EOS)], ["ndarray:uint16:2"], [4], zip_data=raw,
                       compression="br:11")  # fmt: skip
    with pytest.raises(ConfigError, match="packed by 'br', and zstd, gz, bz2 are read"):
        import_store(folder, tmp_path / "s", **GPT2)
