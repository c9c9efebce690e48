from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError, StoreError
from gristmill.store import importing
from gristmill.store.export import export_store
from gristmill.store.files import sampled_checksum
from gristmill.store.format import write_idx
from gristmill.store.importing import import_store
from gristmill.store.manifest import load_manifest
from gristmill.store.opening import open_store
from gristmill.store.verify import verify

Make = Callable[..., Path]
EOS = 50256
GPT2: dict[str, Any] = {"eos": EOS, "vocab_size": 50_257}
DOCUMENTS = [[1, 2, 3], [4], [5, 6, 7, 8]]


def documents_of(root: Path) -> list[list[int]]:
    """All documents of a store that must be without fault."""
    assert verify(root).faults == []
    store = open_store(root)
    return [store.document(i).tokens.tolist() for i in range(store.num_documents)]


def ids_of(root: Path) -> list[str]:
    store = open_store(root)
    return [store.document_id(i) for i in range(store.num_documents)]


ENDED = [[*document, EOS] for document in DOCUMENTS]


def test_a_bare_file_that_is_right_is_linked(tmp_path: Path, make_bare: Make) -> None:
    path = make_bare(tmp_path / "owt.bin", DOCUMENTS)
    report = import_store(path, tmp_path / "s", dtype="uint16", **GPT2)
    assert (report.linked, report.copied) == (["train/shard-00000.bin"], [])
    assert path.stat().st_ino == (tmp_path / "s/train/shard-00000.bin").stat().st_ino
    assert documents_of(tmp_path / "s") == ENDED
    assert ids_of(tmp_path / "s") == ["owt:0", "owt:1", "owt:2"]
    assert (report.documents, report.tokens, report.eos_added) == (3, 11, 0)


def test_the_manifest_names_each_file_with_what_identifies_its_content(tmp_path: Path, make_bare: Make) -> None:
    path = make_bare(tmp_path / "owt.bin", DOCUMENTS)
    import_store(path, tmp_path / "s", dtype="uint16", **GPT2)
    recipe = load_manifest(tmp_path / "s").recipe["import"]
    assert recipe["files"] == {"train": [["owt.bin", sampled_checksum(path)]]}


def test_a_megatron_pair_that_is_right_is_linked_with_its_index(tmp_path: Path, make_bare: Make) -> None:
    path = make_bare(tmp_path / "x_text_document.bin", DOCUMENTS, idx=True)
    import_store(path.with_suffix(".idx"), tmp_path / "s", **GPT2)
    for suffix in (".bin", ".idx"):
        own = (tmp_path / "s/train/shard-00000.bin").with_suffix(suffix)
        assert own.stat().st_ino == path.with_suffix(suffix).stat().st_ino
    assert documents_of(tmp_path / "s") == ENDED


def test_megatrons_int32_is_our_uint32_and_linked(tmp_path: Path, make_bare: Make) -> None:
    path = make_bare(tmp_path / "x.bin", [[70_000, 2], [3]], vocab=100_000, idx=True)
    report = import_store(path, tmp_path / "s", eos=99_999, vocab_size=100_000)
    assert report.linked and open_store(tmp_path / "s").dtype == np.uint32
    assert documents_of(tmp_path / "s") == [[70_000, 2, 99_999], [3, 99_999]]


def test_a_megatron_pair_without_eos_gets_it(tmp_path: Path) -> None:
    np.array([1, 2, 3, 4], "<u2").tofile(tmp_path / "x.bin")
    with open(tmp_path / "x.idx", "wb") as file:
        write_idx(file, np.array([3, 0, 1]), "uint16")
    report = import_store(tmp_path / "x.bin", tmp_path / "s", **GPT2)
    assert documents_of(tmp_path / "s") == [[1, 2, 3, EOS], [4, EOS]]
    assert (report.eos_added, report.empty_dropped) == (2, 1)
    assert ids_of(tmp_path / "s") == ["x:0", "x:2"]


def test_an_eos_inside_a_document_cuts_it_in_two_of_the_same_name(tmp_path: Path) -> None:
    np.array([1, EOS, 2, EOS, 3, EOS], "<u2").tofile(tmp_path / "x.bin")
    with open(tmp_path / "x.idx", "wb") as file:
        write_idx(file, np.array([4, 2]), "uint16")
    report = import_store(tmp_path / "x.bin", tmp_path / "s", **GPT2)
    assert report.linked and report.documents_cut == 1
    assert documents_of(tmp_path / "s") == [[1, EOS], [2, EOS], [3, EOS]]
    assert open_store(tmp_path / "s").locate(["x:0", "x:1"]) == {"x:0": [0, 1], "x:1": [2]}


def test_boundaries_can_be_taken_from_eos_although_there_is_an_index(tmp_path: Path, make_bare: Make) -> None:
    path = make_bare(tmp_path / "x.bin", DOCUMENTS)
    with open(tmp_path / "x.idx", "wb") as file:
        write_idx(file, np.array([11]), "uint16")
    report = import_store(path, tmp_path / "s", boundaries="eos", **GPT2)
    assert report.documents_cut == 0 and len(documents_of(tmp_path / "s")) == 3


def test_the_tail_after_the_last_eos_is_a_document_and_counted(tmp_path: Path) -> None:
    np.array([1, EOS, 2, 3], "<u2").tofile(tmp_path / "x.bin")
    report = import_store(tmp_path / "x.bin", tmp_path / "s", dtype="uint16", **GPT2)
    assert documents_of(tmp_path / "s") == [[1, EOS], [2, 3, EOS]]
    assert (report.copied, report.eos_added) == (["train/shard-00000.bin"], 1)
    assert "1 documents lacked EOS and got one." in report.notes


def test_a_real_npy_loses_its_header_and_takes_the_dtype_of_the_vocabulary(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([t for document in ENDED for t in document], np.int64))
    report = import_store(tmp_path / "x.npy", tmp_path / "s", **GPT2)
    assert report.copied and open_store(tmp_path / "s").dtype == np.uint16
    assert documents_of(tmp_path / "s") == ENDED


def test_bytes_get_an_eos_that_their_dtype_could_not_hold(tmp_path: Path) -> None:
    np.arange(5, dtype=np.uint8).tofile(tmp_path / "x.bin")
    import_store(tmp_path / "x.bin", tmp_path / "s", dtype="uint8", eos=256, vocab_size=257)
    assert documents_of(tmp_path / "s") == [[0, 1, 2, 3, 4, 256]]


def test_llm_c_documents_have_their_eos_moved_and_a_headless_one_gets_it(tmp_path: Path) -> None:
    tokens = [9, 9, EOS, 1, 2, EOS, EOS, 3]
    head = np.zeros(256, "<i4")
    head[:3] = 20240520, 1, len(tokens)
    (tmp_path / "x.bin").write_bytes(head.tobytes() + np.array(tokens, "<u2").tobytes())
    report = import_store(tmp_path / "x.bin", tmp_path / "s", **GPT2)
    assert documents_of(tmp_path / "s") == [[9, 9, EOS], [1, 2, EOS], [EOS], [3, EOS]]
    assert (report.eos_added, report.eos_moved) == (1, 3)


def sidecar(path: Path, text: str) -> None:
    path.with_name(path.stem + ".csv.gz").write_bytes(gzip.compress(text.encode()))


def test_a_sidecar_of_olmo_core_gives_boundaries_and_ids(tmp_path: Path) -> None:
    np.array([1, EOS, 2, 3, 4], "<u2").tofile(tmp_path / "part.npy")
    sidecar(tmp_path / "part.npy", '0,2,"a,b",web.jsonl.gz,7\n2,4,c,web.jsonl.gz,8\n')
    report = import_store(tmp_path / "part.npy", tmp_path / "s", dtype="uint16", **GPT2)
    assert documents_of(tmp_path / "s") == [[1, EOS], [2, 3, EOS], [4, EOS]]
    assert ids_of(tmp_path / "s") == ["a,b", "c", "part:2"]
    assert (report.eos_added, report.not_in_sidecar) == (2, 1)
    assert open_store(tmp_path / "s").document(0).record["path"] == "web.jsonl.gz"


def test_a_sidecar_of_two_columns_gives_boundaries_alone(tmp_path: Path, make_bare: Make) -> None:
    path = make_bare(tmp_path / "part.npy", [[1], [2]])
    sidecar(path, "0,2\n2,4\n")
    assert import_store(path, tmp_path / "s", dtype="uint16", **GPT2).linked
    assert ids_of(tmp_path / "s") == ["part:0", "part:1"]


@pytest.mark.parametrize("text", ["0,3\n2,4\n", "0,2\n2,9\n", "start,end\n0,2\n", "0\n"])
def test_a_sidecar_that_does_not_fit_is_named(tmp_path: Path, make_bare: Make, text: str) -> None:
    path = make_bare(tmp_path / "part.npy", [[1], [2]])
    sidecar(path, text)
    with pytest.raises(StoreError, match=r"part\.csv\.gz"):
        import_store(path, tmp_path / "s", dtype="uint16", **GPT2)


@pytest.mark.parametrize("to", ["megatron", "olmo", "nanogpt", "llmc", "npy"])
def test_what_was_exported_comes_back_the_same(tmp_path: Path, make_store: Make, to: str) -> None:
    root = make_store(tmp_path / "corpus", tokens_per_shard=500)
    export_store(root, to, tmp_path / "out")
    paths = sorted(path for path in (tmp_path / "out").iterdir() if path.suffix in (".bin", ".npy"))
    dtype = "uint16" if to in ("olmo", "nanogpt") else None
    report = import_store(paths, tmp_path / "again", dtype=dtype, **GPT2)
    assert documents_of(tmp_path / "again") == documents_of(root)
    assert bool(report.linked) == (to in ("megatron", "olmo", "nanogpt"))
    if to == "olmo":
        assert ids_of(tmp_path / "again") == ids_of(root)


def test_both_splits_come_from_a_mapping(tmp_path: Path, make_bare: Make) -> None:
    files = {split: make_bare(tmp_path / f"{split}.bin", DOCUMENTS) for split in ("train", "val")}
    import_store(files, tmp_path / "s", dtype="uint16", **GPT2)
    assert open_store(tmp_path / "s/val").num_documents == open_store(tmp_path / "s/train").num_documents == 3


def test_linked_and_copied_files_stand_in_one_store_in_their_order(tmp_path: Path, make_bare: Make) -> None:
    right = make_bare(tmp_path / "right.bin", [[1]])
    np.array([2, 3], "<u2").tofile(tmp_path / "tail.bin")
    last = make_bare(tmp_path / "last.bin", [[4]])
    report = import_store([right, tmp_path / "tail.bin", last], tmp_path / "s", dtype="uint16", **GPT2)
    assert documents_of(tmp_path / "s") == [[1, EOS], [2, 3, EOS], [4, EOS]]
    assert (report.linked, report.copied) == (
        ["train/shard-00000.bin", "train/shard-00002.bin"], ["train/shard-00001.bin"],
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(tokens=st.lists(st.integers(0, 4), min_size=1, max_size=80), batch=st.integers(1, 30), first=st.booleans())
def test_no_token_is_ever_lost(tokens: list[int], batch: int, first: bool) -> None:
    """EOS apart, which moves and is added, the stream of a copy is that of the file, whatever the batches."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(importing, "_BATCH_TOKENS", batch)
        path, header = Path(folder) / "x.bin", np.zeros(256, "<i4")
        header[:3] = 20240520, 1, len(tokens)
        path.write_bytes((header.tobytes() if first else b"") + np.array(tokens, "<u2").tobytes())
        import_store(path, Path(folder) / "s", dtype="uint16", eos=0, vocab_size=50_257)
        stored = [token for document in documents_of(Path(folder) / "s") for token in document]
        assert [token for token in stored if token] == [token for token in tokens if token]
        assert stored.count(0) - tokens.count(0) in (0, 1)


def test_the_tokenizer_is_kept_beside_the_tokens(tmp_path: Path, make_bare: Make) -> None:
    options = {**GPT2, "dtype": "uint16", "tokenizer_json": "{}"}
    named = {"name": "gpt2", "fingerprint": "f"}
    import_store(make_bare(tmp_path / "x.bin", DOCUMENTS), tmp_path / "s", tokenizer=named, **options)
    assert (tmp_path / "s/tokenizer.json").read_text() == "{}"


def test_a_store_that_is_there_is_refused_and_overwritten_only_by_word(tmp_path: Path, make_bare: Make) -> None:
    options = {**GPT2, "dtype": "uint16"}
    both = [make_bare(tmp_path / f"{name}.bin", DOCUMENTS) for name in "ab"]
    import_store(both, tmp_path / "s", **options)
    with pytest.raises(ConfigError, match="already holds a store"):
        import_store(both, tmp_path / "s", **options)
    import_store(both[0], tmp_path / "s", overwrite=True, **options)
    assert documents_of(tmp_path / "s") == ENDED
    assert not list((tmp_path / "s/train").glob("shard-00001*"))


def test_a_call_that_cannot_succeed_leaves_the_old_store_whole(tmp_path: Path, make_bare: Make) -> None:
    path = make_bare(tmp_path / "x.bin", DOCUMENTS)
    import_store(path, tmp_path / "s", dtype="uint16", **GPT2)
    with pytest.raises(ConfigError, match="dtype"):
        import_store(path, tmp_path / "s", overwrite=True, **GPT2)
    assert documents_of(tmp_path / "s") == ENDED


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 8, "eos": 7}, "token 50256, outside the vocabulary of 8"),
        ({"eos": 60_000}, "EOS 60000 is outside"),
        ({"boundaries": "guess"}, "boundaries 'guess' is not known"),
        ({"split": "test"}, "split 'test' is not known"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, make_bare: Make, changes: dict[str, Any], message: str) -> None:
    path = make_bare(tmp_path / "x.bin", DOCUMENTS)
    with pytest.raises(ConfigError, match=message):
        import_store(path, tmp_path / "s", **{**GPT2, "dtype": "uint16", **changes})
    assert not (tmp_path / "s/manifest.json").exists()


def test_folders_and_empty_lists_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        import_store(tmp_path, tmp_path / "s", **GPT2)
    with pytest.raises(ConfigError, match="no files to import"):
        import_store([], tmp_path / "s", **GPT2)


def test_files_inside_the_new_store_are_refused(tmp_path: Path, make_bare: Make) -> None:
    path = make_bare(tmp_path / "s/train/shard-00000.bin", DOCUMENTS)
    with pytest.raises(ConfigError, match="lies inside"):
        import_store(path, tmp_path / "s", dtype="uint16", **GPT2)
    assert path.exists()


def test_an_id_of_two_lines_stays_one_row_of_a_sidecar(tmp_path: Path, make_bare: Make) -> None:
    # OLMo-core reads the sidecar line by line, whatever is quoted.
    path = make_bare(tmp_path / "part.npy", [[1]])
    sidecar(path, '0,2,"a\nb",web,0\n')
    import_store(path, tmp_path / "s", dtype="uint16", **GPT2)
    assert ids_of(tmp_path / "s") == ["a\nb"]
    export_store(tmp_path / "s", "olmo", tmp_path / "out")
    assert gzip.decompress((tmp_path / "out/train-00000.csv.gz").read_bytes()) == b"0,2,a\\nb,web,0\n"


def test_files_to_import_may_be_named_with_braces(tmp_path: Path, make_bare: Make) -> None:
    for i in range(3):
        make_bare(tmp_path / f"x-{i}.bin", [[i]])
    import_store(str(tmp_path / "x-{0..2}.bin"), tmp_path / "out", eos=EOS, vocab_size=50_257, dtype="uint16")
    store = open_store(tmp_path / "out")
    assert store.num_shards == 3 and store.tokens(0, 6).tolist() == [0, EOS, 1, EOS, 2, EOS]
