"""Each library behind one method, and which of them is chosen."""

from __future__ import annotations

import dataclasses
import functools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.core.texts import Texts, from_strings
from gristmill.tokenize import backends
from gristmill.tokenize.backends import (
    LibraryErrors,
    backend_versions,
    build_encoder,
    choose_backend,
    join,
    without_eos,
    without_silent,
)
from gristmill.tokenize.definition import Definition
from gristmill.tokenize.encodings import named_definition
from gristmill.tokenize.files import local_definition

TEXTS = from_strings(["The mill grinds.", "", "naïve <|endoftext|> text\n"])


@pytest.fixture(scope="module")
def gpt2() -> Definition:
    return named_definition("gpt2")


def test_all_backends_give_the_same_ids_and_offsets(gpt2: Definition) -> None:
    ours, other = (build_encoder(gpt2, name).encode(TEXTS, 50256) for name in ("gigatoken", "tiktoken"))
    assert ours.offsets[1] + 1 == ours.offsets[2] and len(ours.ids) == ours.offsets[-1]
    assert all(map(np.array_equal, ours, other)) and ours.ends == len(TEXTS)


def test_gigatoken_gives_slices_of_columns_their_own_documents(gpt2: Definition) -> None:
    encoder = build_encoder(gpt2, "gigatoken")
    strings = [text[: 7 * i] for i, text in enumerate(topics.values())] + ["", "é" * 9, "日本語", " \n\t ", "🙂"] * 3
    texts = from_strings(strings)
    within = Texts(texts.data, texts.offsets[3:])  # as a slice of a column lies
    for each, first in ((texts, 0), (within, 3), (Texts(texts.data, texts.offsets[:1]), len(strings))):
        expected = [encoder.encode(from_strings([string]), 50256)[0].tolist() for string in strings[first:]]
        ids, offsets, _ = encoder.encode(each, 50256)
        assert [ids[a:b].tolist() for a, b in pairwise(offsets.tolist())] == expected and len(offsets) == len(each) + 1


@contextmanager
def another_thread(daemon: bool) -> Iterator[None]:
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, daemon=daemon)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_ids_are_the_same_beside_threads_that_need_the_lock_of_python(gpt2: Definition) -> None:
    encoder = build_encoder(gpt2, "gigatoken")
    with another_thread(daemon=True):  # as processes of ours have one
        alone, before = backends._works_alone(), encoder.encode(TEXTS, 50256)
    with another_thread(daemon=False):
        assert alone and not backends._works_alone()
        assert all(map(np.array_equal, before, encoder.encode(TEXTS, 50256)))


def test_a_document_with_the_mark_that_parts_documents_is_its_own_text(gpt2: Definition) -> None:
    texts = from_strings(["one", "two" + backends._MARK + "three", "", " four"])
    encoders = (build_encoder(gpt2, name) for name in ("gigatoken", "tiktoken"))
    ours, other = (encoder.encode(texts, 50256) for encoder in encoders)
    assert all(map(np.array_equal, ours, other))


@given(st.lists(st.text(st.sampled_from(" \n\t'sé\u0301日🙂a1") | st.characters(codec="utf-8"), max_size=9)))
def test_documents_beside_each_other_are_encoded_as_each_by_itself(gpt2: Definition, strings: list[str]) -> None:
    encoder = _encoder(gpt2)
    ids, offsets, _ = encoder.encode(from_strings(strings), 50256)
    each = [encoder.encode(from_strings([string]), 50256)[0] for string in strings]
    assert [row.tolist() for row in each] == [ids[a:b].tolist() for a, b in pairwise(offsets.tolist())]


@pytest.mark.parametrize("name", ["gigatoken", "tiktoken", "byte"])
def test_documents_come_in_the_order_that_is_asked_for(gpt2: Definition, name: str) -> None:
    strings = ["one", "", "two " * 30, "naïve", "日本語 three"]
    encoder = build_encoder(gpt2, name)
    for order in ([4, 2, 0, 1, 3], [3, 1], [2], []):
        for each in (strings, [*strings[:4], f"four {backends._MARK}"]):  # which gigatoken takes one by one
            expected = encoder.encode(from_strings([each[i] for i in order]), 50256)
            found = encoder.encode(from_strings(each), 50256, np.array(order, np.int64))
            assert all(map(np.array_equal, found, expected))


def test_documents_that_are_their_end_alone_are_left_out() -> None:
    ids, offsets = np.array([1, 2, 9, 9, 3, 9, 9], np.uint16), np.array([0, 3, 4, 6, 7])
    kept = without_silent(ids, offsets, np.diff(offsets) == 1)
    assert [array.tolist() for array in kept] == [[1, 2, 9, 3, 9], [0, 3, 5]]


@functools.cache
def _encoder(definition: Definition) -> backends.Encoder:
    return build_encoder(definition, "gigatoken")


def test_a_tokenizer_that_begins_texts_in_a_way_of_its_own_is_given_them_one_by_one(gpt2: Definition) -> None:
    content = gpt2.content
    content["pre_tokenizer"]["add_prefix_space"] = True
    spaced = dataclasses.replace(gpt2, json=json.dumps(content))
    texts = from_strings(["one", "two", " three"])
    ours = build_encoder(spaced, "gigatoken").encode(texts, 50256)
    reference = build_encoder(dataclasses.replace(spaced, reference="tokenizers"), "tokenizers").encode(texts, 50256)
    assert all(map(np.array_equal, ours, reference))


def test_the_fast_backend_is_chosen_and_the_reference_where_it_cannot_serve(
    gpt2: Definition, unknown_json: Path
) -> None:
    assert choose_backend(gpt2, None)[::2] == ("gigatoken", "")
    name, _, note = choose_backend(local_definition(unknown_json, None), None)
    assert name == "tokenizers" and "using tokenizers, about 100 times slower" in note


def test_a_wanted_backend_is_taken_or_refused_in_words(gpt2: Definition, unknown_json: Path) -> None:
    assert choose_backend(gpt2, "tiktoken")[0] == "tiktoken"
    with pytest.raises(ConfigError, match=r"no backend 'tiktokens' \(did you mean 'tiktoken'"):
        choose_backend(gpt2, "tiktokens")
    with pytest.raises(ConfigError, match="leave backend= out"):
        choose_backend(local_definition(unknown_json, None), "gigatoken")


def test_rows_are_joined_with_their_ends_and_offsets_and_none_is_no_ids() -> None:
    ids, offsets, _ = join([np.array([1, 2], np.uint32), np.array([], np.uint32), np.array([3], np.uint32)], 9)
    assert ids.tolist() == [1, 2, 9, 9, 3, 9] and offsets.tolist() == [0, 3, 4, 6]
    assert [array.tolist() for array in without_eos(ids, offsets)] == [[1, 2, 3], [0, 2, 2, 3]]
    assert [array.tolist() for array in join([], 9)[:2]] == [[], [0]]
    assert join([np.array([1, 9], np.uint32), np.array([2], np.uint32)], 9).ends == 3


def test_what_a_library_raises_is_one_sentence_and_what_stops_a_process_is_not_touched() -> None:
    with (
        pytest.raises(ConfigError, match=r"^The file cannot be used: first line\.$"),
        LibraryErrors("The file cannot be used"),
    ):
        raise BaseException("first line\nsecond")
    with pytest.raises(KeyboardInterrupt), LibraryErrors("The file"):
        raise KeyboardInterrupt
    inside = SystemError("inside")
    inside.__cause__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), LibraryErrors("The file"):  # as compiled code has it
        raise SystemError("a result with an exception set") from inside
    with pytest.raises(ConfigError, match="The file: alone"), LibraryErrors("The file"):
        raise SystemError("alone")


def test_only_libraries_have_a_version() -> None:
    assert backend_versions("byte") == {} and backend_versions("tiktoken")["tiktoken"]
