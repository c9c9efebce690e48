"""The dtype of files without a header: found where the bytes tell it, asked for where they do not."""

import pydoc_data.topics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gristmill as gm
from gristmill.store.opening import find_dtype
from gristmill.tokenize.tokenizer import load_tokenizer

TEXT = "\n".join(pydoc_data.topics.topics.values())


@pytest.fixture(scope="module")
def ids():
    return {name: load_tokenizer(name).encode_batch([TEXT])[0] for name in ("byte", "gpt2")}


def saved(path, tokens, dtype):
    np.asarray(tokens).astype(dtype).tofile(path)
    return path


@pytest.mark.parametrize("tokenizer", ["byte", "gpt2"])
@pytest.mark.parametrize(
    ("dtype", "found"),
    [("uint16", "uint16"), ("int32", "uint32"), ("uint32", "uint32"), ("int64", "uint64")],
)
def test_real_tokens_tell_their_dtype(tmp_path, ids, tokenizer, dtype, found):
    path = saved(tmp_path / "tokens.bin", ids[tokenizer], dtype)
    assert find_dtype(path) == found
    store = gm.open(path)
    assert np.array_equal(store.tokens(0, store.num_tokens), ids[tokenizer])


@pytest.mark.parametrize("vocab", [4, 65, 32_000, 50_257, 65_024])
def test_uint16_of_any_vocabulary_is_never_taken_for_something_else(tmp_path, vocab):
    tokens = np.random.default_rng(vocab).integers(0, vocab, 200_000)
    assert find_dtype(saved(tmp_path / "tokens.bin", tokens, "uint16")) == "uint16"


@pytest.mark.parametrize("vocab", [4, 50_257, 100_277, 151_936, 262_144])
def test_int32_of_any_vocabulary_is_found(tmp_path, vocab):
    tokens = np.random.default_rng(vocab).integers(0, vocab, 20_000)
    assert find_dtype(saved(tmp_path / "tokens.bin", tokens, "int32")) == "uint32"


def test_counting_up_is_no_trap(tmp_path):
    assert find_dtype(saved(tmp_path / "up.bin", np.arange(1000), "uint16")) == "uint16"
    assert find_dtype(saved(tmp_path / "up32.bin", np.arange(1000), "int32")) == "uint32"


@given(st.lists(st.integers(0, 255), min_size=1, max_size=400))
def test_bytes_in_no_order_are_not_taken_for_tokens_of_more_bytes(tmp_path_factory, tokens):
    mixed = np.random.default_rng(len(tokens)).permutation(tokens)
    path = saved(tmp_path_factory.mktemp("bytes") / "tokens.bin", mixed, "uint8")
    assert find_dtype(path) is None


def test_text_in_single_bytes_is_asked_about(tmp_path):
    path = tmp_path / "text.bin"
    path.write_bytes(TEXT.encode())
    with pytest.raises(gm.ConfigError, match=r'text.bin has no header.*say dtype="uint16"'):
        gm.open(path)
    assert gm.open(path, dtype="uint8").num_tokens == len(TEXT.encode())


def test_the_whole_range_of_uint16_and_a_few_tokens_are_asked_about(tmp_path):
    everything = np.random.default_rng(0).integers(0, 65_536, 100_000)
    assert find_dtype(saved(tmp_path / "all.bin", everything, "uint16")) is None
    assert find_dtype(saved(tmp_path / "few.bin", range(20), "uint16")) is None


def test_headers_and_indices_speak_for_themselves(tmp_path, ids, make_documents, make_bare):
    np.save(tmp_path / "real.npy", ids["gpt2"].astype("int32"))
    assert gm.open(tmp_path / "real.npy").dtype == np.int32
    bare = make_bare(tmp_path / "megatron.bin", make_documents(), idx=True)
    assert gm.open(bare).dtype == np.uint16


def test_a_list_is_one_store_and_a_missing_or_empty_file_is_named(tmp_path, ids):
    paths = [saved(tmp_path / f"{i}.bin", ids["gpt2"], "uint16") for i in range(3)]
    assert gm.open(paths).num_tokens == 3 * len(ids["gpt2"])
    with pytest.raises(gm.ConfigError, match=r"nothing\.bin does not exist"):
        gm.open(tmp_path / "nothing.bin")
    (tmp_path / "empty.bin").touch()
    with pytest.raises(gm.StoreError, match="is empty"):
        gm.open(tmp_path / "empty.bin")


def test_the_dtype_of_files_named_with_braces_is_found(tmp_path):
    for i in range(2):
        np.random.default_rng(i).integers(0, 50_000, 5000).astype(np.uint32).tofile(tmp_path / f"x-{i}.bin")
    store = gm.open(tmp_path / "x-{0..1}.bin")
    assert store.dtype == np.uint32 and store.num_tokens == 10_000
