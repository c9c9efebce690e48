from __future__ import annotations

import json
import multiprocessing
import pickle
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken_ext import openai_public
from tokenizers import Tokenizer as HFTokenizer

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, SourceError
from gristmill.core.texts import Texts, byte_letters
from gristmill.tokenize import Tokenizer, encode_batch, load_tokenizer
from gristmill.tokenize import tokenizer as memory
from gristmill.tokenize.backends import Encoded, GigatokenEncoder
from gristmill.tokenize.encodings import ENCODINGS
from gristmill.tokenize.kernels import narrow_marks, replace_marks
from gristmill.tokenize.tokenizer import BLIND_BYTES, GROWTH, LOOK_EVERY, Budget, flat_texts

Bpe = Callable[..., HFTokenizer]
Saved = Callable[..., str]

LITERALS = "a<|endoftext|>b <|pad|> </s> <|endoftext|>"


def rows(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    ids, offsets = tokenizer.encode_batch(texts)
    return [ids[a:b].tolist() for a, b in pairwise(offsets)]


@pytest.fixture(scope="session")
def reference(gpt2: Tokenizer) -> tiktoken.Encoding:
    """GPT-2 as tiktoken defines it: tiktoken's pattern, on the ranks of the installed vocabulary."""
    letters = HFTokenizer.from_str(gpt2.to_json()).get_vocab()
    to_byte = {letter: byte for byte, letter in enumerate(byte_letters())}
    ranks = {bytes(to_byte[c] for c in t): i for t, i in letters.items() if i != 50256}
    return tiktoken.Encoding("reference", pat_str=openai_public.r50k_pat_str, mergeable_ranks=ranks, special_tokens={})


class TestGpt2:
    def test_golden_ids(self, gpt2: Tokenizer) -> None:
        assert rows(gpt2, ["Hello world", "", " Hello  world\n"]) == [
            [15496, 995],
            [],
            [18435, 220, 995, 198],
        ]

    def test_facts(self, gpt2: Tokenizer) -> None:
        assert (gpt2.name, gpt2.vocab_size, gpt2.eos, gpt2.backend) == ("gpt2", 50257, 50256, "gigatoken")
        assert list(gpt2.versions) == ["gigatoken"]
        assert gpt2.note == ""

    def test_fingerprint_is_pinned(self, gpt2: Tokenizer) -> None:
        assert gpt2.fingerprint == "757b00f5bd0b35662a1cd6b5872d80dc"

    def test_r50k_base_is_the_same_tokenizer(self, gpt2: Tokenizer) -> None:
        assert load_tokenizer("r50k_base").fingerprint == gpt2.fingerprint

    @settings(max_examples=300, deadline=None)
    @given(texts=st.lists(st.text(st.characters(codec="utf-8")), max_size=5))
    def test_equals_tiktoken_on_any_text(self, gpt2: Tokenizer, reference: tiktoken.Encoding, texts: list[str]) -> None:
        assert rows(gpt2, texts) == [reference.encode_ordinary(text) for text in texts]

    @settings(max_examples=300, deadline=None)
    @given(text=st.text(alphabet="aB' \t\n\r019.,_<|>é漢\u00a0\u3000\u200b\u0301sdmtlvre", max_size=60))
    def test_equals_tiktoken_where_words_are_cut(
        self, gpt2: Tokenizer, reference: tiktoken.Encoding, text: str
    ) -> None:
        (ids,) = rows(gpt2, [text])
        assert ids == reference.encode_ordinary(text)
        assert gpt2.decode(ids) == text


class TestEncodeBatch:
    def test_shapes_and_dtypes(self, gpt2: Tokenizer) -> None:
        ids, offsets = gpt2.encode_batch(["one", "", "two words"])
        assert ids.dtype == np.uint16
        assert offsets.dtype == np.int64
        assert offsets.tolist() == [0, 1, 1, 3]

    def test_no_documents(self, gpt2: Tokenizer) -> None:
        ids, offsets = gpt2.encode_batch([])
        assert (ids.dtype, ids.tolist(), offsets.tolist()) == (np.dtype(np.uint16), [], [0])

    def test_arrow_arrays_and_lists_agree(self, gpt2: Tokenizer) -> None:
        texts = ["Hello world", "naïve café", "", "漢字"]
        expected = rows(gpt2, texts)
        for kind in (pa.string(), pa.large_string()):
            array = pa.array(["cut off", *texts, "too"], kind).slice(1, 4)
            assert rows(gpt2, array) == expected

    def test_an_eos_from_a_backend_is_refused(self, gpt2: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
        forged = iter([[1, 50256, 2, 50256], [1], [2, 50256]])  # of both texts together, and of each by itself
        monkeypatch.setattr(GigatokenEncoder, "_ids", lambda *_: np.array(next(forged), np.uint32))
        with pytest.raises(SourceError, match="row 1 of the batch"):
            gpt2.encode_batch(["a", "b"])

    @pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
    def test_an_eos_among_marks_is_found(self, dtype: type[np.unsignedinteger[Any]]) -> None:
        ids, replace = np.array([1, 7, 3, 9, 7], np.uint32), narrow_marks if dtype is np.uint16 else replace_marks
        out, offsets = np.empty(5, dtype), np.zeros(3, np.int64)
        assert replace(ids, 7, 9, out, offsets) == -1
        assert (
            replace(ids, 7, 8, out, offsets) == 2 and out.tolist() == [1, 8, 3, 9, 8] and offsets.tolist() == [0, 2, 5]
        )

    def test_the_encoder_is_rebuilt_when_its_memory_is_spent(
        self, gpt2: Tokenizer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tokenizer = pickle.loads(pickle.dumps(gpt2))
        first = rows(tokenizer, ["Hello world"])
        before = tokenizer._encoder
        monkeypatch.setattr("gristmill.tokenize.tokenizer.Budget.spend", lambda self, size: True)
        rows(tokenizer, ["Hello world"])
        assert rows(tokenizer, ["Hello world"]) == first
        assert tokenizer._encoder is not before


class TestByte:
    def test_ids_are_bytes(self, byte: Tokenizer) -> None:
        assert rows(byte, ["AZ é", ""]) == [list("AZ é".encode()), []]

    def test_facts(self, byte: Tokenizer) -> None:
        assert (byte.vocab_size, byte.eos, byte.backend, byte.dtype) == (
            257,
            256,
            "byte",
            np.dtype(np.uint16),
        )
        assert byte.versions == {}

    def test_json_decodes_every_byte_and_the_eos(self, byte: Tokenizer) -> None:
        decoder = HFTokenizer.from_str(byte.to_json())
        assert decoder.decode([*"naïve\n".encode(), 256], skip_special_tokens=False) == "naïve\n<|endoftext|>"
        assert sorted(decoder.get_vocab().values()) == list(range(257))

    @given(text=st.text(st.characters(codec="utf-8")))
    def test_decodes_what_it_encodes(self, byte: Tokenizer, text: str) -> None:
        assert byte.decode(byte.encode_batch([text])[0]) == text


class TestSpecialTextStaysText:
    @pytest.mark.parametrize("backend", ["gigatoken", "tiktoken"])
    def test_gpt2(self, backend: str) -> None:
        tokenizer = load_tokenizer("gpt2", backend=backend)
        (ids,) = rows(tokenizer, [LITERALS])
        assert tokenizer.backend == backend
        assert tokenizer.eos not in ids
        assert tokenizer.decode(ids) == LITERALS

    @pytest.mark.parametrize("backend", ["gigatoken", "tokenizers"])
    def test_tokenizer_json(self, known_json: Path, backend: str) -> None:
        tokenizer = load_tokenizer(str(known_json), backend=backend)
        pad = HFTokenizer.from_file(str(known_json)).token_to_id("<|pad|>")
        (ids,) = rows(tokenizer, [LITERALS])
        assert not {tokenizer.eos, pad} & set(ids)
        assert tokenizer.decode(ids) == LITERALS

    def test_byte(self, byte: Tokenizer) -> None:
        assert rows(byte, [LITERALS]) == [list(LITERALS.encode())]

    @pytest.mark.parametrize("backend", ["gigatoken", "tokenizers"])
    def test_added_tokens_that_are_not_special_keep_their_ids(self, known_json: Path, backend: str) -> None:
        tokenizer = load_tokenizer(str(known_json), backend=backend)
        tool = HFTokenizer.from_file(str(known_json)).token_to_id("<tool>")
        assert tool in rows(tokenizer, ["a <tool> b"])[0]


class TestTokenizerJson:
    def test_known_to_gigatoken(self, known_json: Path) -> None:
        tokenizer = load_tokenizer(str(known_json))
        assert (tokenizer.backend, tokenizer.note, tokenizer.name) == (
            "gigatoken",
            "",
            known_json.parent.name,
        )

    def test_unknown_to_gigatoken_falls_back_and_says_so(self, unknown_json: Path) -> None:
        tokenizer = load_tokenizer(str(unknown_json))
        assert tokenizer.backend == "tokenizers"
        assert "gigatoken does not know" in tokenizer.note
        assert "using tokenizers, about 100 times slower" in tokenizer.note
        assert list(tokenizer.versions) == ["tokenizers"]

    @pytest.mark.parametrize("fixture", ["known_json", "unknown_json"])
    def test_equals_the_tokenizers_library(self, fixture: str, request: pytest.FixtureRequest) -> None:
        path = request.getfixturevalue(fixture)
        texts = ["the cat sat on 123 mats", "  let us\n\n see", "漢字 é", ""]
        theirs = HFTokenizer.from_file(str(path)).encode_batch(texts, add_special_tokens=False)
        assert rows(load_tokenizer(str(path)), texts) == [encoding.ids for encoding in theirs]

    def test_a_directory_is_as_good_as_its_file(self, known_json: Path) -> None:
        by_file, by_folder = load_tokenizer(str(known_json)), load_tokenizer(str(known_json.parent))
        assert (by_file.fingerprint, by_file.name) == (by_folder.fingerprint, by_folder.name)

    def test_backends_share_a_fingerprint(self, known_json: Path) -> None:
        fast = load_tokenizer(str(known_json))
        assert load_tokenizer(str(known_json), backend="tokenizers").fingerprint == fast.fingerprint

    def test_gpt2_by_file_is_gpt2(self, gpt2: Tokenizer, tmp_path: Path) -> None:
        path = tmp_path / "tokenizer.json"
        path.write_text(gpt2.to_json(), encoding="utf-8")
        assert load_tokenizer(str(path)).fingerprint == gpt2.fingerprint

    def test_no_template_is_applied(self, bpe: Bpe, saved: Saved) -> None:
        single = [{"SpecialToken": {"id": "<|pad|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
        special = {"<|pad|>": {"id": "<|pad|>", "ids": [321], "tokens": ["<|pad|>"]}}
        template = {
            "type": "TemplateProcessing",
            "single": single,
            "pair": single,
            "special_tokens": special,
        }
        path = saved(bpe("[a-z]+|[^a-z]+"), post_processor=template)
        (ids,) = rows(load_tokenizer(str(path)), ["cat"])
        assert 321 not in ids

    def test_dropout_is_off(self, bpe: Bpe, saved: Saved) -> None:
        path = saved(bpe("[a-z]+|[^a-z]+"), dropout=0.9)
        tokenizer = load_tokenizer(str(path))
        assert len({tuple(rows(tokenizer, ["the cat sat on the mat"])[0]) for _ in range(10)}) == 1


class TestPickle:
    def test_content_travels_and_the_encoder_does_not(self, gpt2: Tokenizer) -> None:
        copy = pickle.loads(pickle.dumps(gpt2))
        assert copy._encoder is None
        assert rows(copy, ["Hello world"]) == [[15496, 995]]
        assert (copy.fingerprint, copy.backend, copy.to_json()) == (
            gpt2.fingerprint,
            gpt2.backend,
            gpt2.to_json(),
        )

    def test_it_needs_no_file_any_more(self, unknown_json: Path) -> None:
        tokenizer = load_tokenizer(str(unknown_json))
        expected = rows(tokenizer, ["the cat"])
        data = pickle.dumps(tokenizer)
        unknown_json.unlink()
        assert rows(pickle.loads(data), ["the cat"]) == expected

    def test_in_another_process(self, gpt2: Tokenizer) -> None:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            ids, _ = pool.apply(gpt2.encode_batch, (["Hello world"],))
        assert ids.tolist() == [15496, 995]

    def test_a_process_that_encodes_otherwise_is_refused(
        self, gpt2: Tokenizer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = pickle.dumps(gpt2)
        tamper(monkeypatch)
        with pytest.raises(ConfigError, match="install the same version of gigatoken"):
            pickle.loads(data).encode_batch(["Hello world"])


def tamper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the fast path change one id."""
    honest = GigatokenEncoder.encode

    def encode(self: GigatokenEncoder, texts: Texts, eos: int, order: Ints | None = None) -> Encoded:
        found = honest(self, texts, eos, order)
        changed = found.ids.copy()
        changed[1] = 7
        return found._replace(ids=changed)

    monkeypatch.setattr(GigatokenEncoder, "encode", encode)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing is kept yet."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))


@pytest.mark.usefixtures("fresh")
class TestKept:
    def test_a_tokenizer_is_checked_once_a_machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        first = load_tokenizer("gpt2")
        monkeypatch.setattr(Tokenizer, "check", lambda self: pytest.fail("checked again"))
        second = load_tokenizer("gpt2")
        assert rows(second, ["Hello world"]) == [[15496, 995]] and second.to_json() == first.to_json()
        facts = ("fingerprint", "vocab_size", "eos", "backend", "versions", "note")
        assert [getattr(first, name) for name in facts] == [getattr(second, name) for name in facts]

    def test_an_encoder_that_differs_from_the_one_that_was_checked_is_refused(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        load_tokenizer("gpt2")
        tamper(monkeypatch)
        with pytest.raises(ConfigError, match="gives other ids"):
            load_tokenizer("gpt2").encode_batch(["Hello world"])

    def test_with_another_version_of_a_library_it_is_checked_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        load_tokenizer("gpt2")
        monkeypatch.setattr(memory, "installed_versions", lambda: {"gigatoken": "99", "tiktoken": "1"})
        tamper(monkeypatch)
        with pytest.raises(ConfigError, match="token 1 of 'Hello world' is 7 against 995"):
            load_tokenizer("gpt2")

    def test_another_content_under_the_same_name_is_checked_anew(self, tmp_path: Path, gpt2: Tokenizer) -> None:
        path = tmp_path / "own.json"
        path.write_text(gpt2.to_json(), encoding="utf-8")
        before = load_tokenizer(str(path))
        content = json.loads(gpt2.to_json())
        content["model"]["merges"] = content["model"]["merges"][:-1]
        path.write_text(json.dumps(content), encoding="utf-8")
        after = load_tokenizer(str(path))
        assert after.fingerprint != before.fingerprint == load_tokenizer("gpt2").fingerprint

    def test_a_short_one_is_not_kept(self, tmp_path: Path, known_json: Path) -> None:
        load_tokenizer(str(known_json))
        load_tokenizer("byte")
        assert not list(tmp_path.glob("tokenizer-*"))


class TestCheck:
    @pytest.mark.usefixtures("fresh")
    def test_a_fast_path_that_differs_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tamper(monkeypatch)
        with pytest.raises(ConfigError, match="token 1 of 'Hello world' is 7 against 995") as error:
            load_tokenizer("gpt2")
        assert "backend='tiktoken'" in str(error.value)

    def test_the_reference_still_loads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tamper(monkeypatch)
        assert rows(load_tokenizer("gpt2", backend="tiktoken"), ["Hello world"]) == [[15496, 995]]

    def test_text_must_come_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Tokenizer, "decode", lambda self, ids: "other")
        with pytest.raises(ConfigError, match="came back from its ids as 'other'"):
            load_tokenizer("byte")


class TestNames:
    def test_a_slip_is_understood(self) -> None:
        with pytest.raises(ConfigError, match="did you mean 'gpt2'"):
            load_tokenizer("gtp2")

    def test_a_missing_file(self) -> None:
        with pytest.raises(ConfigError, match="there is no such file"):
            load_tokenizer("nowhere/tokenizer.json")

    def test_an_unknown_backend(self) -> None:
        with pytest.raises(ConfigError, match="did you mean 'tiktoken'"):
            load_tokenizer("gpt2", backend="tiktokn")

    def test_a_forced_backend_that_cannot(self, unknown_json: Path) -> None:
        with pytest.raises(ConfigError, match="leave backend= out, or give 'tokenizers'"):
            load_tokenizer(str(unknown_json), backend="gigatoken")

    def test_named_encodings_have_their_own_eos(self) -> None:
        assert load_tokenizer("byte", eos=256).eos == 256
        with pytest.raises(ConfigError, match="leave eos= out"):
            load_tokenizer("byte", eos=0)

    def test_every_encoding_is_one_that_tiktoken_knows(self) -> None:
        assert set(ENCODINGS) <= set(tiktoken.list_encoding_names())


def test_stored_json_is_json(gpt2: Tokenizer) -> None:
    assert json.loads(gpt2.to_json())["model"]["type"] == "BPE"


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_slices_begin_at_zero(kind: pa.DataType) -> None:
    flat = flat_texts(pa.array(["skip", "é", "", "bc"], kind).slice(1))
    assert flat.offsets.tolist() == [0, 2, 2, 4]
    assert list(flat.strings()) == ["é", "", "bc"]


def test_arrow_buffers_are_not_copied() -> None:
    array = pa.array(["ab", "c"], pa.large_string())
    flat = flat_texts(array)
    assert np.shares_memory(flat.data, np.frombuffer(array.buffers()[2], np.uint8))


def test_chunks_are_joined() -> None:
    assert list(flat_texts(pa.chunked_array([["a"], ["b", "c"]])).strings()) == ["a", "b", "c"]


def test_null_is_empty() -> None:
    assert list(flat_texts(pa.array(["a", None])).strings()) == ["a", ""]


def test_only_empty_texts() -> None:
    assert list(flat_texts(["", ""]).strings()) == ["", ""]


def test_other_types_are_refused() -> None:
    with pytest.raises(ConfigError, match="not int64"):
        flat_texts(pa.array([1, 2]))


def test_lone_surrogates_name_their_row() -> None:
    with pytest.raises(SourceError, match="Row 1 of the batch is not valid Unicode"):
        flat_texts(["fine", "bad \ud800"])


def test_growth_past_the_bound_ends_an_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(started_with=1000)
    monkeypatch.setattr(memory, "resident_bytes", lambda: 1001 + GROWTH)
    assert not budget.spend(LOOK_EVERY - 1)
    assert budget.spend(1)


def test_a_process_that_does_not_grow_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(started_with=1000)
    monkeypatch.setattr(memory, "resident_bytes", lambda: 1000 + GROWTH)
    assert not any(budget.spend(LOOK_EVERY) for _ in range(100))


def test_where_memory_cannot_be_read_bytes_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "resident_bytes", lambda: None)
    budget = Budget(started_with=None)
    assert not budget.spend(BLIND_BYTES - LOOK_EVERY)
    assert budget.spend(LOOK_EVERY)


def test_text_becomes_tokens_in_its_place(gpt2: Tokenizer) -> None:
    batch = pa.record_batch({"id": ["a", "b"], "text": ["Hello world", "Hello"], "n": [1, 2]})
    encoded = encode_batch(batch, gpt2)
    assert encoded.schema.names == ["id", "tokens", "n"]
    assert encoded.column("tokens").to_pylist() == [[15496, 995, 50256], [15496, 50256]]
    assert encoded.column("id").to_pylist() == ["a", "b"]


def test_tokens_are_large_lists_of_the_smallest_type(gpt2: Tokenizer) -> None:
    encoded = encode_batch(pa.record_batch({"text": ["a"]}), gpt2)
    assert encoded.schema.field("tokens").type == pa.large_list(pa.uint16())


def test_empty_documents_have_no_eos(byte: Tokenizer) -> None:
    encoded = encode_batch(pa.record_batch({"text": ["", "a", None, ""]}), byte)
    assert encoded.column("tokens").to_pylist() == [[], [97, 256], [], []]


def test_batches_without_rows(byte: Tokenizer) -> None:
    encoded = encode_batch(pa.record_batch({"text": pa.array([], pa.string())}), byte)
    assert encoded.num_rows == 0


def test_a_slice_of_a_batch(byte: Tokenizer) -> None:
    batch = pa.record_batch({"text": pa.array(["x", "ab", "c", "y"], pa.large_string())}).slice(1, 2)
    assert encode_batch(batch, byte).column("tokens").to_pylist() == [[97, 98, 256], [99, 256]]


def test_special_text_makes_no_boundary(gpt2: Tokenizer) -> None:
    encoded = encode_batch(pa.record_batch({"text": ["a<|endoftext|>b"]}), gpt2)
    assert encoded.column("tokens").to_pylist()[0].count(gpt2.eos) == 1


def test_a_batch_without_text(byte: Tokenizer) -> None:
    with pytest.raises(ConfigError, match="no column 'text'"):
        encode_batch(pa.record_batch({"txt": ["a"]}), byte)


@given(st.lists(st.text("ab", max_size=5), max_size=8))
def test_ended_documents_and_those_of_batches_are_the_obvious_loop(strings: list[str]) -> None:
    tokenizer = load_tokenizer("byte")
    ids, offsets = tokenizer.encode_ended(strings)
    assert ids.dtype == np.uint16
    assert [ids[a:b].tolist() for a, b in pairwise(offsets)] == [[*text.encode(), 256] for text in strings]
    tokens = encode_batch(pa.record_batch({"text": pa.array(strings, pa.large_string())}), tokenizer).column("tokens")
    assert tokens.to_pylist() == [[*text.encode(), 256] if text else [] for text in strings]
