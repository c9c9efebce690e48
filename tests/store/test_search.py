"""The scan for a phrase against what Python finds in the decoded documents."""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import gristmill as gm
from gristmill.core.errors import ConfigError
from gristmill.store import search as searching
from gristmill.store.reader import Store
from gristmill.store.search import Search, search
from gristmill.testing import tiny_store

EOS = "<|endoftext|>"
# Letters of few kinds, so that phrases overlap themselves and tokens; and characters of one to four bytes.
TEXTS = st.text(st.sampled_from("aab é日🙂\n"), min_size=1, max_size=30)


def naive(store: Store, phrase: str) -> list[tuple[int, int]]:
    """(document, character) of every place of a phrase, overlapping ones too."""
    texts = texts_of(store)
    return [(i, at) for i, text in enumerate(texts) for at in range(len(text)) if text.startswith(phrase, at)]


@functools.lru_cache(maxsize=4)
def texts_of(store: Store) -> list[str]:
    return [document.text for document in store]


def check(store: Store, phrase: str) -> Search:
    """The search finds what is there, and says where."""
    expected, found = naive(store, phrase), search(store, phrase, limit=12)
    assert (found.hits, found.documents) == (len(expected), len({number for number, _ in expected})), phrase
    assert found.tokens == found.total == store.num_tokens
    for hit, (number, at) in zip(found.first, expected[:12], strict=True):
        assert hit.document == number
        text = texts_of(store)[number]
        assert text[:at].endswith(hit.before) and text[at + len(phrase) :].startswith(hit.after)
        if hit.token is not None:
            assert len(store.decode(store[number].tokens[: hit.token])) <= at or hit.token == 0
    return found


def byte_bpe(texts: list[str], size: int = 400) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[EOS], initial_alphabet=letters, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def made(folder: Path, texts: list[str], tokenizer: Tokenizer | str, **layout: object) -> Store:
    folder.mkdir(parents=True, exist_ok=True)
    rows = (json.dumps({"id": f"t{i}", "text": text}) + "\n" for i, text in enumerate(texts))
    (folder / "a.jsonl").write_text("".join(rows))
    if isinstance(tokenizer, Tokenizer):
        tokenizer.save(str(folder / "t.json"))
        tokenizer = str(folder / "t.json")
    source = {"name": "web", "paths": str(folder / "a.jsonl")}
    how = {"val_fraction": 0, "tokens_per_shard": 300, **layout}
    recipe = {"sources": [source], "tokenizer": tokenizer, "clean": "none", "dedup": [], "store": how}
    gm.prepare({"out": str(folder / "s"), **recipe}, progress=False)
    return gm.open(folder / "s")


def random_texts(count: int = 60) -> list[str]:
    rng = np.random.default_rng(7)
    words = ["ab", "aba", "aab ", "a", "é日", "🙂", " b\n", "the mill ", "grist "]
    return ["".join(rng.choice(words, rng.integers(1, 25))) for _ in range(count)]


@pytest.fixture(scope="module", params=["plain", "compressed", "wide"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Several shards of documents whose tokens are many letters long; of two bytes, compressed, and of four bytes."""
    texts, folder = random_texts(), tmp_path_factory.mktemp(request.param)
    if request.param != "wide":
        compression = "zstd" if request.param == "compressed" else "none"
        return made(folder, texts, byte_bpe(texts), compression=compression)
    narrow = made(folder, texts, byte_bpe(texts))
    path = folder / "wide.bin"
    np.concatenate([narrow.tokens(0, narrow.num_tokens).astype(np.uint32)]).tofile(path)
    wide = gm.open(path, dtype="uint32", eos=narrow.eos)
    return Store(wide.files, dataclasses.replace(wide.facts, tokenizer=narrow.facts.tokenizer))


@hypothesis.settings(max_examples=60)
@hypothesis.given(data=st.data())
def test_every_place_of_a_phrase_is_found_and_no_other(store: Store, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(texts_of(store)))
    start = data.draw(st.integers(0, len(text) - 1))
    inside = text[start : start + data.draw(st.integers(1, 40))]
    phrase = data.draw(st.one_of(st.just(inside), TEXTS, st.builds(str.__add__, st.just(inside), TEXTS)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "_PIECE", data.draw(st.sampled_from([1, 2, 3, 7, 50, 1 << 21])))
        found = check(store, phrase)
        few = search(store, phrase, limit=data.draw(st.integers(0, 3)))
    assert found.by_tokens and (few.hits, few.documents) == (found.hits, found.documents)
    assert few.first == found.first[: few.limit]


def test_no_match_spans_two_documents_though_no_eos_stands_between_them(tmp_path: Path) -> None:
    from gristmill.store.format import write_idx

    tokenizer = byte_bpe(["ab"], 257)
    ids = np.array(tokenizer.encode("xababy").ids, dtype=np.uint16)
    ids.tofile(tmp_path / "m.bin")
    with open(tmp_path / "m.idx", "wb") as file:
        write_idx(file, np.array([2, 2, 2]), "uint16")
    tokenizer.save(str(tmp_path / "t.json"))
    opened = gm.open(tmp_path / "m.bin")
    store = Store(opened.files, dataclasses.replace(opened.facts, tokenizer=str(tmp_path / "t.json")))
    assert [document.text for document in store] == ["xa", "ba", "by"]
    for phrase in ("ab", "ba", "a", "b", "xa", "by", "abab"):
        check(store, phrase)


def test_files_without_boundaries_are_searched_as_one_text(tmp_path: Path) -> None:
    tokenizer = byte_bpe(["ab"], 257)
    np.array(tokenizer.encode("to be or not to be").ids, dtype=np.uint16).tofile(tmp_path / "m.bin")
    tokenizer.save(str(tmp_path / "t.json"))
    opened = gm.open(tmp_path / "m.bin", dtype="uint16")
    found = search(Store(opened.files, dataclasses.replace(opened.facts, tokenizer=str(tmp_path / "t.json"))), "to be")
    assert (found.hits, [hit.document for hit in found.first]) == (2, [None, None])
    assert [(hit.token, hit.before, hit.after) for hit in found.first] == [
        (0, "", " or not to be"),
        (13, "to be or not ", ""),
    ]


def test_ids_that_are_no_token_have_no_text_as_in_decoding(tmp_path: Path) -> None:
    tokenizer = byte_bpe(["ab"], 257)
    ids = [*tokenizer.encode("ab").ids, 5000, 65_535, *tokenizer.encode("cd").ids]
    np.array([*ids, 0], dtype=np.uint16).tofile(tmp_path / "m.bin")
    tokenizer.save(str(tmp_path / "t.json"))
    opened = gm.open(tmp_path / "m.bin", dtype="uint16", eos=0)
    store = Store(opened.files, dataclasses.replace(opened.facts, tokenizer=str(tmp_path / "t.json")))
    assert store[0].text == "abcd"
    for phrase in ("bc", "abcd", "d"):
        check(store, phrase)


def test_texts_of_real_tokenizers_are_found(text_store: Store) -> None:
    for phrase in ("Grist", "<|endoftext|>", "日本", " 🙂\n", "  two", "x", "not there"):
        assert check(text_store, phrase).by_tokens


def test_what_no_bytes_spell_is_found_by_decoding(tmp_path: Path) -> None:
    """The first byte of a character alone is decoded as U+FFFD, which is not what its bytes say."""
    tokenizer = byte_bpe(["ab"], 257)
    half = tokenizer.encode("é").ids[:1]
    np.array([*tokenizer.encode("a").ids, *half, *tokenizer.encode("b�").ids, 0], np.uint16).tofile(tmp_path / "m.bin")
    tokenizer.save(str(tmp_path / "t.json"))
    opened = gm.open(tmp_path / "m.bin", dtype="uint16", eos=0)
    store = Store(opened.files, dataclasses.replace(opened.facts, tokenizer=str(tmp_path / "t.json")))
    assert store[0].text == "a\ufffdb\ufffd"
    assert not check(store, "\ufffd").by_tokens
    assert check(store, "b").by_tokens


def word_tokenizer() -> Tokenizer:
    """One that decodes by context: words are joined by blanks, and capitals are lost."""
    tokenizer = Tokenizer(models.WordLevel({EOS: 0, "[UNK]": 1, "the": 2, "mill": 3, "grist": 4}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    return tokenizer


def test_tokenizers_that_decode_by_context_have_their_documents_decoded(tmp_path: Path) -> None:
    np.array([2, 3, 0, 4, 2, 3, 3, 0], dtype=np.uint16).tofile(tmp_path / "m.bin")
    word_tokenizer().save(str(tmp_path / "t.json"))
    opened = gm.open(tmp_path / "m.bin", dtype="uint16", eos=0)
    store = Store(opened.files, dataclasses.replace(opened.facts, tokenizer=str(tmp_path / "t.json")))
    assert not check(store, "the mill").by_tokens
    assert check(store, "l m").hits == 1


def test_all_are_counted_though_few_are_shown(store: Store) -> None:
    found, whole = search(store, "a", limit=3), search(store, "a", limit=10_000)
    assert (found.hits, found.documents) == (whole.hits, whole.documents) and found.hits > 3
    assert found.first == whole.first[:3]
    assert search(store, "a", limit=0).first == []


def test_a_search_is_left_by_leaving_its_loop(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_PIECE", 10)
    for found in Search(store, "a"):
        assert found.tokens == 10
        break
    assert found.hits < search(store, "a").hits


@pytest.mark.parametrize(("phrase", "said"), [("", "one character"), (3, "one character"), ("\ud800", "surrogate")])
def test_what_is_no_phrase_is_refused(store: Store, phrase: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Search(store, phrase)


def test_a_store_without_a_tokenizer_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no tokenizer\.json"):
        Search(tiny_store(tmp_path), "a")
