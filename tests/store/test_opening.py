from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill.core.errors import ConfigError, StoreError
from gristmill.store.opening import open_store

Make = Callable[..., Path]
DOCUMENTS = [[1, 2, 3], [4], [5, 6, 7, 8]]
EOS = 50256


def tokens_of(path: Any, **options: Any) -> list[int]:
    store = open_store(path, **options)
    return store.tokens(0, store.num_tokens).tolist()  # type: ignore[no-any-return]


def documents_of(path: Any, **options: Any) -> list[list[int]]:
    store = open_store(path, **options)
    return [store.document(i).tokens.tolist() for i in range(store.num_documents)]


@pytest.fixture
def expected(stream: Callable[..., Any]) -> list[int]:
    return stream(DOCUMENTS).tolist()  # type: ignore[no-any-return]


def llm_c(path: Path, tokens: list[int], magic: int = 20240520) -> Path:
    head = np.zeros(256, "<i4")
    head[:3] = magic, 1, len(tokens)
    path.write_bytes(head.tobytes() + np.array(tokens, "<u2" if magic == 20240520 else "<u4").tobytes())
    return path


# Stores.


def test_a_folder_means_its_train_split(tmp_path: Path, make_store: Make) -> None:
    root = make_store(tmp_path / "s", [[1], [2]], val=[[3]])
    assert documents_of(root) == documents_of(root / "train") == [[1, EOS], [2, EOS]]
    assert documents_of(root / "val") == [[3, EOS]]


def test_an_empty_split_opens_with_nothing_in_it(tmp_path: Path, make_store: Make) -> None:
    assert open_store(make_store(tmp_path / "s", [[1]]) / "val").num_tokens == 0


def test_a_folder_without_a_manifest_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no manifest\.json"):
        open_store(tmp_path)


def test_a_store_knows_its_own_dtype_and_eos(tmp_path: Path, make_store: Make) -> None:
    with pytest.raises(ConfigError, match="are for foreign files"):
        open_store(make_store(tmp_path / "s"), dtype="uint16")


def test_a_list_of_stores_is_one_store(tmp_path: Path, make_store: Make) -> None:
    parts = [make_store(tmp_path / "a", [[1], [2]]), make_store(tmp_path / "b", [[3]])]
    assert documents_of(parts) == [[1, EOS], [2, EOS], [3, EOS]]


def test_stores_of_other_dtypes_are_not_one_store(tmp_path: Path, make_store: Make) -> None:
    parts = [make_store(tmp_path / "a"), make_store(tmp_path / "b", vocab=100_000)]
    with pytest.raises(ConfigError, match="has dtype uint32"):
        open_store(parts)


def test_an_empty_list_is_no_store() -> None:
    with pytest.raises(ConfigError, match="empty list"):
        open_store([])


# Foreign files, in place.


def test_a_bare_file_is_read_with_the_dtype_given(tmp_path: Path, make_bare: Make, expected: list[int]) -> None:
    assert tokens_of(make_bare(tmp_path / "x.bin", DOCUMENTS), dtype="uint16") == expected


def test_a_bare_file_has_the_documents_that_eos_ends(tmp_path: Path, make_bare: Make) -> None:
    path = make_bare(tmp_path / "x.bin", DOCUMENTS)
    assert documents_of(path, dtype="uint16", eos=EOS) == [[*document, EOS] for document in DOCUMENTS]
    assert open_store(path, dtype="uint16", eos=EOS).locate(["x:2", "x:3"]) == {"x:2": [2], "x:3": []}


def test_tokens_after_the_last_eos_are_a_document_too(tmp_path: Path) -> None:
    np.array([1, EOS, 2, 3], "<u2").tofile(tmp_path / "x.bin")
    assert documents_of(tmp_path / "x.bin", dtype="uint16", eos=EOS) == [[1, EOS], [2, 3]]


def test_without_boundaries_tokens_are_read_and_documents_refused(tmp_path: Path, make_bare: Make) -> None:
    store = open_store(make_bare(tmp_path / "x.bin", DOCUMENTS), dtype="uint16")
    assert store.num_tokens == 11
    with pytest.raises(ConfigError, match="gristmill index"):
        _ = store.num_documents


def test_a_real_npy_tells_its_dtype_and_the_header_is_no_token(tmp_path: Path, expected: list[int]) -> None:
    np.save(tmp_path / "x.npy", np.array(expected, np.uint32))
    assert tokens_of(tmp_path / "x.npy") == expected
    assert len(documents_of(tmp_path / "x.npy", eos=EOS)) == 3


def test_a_headerless_npy_is_a_bare_file(tmp_path: Path, make_bare: Make, expected: list[int]) -> None:
    assert tokens_of(make_bare(tmp_path / "x.npy", DOCUMENTS), dtype="uint16") == expected


@pytest.mark.parametrize("name", ["x.bin", "x.idx", "x"])
def test_a_megatron_pair_opens_by_either_file_or_by_its_prefix(tmp_path: Path, make_bare: Make, name: str) -> None:
    make_bare(tmp_path / "x.bin", DOCUMENTS, idx=True)
    assert documents_of(tmp_path / name) == [[*document, EOS] for document in DOCUMENTS]


def test_a_megatron_pair_of_int32_can_be_read_as_uint32(tmp_path: Path, make_bare: Make) -> None:
    path = make_bare(tmp_path / "x.bin", DOCUMENTS, vocab=100_000, idx=True)
    assert open_store(path).dtype == np.int32
    assert open_store(path, dtype="uint32").dtype == np.uint32


def test_documents_of_an_llm_c_file_begin_with_eos(tmp_path: Path) -> None:
    path = llm_c(tmp_path / "x.bin", [EOS, 1, 2, EOS, 3])
    assert tokens_of(path) == [EOS, 1, 2, EOS, 3]
    assert documents_of(path) == [[EOS, 1, 2], [EOS, 3]]


def test_llama_3_files_of_llm_c_have_32_bits_and_no_known_eos(tmp_path: Path) -> None:
    path = llm_c(tmp_path / "x.bin", [128_000, 1, 128_000, 2], magic=20240801)
    assert tokens_of(path) == [128_000, 1, 128_000, 2]
    assert documents_of(path, eos=128_000) == [[128_000, 1], [128_000, 2]]


def test_a_list_of_files_is_one_store(tmp_path: Path, make_bare: Make, expected: list[int]) -> None:
    paths = [make_bare(tmp_path / f"{name}.bin", DOCUMENTS) for name in "ab"]
    assert tokens_of(paths, dtype="uint16") == expected * 2


def test_files_that_mark_documents_differently_are_not_one_store(tmp_path: Path, make_bare: Make) -> None:
    pair = make_bare(tmp_path / "a.bin", DOCUMENTS, idx=True)
    bare = make_bare(tmp_path / "b.bin", DOCUMENTS)
    with pytest.raises(ConfigError, match="different ways"):
        open_store([pair, bare], dtype="uint16", eos=EOS)


# What cannot be opened.


def test_a_missing_dtype_is_asked_for_with_an_example(tmp_path: Path, make_bare: Make) -> None:
    with pytest.raises(ConfigError, match='say dtype="uint16"'):
        open_store(make_bare(tmp_path / "x.bin", DOCUMENTS))


def test_a_file_that_does_not_tell_its_dtype_takes_it_from_those_beside_it(tmp_path: Path) -> None:
    np.arange(1000, dtype=np.uint32).tofile(tmp_path / "long.bin")
    np.arange(5, dtype=np.uint32).tofile(tmp_path / "short.bin")
    store = open_store([tmp_path / "short.bin", tmp_path / "long.bin"])
    assert store.dtype == np.uint32 and store.tokens(0, 6).tolist() == [0, 1, 2, 3, 4, 0]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        open_store(tmp_path / "x.bin", dtype="uint16")


def test_an_empty_file_holds_no_tokens(tmp_path: Path) -> None:
    (tmp_path / "x.bin").touch()
    with pytest.raises(StoreError, match="is empty"):
        open_store(tmp_path / "x.bin", dtype="uint16")


def test_a_file_of_half_tokens_was_cut_off_or_is_of_another_dtype(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(7))
    with pytest.raises(StoreError, match="no multiple of 2: cut off, or of another dtype"):
        open_store(tmp_path / "x.bin", dtype="uint16")


def test_a_dtype_that_an_npy_header_denies_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(5, dtype=np.uint16))
    with pytest.raises(ConfigError, match="its dtype is uint16, not uint32"):
        open_store(tmp_path / "x.npy", dtype="uint32")


@pytest.mark.parametrize(("array", "message"), [
    (np.ones(4, np.float32), "not float32"),
    (np.asfortranarray(np.ones((2, 3), np.uint16)), "by columns"),
    (np.arange(4, dtype=">u2"), "little-endian"),
])  # fmt: skip
def test_an_npy_that_is_no_stream_of_tokens_is_refused(tmp_path: Path, array: Any, message: str) -> None:
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(ConfigError, match=message):
        open_store(tmp_path / "x.npy")


def test_a_truncated_npy_is_named_with_its_sizes(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(5, dtype=np.uint16))
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-4])
    with pytest.raises(StoreError, match="134 bytes, 138 were expected"):
        open_store(tmp_path / "x.npy")


def test_a_damaged_npy_header_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00 no header at all")
    with pytest.raises(StoreError, match=r"x\.npy"):
        open_store(tmp_path / "x.npy")


HEADERS = {
    "a string without an end": b"{'descr': '<u2', 'fortran_order': False, 'shape': ('(((5,)",
    "brackets without an end": b"{'descr': '<u2', 'fortran_order': False, 'shape': (((((5,), }",
    "a shape below 0": b"{'descr': '<u2', 'fortran_order': False, 'shape': (-5,), }",
    "a shape of truths": b"{'descr': '<u2', 'fortran_order': False, 'shape': (True, None), }",
    "a shape beyond all": b"{'descr': '<u2', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
    "a dtype that is a list": b"{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (5,), }",
    "nothing but NUL": b"\0" * 60,
    "bytes that are no text": b"\xff\xfe" * 30,
}


@pytest.mark.parametrize("case", HEADERS)
def test_an_npy_header_that_makes_no_sense_is_named(tmp_path: Path, case: str) -> None:
    text = HEADERS[case].ljust(117) + b"\n"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(10))
    with pytest.raises((StoreError, ConfigError)):
        open_store(tmp_path / "x.npy")


@pytest.mark.parametrize("dtype", ["1/3", "(2,)u2", "u2,u2", "O", "", "M8[1/3s]", "é"])
def test_a_dtype_that_numpy_reads_more_into_is_refused(tmp_path: Path, make_bare: Make, dtype: str) -> None:
    path = make_bare(tmp_path / "x.bin", DOCUMENTS)
    with pytest.raises(ConfigError, match=r"dtype|integers"):
        open_store(path, dtype=dtype)


def test_an_llm_c_file_whose_header_promises_more_is_named(tmp_path: Path) -> None:
    path = llm_c(tmp_path / "x.bin", [EOS, 1, 2])
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(StoreError, match="1,028 bytes, 1,030 were expected"):
        open_store(path)


def test_a_megatron_index_that_was_cut_off_is_named(tmp_path: Path, make_bare: Make) -> None:
    path = make_bare(tmp_path / "x.bin", DOCUMENTS, idx=True)
    idx = path.with_suffix(".idx")
    idx.write_bytes(idx.read_bytes()[:-1])
    with pytest.raises(StoreError, match=r"x\.idx has .* it was cut off"):
        open_store(path)


def test_a_megatron_index_that_is_none_is_named(tmp_path: Path, make_bare: Make) -> None:
    path = make_bare(tmp_path / "x.bin", DOCUMENTS)
    path.with_suffix(".idx").write_bytes(bytes(100))
    with pytest.raises(StoreError, match=r"x\.idx is no Megatron index"):
        open_store(path)


def test_a_dtype_that_a_megatron_index_denies_is_refused(tmp_path: Path, make_bare: Make) -> None:
    with pytest.raises(ConfigError, match="its tokens are uint16, not uint32"):
        open_store(make_bare(tmp_path / "x.bin", DOCUMENTS, idx=True), dtype="uint32")


def test_a_megatron_bin_that_was_cut_off_is_refused(tmp_path: Path, make_bare: Make) -> None:
    path = make_bare(tmp_path / "x.bin", DOCUMENTS, idx=True)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(StoreError, match=r"x\.bin"):
        open_store(path)


# Names as people write them.


def test_braces_lists_and_tilde_open_as_one_store(
    tmp_path: Path, make_bare: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for i in range(3):
        make_bare(tmp_path / f"x-{i:02d}.bin", [[i]])
    expected = [0, EOS, 1, EOS, 2, EOS]
    assert tokens_of(f"{tmp_path}/x-{{00..02}}.bin", dtype="uint16") == expected
    assert tokens_of("~/x-{00..01}.bin::~/x-02.bin", dtype="uint16") == expected
    assert tokens_of(["~/x-00.bin", tmp_path / "x-{01,02}.bin"], dtype="uint16") == expected


def test_token_files_that_are_missing_from_a_range_are_named(tmp_path: Path, make_bare: Make) -> None:
    make_bare(tmp_path / "x-0.bin", [[1]])
    with pytest.raises(ConfigError, match=r"names 2 files that are not there: .*x-1.bin, .*x-2.bin"):
        open_store(tmp_path / "x-{0..2}.bin", dtype="uint16")


def test_megatron_prefixes_may_be_written_with_braces(tmp_path: Path, make_bare: Make) -> None:
    for i in range(2):
        make_bare(tmp_path / f"x-{i}.bin", [[i]], idx=True)
    assert documents_of(tmp_path / "x-{0,1}") == [[0, EOS], [1, EOS]]
