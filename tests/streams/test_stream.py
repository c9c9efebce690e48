"""The words of a stream: each gives another one, wrong ones are refused at once, and its fingerprint knows them all."""

from __future__ import annotations

import argparse
import inspect
import json
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gristmill as gm

from .conftest import Files, bytes_stream, copied, served_texts

HALF = "half \ud800"


def test_each_word_gives_another_stream(files: Files) -> None:
    plain = gm.stream(str(files()))
    assert plain.filter("length", min_chars=3) != plain and not plain.steps
    assert plain.tokenize("byte").pack(32).seq_len == 32 and plain.cut is None


@pytest.mark.parametrize(("make", "said"), [
    (lambda s: gm.stream([]), "paths"), (lambda s: gm.stream(3), "paths"),
    (lambda s: gm.stream("x", on_error="stop"), "on_error"),
    (lambda s: s.filter("lenght"), "length"), (lambda s: s.filter("length", least=3), "least"),
    (lambda s: s.filter(3), "rule must be the name of a filter or a function"), (lambda s: s.map(None), "function"),
    (lambda s: s.filter(print, min_chars=3), "min_chars"),
    (lambda s: s.chunk(32), "tokenize"), (lambda s: s.tokenize("byte").batch(4), "chunk"),
    (lambda s: s.tokenize("byte").pack(8).filter("length"), "before pack"), (lambda s: s.tokenize("gpt1"), "gpt2"),
    (lambda s: s.tokenize("byte").pack(0), "seq_len"), (lambda s: s.tokenize("byte").pack(32).batch(0), "batch_size"),
    (lambda s: s.tokenize("byte").pack(32).batch(4, epochs=0), "epochs"),
    (lambda s: s.clean(unicode="nfd"), "unicode"),
    (lambda s: gm.stream("::").files(), "'::' .source 'data'. names no file"),
    *((lambda s, each=each: gm.stream("x", **each), "surrogate|fields must be")  # type: ignore[misc]
      for each in ({"text": HALF}, {"id": HALF}, {"name": HALF}, {"fields": [HALF]}, {"fields": HALF})),
    (lambda s: s.filter("function", path="\0", function="x"), "without a NUL character"),
    (lambda s: s.filter("function", path=HALF), "surrogate"), (lambda s: gm.stream_recipe(HALF), "a name can have"),
    (lambda s: s.tokenize("byte").augment(gm.FIM(prefix=HALF)), "surrogate"),
    (lambda s: gm.mix({HALF: s}, {HALF: 1}), "a mapping of names"),
    (lambda s: list(gm.stream("nothing/*.jsonl").tokenize("byte").pack(32).batch(4)), "nothing"),
])  # fmt: skip
def test_wrong_words_are_refused_in_a_sentence(make: Any, said: str, files: Files) -> None:
    with pytest.raises(gm.ConfigError, match=said):
        make(gm.stream(str(files())))


def texts_of(stream: Any) -> list[str]:
    loader = stream.tokenize("byte").pad(512).batch(2, shuffle=False, epochs=1).loader(keys="attention_mask")
    return sorted(served_texts(copied(iter(loader)), 2))


def test_functions_see_a_document_or_a_batch_and_give_the_same(files: Files) -> None:
    plain = gm.stream(str(files(rows=10)))
    each = plain.map(lambda row: {**row, "text": row["text"].upper()}).filter(lambda row: "1-" not in row["id"])
    batches = plain.map(lambda batch: pa.compute.utf8_upper(batch.column("text")), batch=True).filter(
        lambda batch: [not id.startswith("1-") for id in batch.column("id").to_pylist()], batch=True
    )
    assert texts_of(each) == texts_of(batches) and len(texts_of(each)) == 20


def test_a_map_drops_what_it_gives_none_for(files: Files) -> None:
    kept = gm.stream(str(files(rows=10))).map(lambda row: row["text"] if row["id"].startswith("0-") else None)
    assert len(texts_of(kept)) == 10


def test_steps_of_one_name_are_told_apart(files: Files) -> None:
    def empty(row: dict[str, Any]) -> str | None:
        return None if row["id"].endswith("-1") else row["text"]

    plain = gm.stream(str(files(rows=10))).clean().clean()
    named = plain.filter("length", min_chars=0).filter(lambda row: row["id"] != "0-0").map(empty)
    stream = named.filter(lambda row: row["id"] not in ("1-0", "2-0")).filter("length", min_chars=0, max_chars=10**6)
    loader = stream.tokenize("byte").pad(512).batch(2, shuffle=False, epochs=1).loader(examples=1)
    with loader:
        assert list(loader)
        stats, shown = loader.stats(), [row["rule"] for row in loader.dropped()]
    after = {step: documents for step, (documents, _) in stats["after"].items()}
    assert after == {"read": 30, "clean": 30, "clean-2": 30, "length": 30, "function": 29, "empty-2": 26,
                     "function-2": 24, "length-2": 24, "empty": 24, "tokenize": 24}  # fmt: skip
    assert stats["dropped"] == {"function": {"function": 1}, "empty-2": {"map": 3}, "function-2": {"function": 2}}
    assert shown == ["function", "empty-2", "function-2"]


@pytest.mark.parametrize("answer", [3, b"bytes", {"text": 3}, {"txt": "a"}, {}, ["a"], "\ud800"])
def test_a_map_that_gives_no_text_is_told_for_which_document(files: Files, answer: Any) -> None:
    with pytest.raises(gm.GristmillError, match="document '0-0'"):
        texts_of(gm.stream(str(files(count=1, rows=2))).map(lambda row: answer))


@pytest.mark.parametrize("answer", [3, pa.array(["a"]), pa.array([1, 2, 3]), pa.table({"txt": ["a"] * 3})])
def test_a_map_of_batches_that_gives_other_rows_is_refused(files: Files, answer: Any) -> None:
    with pytest.raises(gm.ConfigError, match="3 texts"):
        texts_of(gm.stream(str(files(count=1, rows=3))).map(lambda batch: answer, batch=True))


def test_the_fingerprint_knows_every_word_and_no_path(files: Files) -> None:
    here, there = (bytes_stream(files(folder=name)) for name in ("here", "there"))
    assert here.batch(4).fingerprint == there.batch(4).fingerprint
    folder = files(folder="third")
    text = gm.stream(f"{folder}/*.jsonl")
    streams = [
        here.batch(4), here.batch(4, seed=1), here.batch(8), here.batch(4, epochs=1), here.batch(4, hold=2),
        here.batch(4, shuffle=False), text.tokenize("byte").chunk(16).batch(4), text.tokenize("byte").pack(32).batch(4),
        text.tokenize("gpt2").chunk(32).batch(4), text.clean().tokenize("byte").chunk(32).batch(4),
        text.filter("length").tokenize("byte").chunk(32).batch(4),
        text.filter("length", min_chars=7).tokenize("byte").chunk(32).batch(4),
        text.map(lambda row: row["text"] + "!").tokenize("byte").chunk(32).batch(4),
        text.map(lambda row: row["text"] + "?").tokenize("byte").chunk(32).batch(4),
    ]  # fmt: skip
    assert len({stream.fingerprint for stream in streams}) == len(streams)


@pytest.mark.parametrize("clean", [False, True])
def test_a_stream_and_a_store_have_the_same_documents_and_tokens(files: Files, tmp_path: Path, clean: bool) -> None:
    texts = [str(inspect.getdoc(each)) + " " * clean for each in vars(argparse).values() if inspect.getdoc(each)]
    folder = files(count=1, rows=2)
    (folder / "docs.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    filters = [{"length": {"min_chars": 60}}, {"gopher_repetition": {}}]
    recipe = {"out": str(tmp_path / "store"), "sources": [{"name": "data", "paths": [str(folder)]}], "dedup": [],
              "clean": {} if clean else None, "filters": filters, "tokenizer": "gpt2",
              "store": {"val_fraction": 0.0}}  # fmt: skip
    gm.prepare(recipe, progress=False)
    store = gm.open(tmp_path / "store" / "train")
    stream = gm.stream(str(folder))
    stream = stream.clean() if clean else stream
    loader = stream.filter("length", min_chars=60).filter("gopher_repetition").tokenize("gpt2").pad(8192)
    rows = [(batch["input_ids"][r], int(batch["attention_mask"][r].sum()))
            for batch in loader.batch(4, epochs=1).loader(keys="attention_mask") for r in range(4)]  # fmt: skip
    streamed = sorted(tuple(row[:length].tolist()) for row, length in rows if length)
    stored = sorted(tuple(store.document(i).tokens.tolist()) for i in range(store.num_documents))
    assert streamed == stored and 5 < len(stored) < len(texts)


def test_words_of_a_stream_that_it_has_not_are_told_with_what_to_say(files: Files) -> None:
    stream = gm.stream(f"{files()}/*.jsonl").tokenize("byte")
    assert not hasattr(stream, "loader") and repr(stream) == "Stream(data, tokenize byte)"
    for word, said in [("loader", r"\.batch\(64, seed=0\)"), ("shuffle", "hold=4"), ("oddly", "no 'oddly'.$")]:
        with pytest.raises(AttributeError, match=said):
            getattr(stream, word)
    with pytest.raises(gm.ConfigError, match="has no batches yet"):
        iter(stream)
    batches = stream.pack(32).batch(2)
    assert repr(batches) == "Batches(2 rows of Stream(data, tokenize byte, pack 32); seed 0)"
    for word, said in [("filter", "batch\\(\\) comes last"), ("take", "itertools.islice"), ("oddly", "no 'oddly'.$")]:
        with pytest.raises(AttributeError, match=said):
            getattr(batches, word)


def test_augmentations_add_up(files: Files) -> None:
    stream = gm.stream(f"{files()}/*.jsonl").tokenize("byte")
    fim, mask = gm.FIM(prefix=1, middle=2, suffix=3), gm.Mask(token=4)
    both = stream.augment(fim, mask).pad(64).batch(2)
    assert stream.augment(fim).augment(mask).pad(64).batch(2).fingerprint == both.fingerprint
    with pytest.raises(gm.ConfigError, match="comes last"):
        stream.augment(mask).augment(fim)


def test_what_else_a_map_returns_is_refused_and_what_was_there_may_stay(files: Files) -> None:
    stream = gm.stream(f"{files()}/*.jsonl")

    def of(function: Any, **options: bool) -> Any:
        return next(iter(stream.map(function, **options).tokenize("byte").pad(64).batch(2).loader(threads=0)))

    of(lambda row: {**row, "text": "other"})
    of(lambda batch: batch, batch=True)
    with pytest.raises(gm.ConfigError, match=r"returned 'new' for document '\d-\d+', which has id, source, path, text"):
        of(lambda row: {**row, "new": "1"})
    with pytest.raises(gm.ConfigError, match=r"returned 'new' for the batch that begins with"):
        of(lambda batch: batch.append_column("new", batch.column("id")), batch=True)


def test_fields_that_no_document_has_are_warned_of_and_those_that_were_not_named_are_told(files: Files) -> None:
    paths = f"{files()}/*.jsonl"

    def served(fields: list[str], keep: Any) -> None:
        stream = gm.stream(paths, fields=fields).filter(keep).tokenize("byte").pad(64)
        next(iter(stream.batch(2).loader(threads=0)))

    with pytest.warns(UserWarning, match=r"None of the first \d+ .* of the source 'data' has the field 'lagn'"):
        served(["lagn"], lambda row: row["lagn"] != "")
    with pytest.raises(gm.ConfigError, match=r"KeyError: 'lang' \(a document has id, source, path, text, and what its"):
        served([], lambda row: row["lang"] != "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        served([], lambda row: True)
