"""Words: what each splitter makes of real and of odd text, and that batches do not matter."""

from __future__ import annotations

import dataclasses
import pydoc_data.topics
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.curate.characters import ALPHABETIC, KIND, SPACE, characters
from gristmill.curate.documents import Documents
from gristmill.curate.spacy_rules import spacy_rules
from gristmill.curate.words import ALPHA, PUNCT, SENTENCE_END, WORD, Words, words

TOPICS = list(pydoc_data.topics.topics.values())
ODD = [
    "",
    " \t\n",
    "(e.g., don't) can't. U.S.A. 20°C. 10km/h $5.00 US$3 C$4 5+6 a--b a---b x—y :-) ):",
    "see https://example.org/a?b=c, mail me@example.org or visit www.python.org/~x. 10.0.0.1 file.txt:80 os.path",
    "Grüße aus 東京。это «тест»… नमस्ते। ﷽ 👍🏽 e\u0301 \u2028 x\u00a0y\u3000z\x1cq\x85",
    "a" * 1000 + " " + "(" * 300 + " " + "ab-" * 200,
    "id cannot Im dont gonna user-id (id) id, _id_ 5m 5m. 3mm² 20% 1,000.50 a,b A.B a.B",
]


def documents(texts: list[str]) -> Documents:
    return Documents(
        pa.record_batch({"id": list(map(str, range(len(texts)))), "text": pa.array(texts, pa.large_string())})
    )


def spelt(batch: Documents, split: Words) -> list[list[str]]:
    """The words of each document as strings."""
    rows = zip(split.offsets[:-1], split.offsets[1:], strict=True)
    return [
        [
            batch.text(row).encode()[begin:end].decode()
            for begin, end in zip(split.starts[first:last], split.ends[first:last], strict=True)
        ]
        for row, (first, last) in enumerate(rows)
    ]


def split(texts: list[str], splitter: str) -> list[list[str]]:
    batch = documents(texts)
    return spelt(batch, words(batch, splitter))


@pytest.fixture(scope="session")
def english() -> Any:
    import spacy

    made = spacy.blank("en")
    made.add_pipe("sentencizer")
    made.max_length = 1 << 30
    return made


def test_gristmill_words() -> None:
    text = "Hello, don't stop... well-known snake_case 3.14, 1,000. 'b' ---- e\u0301te\u0301"
    expected = ["Hello", ",", "don't", "stop", "...", "well", "-", "known", "snake_case", "3.14", ",", "1,000", "."]
    assert split([text], "gristmill") == [[*expected, "'", "b", "'", "----", "e\u0301te\u0301"]]


def test_scripts_without_spaces_give_a_word_a_letter() -> None:
    assert split(["日本語 한국어 ไทย", "カ\u3099"], "gristmill") == [
        ["日", "本", "語", "한국어", "ไ", "ท", "ย"],
        ["カ\u3099"],
    ]


@given(st.lists(st.text(max_size=40), max_size=5))
@settings(deadline=None)
def test_gristmill_words_are_the_text_without_white_space(texts: list[str]) -> None:
    for text, found in zip(texts, split(texts, "gristmill"), strict=True):
        assert "".join(found) == "".join(text.split())


@given(st.lists(st.text(alphabet="aB1 '’_.,-#é東\u0301\n", max_size=60), min_size=1, max_size=5))
@settings(deadline=None)
def test_columns_tell_what_python_tells(texts: list[str]) -> None:
    batch = documents(texts)
    split_words = words(batch, "gristmill")
    flat = [word for found in spelt(batch, split_words) for word in found]
    assert split_words.chars.tolist() == [len(word) for word in flat]
    assert ((split_words.flags & ALPHA) != 0).tolist() == [any(c.isalpha() for c in word) for word in flat]
    hashes: dict[str, int] = dict(zip(flat, split_words.hashes.tolist(), strict=True))
    assert [hashes[word] for word in flat] == split_words.hashes.tolist()
    assert len(set(hashes.values())) == len(hashes)


def test_hashes_do_not_depend_on_where_a_word_stands() -> None:
    texts = ["counterrevolutionaries", "x counterrevolutionaries", "12345678 counterrevolutionaries abcdefgh"]
    batch = documents(texts)
    split_words = words(batch, "gristmill")
    assert len({split_words.hashes[i] for i in (0, 2, 4)}) == 1


def test_take_gives_the_words_of_the_documents_taken() -> None:
    batch = documents(TOPICS[:20])
    split_words = words(batch, "gristmill")
    for rows in ([3, 4, 5, 9], [], [19, 0], list(range(20))):
        taken = batch.take(np.array(rows, np.int64))
        assert spelt(taken, words(taken, "gristmill")) == [spelt(batch, split_words)[row] for row in rows]


def test_text_with_a_word_a_byte_finds_room() -> None:
    assert split(["#*" * 5000], "gristmill") == [list("#*" * 5000)]
    assert len(split([":,;" * 900], "spacy")[0]) == 2700


def test_spacy_words_are_spacys(english: Any) -> None:
    texts = TOPICS + ODD
    for text, found in zip(texts, split(texts, "spacy"), strict=True):
        assert found == [token.text for token in english.tokenizer(text) if not token.is_space], text[:80]


@given(st.text(alphabet="abzABS019.,:;-'’()[]$%°+*/@#~—–…_ é東", max_size=24).map(str.split))
@settings(deadline=None, max_examples=500)
def test_spacy_chunks_are_spacys(english: Any, chunks: list[str]) -> None:
    assert split(chunks, "spacy") == [[token.text for token in english.tokenizer(chunk)] for chunk in chunks]


PIECES = [
    "don't",
    "cannot",
    "e.g.",
    "i.e.",
    "U.S.",
    "10am",
    "He’ll",
    "):",
    ":-)",
    "(;",
    "[:",
    ":]",
    "^_^",
    "’s",
    "km/h",
    "8.8.4.4",
    "192.168.0.1",
    "172.16.0.1",
    "172.32.0.1",
    "0.1.2.3",
    "1.02.003.4",
    "223.255.1.254",
    "127.0.1.in",
    "http",
    "git+ssh",
    "x",
    "://",
    "@",
    ":8080",
    ":1",
    "/a?b#c",
    "www.",
    "-a.b",
    "a_.org",
    "a-b.co.uk",
    "é.fr",
    ".com",
    ".Org",
    ".ëë",
    "münchen",
    "東京",
    ".jp",
    "٣",
    "“",
    "”",
    "…",
    ".",
    "..",
    ",",
    "(",
    ")",
    "-",
    "/",
    "'",
]


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
@settings(deadline=None, max_examples=1000)
def test_addresses_and_special_cases_are_spacys(english: Any, chunk: str) -> None:
    assert split([chunk], "spacy") == [[token.text for token in english.tokenizer(chunk)]]


def test_stand_ins_are_settled_wherever_they_stand(english: Any) -> None:
    """Chunks that only Python can split (of digits of another script, or long), first, last, alone and in between."""
    asked = ["x٣.com:٣٣", "a-" * 200 + "b", "表7.1/a-b"]
    texts = [*asked, " ".join(asked), "", "plain words " + asked[0], asked[1] + " plain", " ".join(["a", *asked] * 50)]
    for text, found in zip(texts, split(texts, "spacy"), strict=True):
        assert found == [token.text for token in english.tokenizer(text) if not token.is_space]


def test_hardly_anything_is_left_to_python() -> None:
    from gristmill.curate.spacy_words import ChunkTable

    table, asked = ChunkTable(spacy_rules(), 1 << 20), []
    learn = table._learn
    table._learn = lambda chunks: (asked.extend(chunks), learn(chunks))[1]  # type: ignore[method-assign]
    table.split(documents(TOPICS))
    assert len(asked) < len({chunk for text in TOPICS for chunk in text.split()}) / 500


def test_spacy_flags(english: Any) -> None:
    batch = documents(TOPICS[:10] + ODD)
    split_words = words(batch, "spacy")
    tokens = [t for row in range(len(batch)) for t in english(batch.text(row)) if not t.is_space]
    ends = english.get_pipe("sentencizer").punct_chars
    assert ((split_words.flags & PUNCT) != 0).tolist() == [token.is_punct for token in tokens]
    assert ((split_words.flags & SENTENCE_END) != 0).tolist() == [token.text in ends for token in tokens]
    assert ((split_words.flags & ALPHA) != 0).tolist() == [any(c.isalpha() for c in t.text) for t in tokens]
    assert split_words.flags[0] & WORD


def test_a_full_table_forgets_and_gives_the_same() -> None:
    from gristmill.curate.spacy_words import ChunkTable

    table = ChunkTable(spacy_rules(), max_words=50)
    texts = [" ".join(random.Random(seed).sample(TOPICS[0].split(), 60)) for seed in range(4)] + TOPICS[:5]
    batch = documents(texts)
    assert spelt(batch, table.split(batch)) == split(texts, "spacy")


def test_an_unknown_spacy_is_asked_for_everything() -> None:
    from gristmill.curate.spacy_words import ChunkTable

    batch = documents(ODD)
    table = ChunkTable(dataclasses.replace(spacy_rules(), known=False), 1 << 20)
    assert spelt(batch, table.split(batch)) == split(ODD, "spacy")


def test_special_cases_of_one_token_stay_one(english: Any) -> None:
    """What compiled code takes for granted of the special cases that spaCy looks for among tokens."""
    from spacy.tokenizer import Tokenizer

    own = english.tokenizer
    plain = Tokenizer(english.vocab, {}, own.prefix_search, own.suffix_search, own.infix_finditer, None, own.url_match)
    for rule, tokens in own.rules.items():
        if own.find_prefix(rule) or own.find_suffix(rule) or own.find_infix(rule):
            assert len(plain(rule)) > 1 or len(tokens) == 1


def test_characters_agree_with_python() -> None:
    table = characters()
    for code in [*range(0x3100), *range(0x1F000, 0x1F700)]:
        character = chr(code)
        assert bool(table[code] & ALPHABETIC) == character.isalpha()
        assert (table[code] & KIND == SPACE) == character.isspace()


def test_an_unknown_splitter_is_named() -> None:
    with pytest.raises(ConfigError, match="did you mean 'spacy'"):
        words(documents(["a"]), "spcay")
