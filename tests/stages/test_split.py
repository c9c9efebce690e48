"""Val has its share of few or large documents too: by whole ones where that can be, else by the end of one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.core.progress import Quiet
from gristmill.recipe import Recipe, SourceOptions, StoreOptions
from gristmill.run import RunOptions, prepare
from gristmill.stages import work
from gristmill.stages.split import cut_place, paragraph_ends
from gristmill.store.verify import verify
from gristmill.tokenize.tokenizer import Tokenizer, load_tokenizer

Read = Callable[[Path], dict[str, Any]]


class Told(Quiet):
    """A progress that keeps its notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def story(seed: int, paragraphs: int) -> str:
    rng = random.Random(seed)
    made = [" ".join(rng.choices(["grain", "mill", "stone", "water", "wheel"], k=30)) for _ in range(paragraphs)]
    return "\n\n".join(made)


def texts_in(root: Path, split: str) -> dict[str, str]:
    store = gm.open(root / split)
    return {(document := store.document(i)).id: document.text for i in range(store.num_documents)}


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., tuple[Path, list[str]]]:
    """`make({"a.txt": text, ...}, fraction, **options of the recipe)`: the store, and what the user was told."""

    def made(
        texts: dict[str, str], fraction: float = 0.005, out: str = "out", workers: int = 1, **options: Any
    ) -> tuple[Path, list[str]]:
        folder = tmp_path / "raw"
        folder.mkdir(exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        store = StoreOptions(val_fraction=fraction, tokens_per_shard=options.pop("tokens_per_shard", 100_000))
        settings = {"tokenizer": "byte", "clean": None, **options}
        told = Told()
        recipe = Recipe(str(tmp_path / out), [SourceOptions("text", [str(folder)])], store=store, **settings)
        prepare(recipe, progress=told, options=RunOptions(workers=workers))
        return tmp_path / out, told.notes

    return made


Make = Callable[..., tuple[Path, list[str]]]


@pytest.mark.parametrize("tokenizer", ["byte", "gpt2"])
def test_one_text_gives_its_last_paragraphs_to_val(make: Make, tokenizer: str) -> None:
    text = story(0, 400)
    root, notes = make({"book.txt": text}, 0.01, tokenizer=tokenizer)
    train, val = texts_in(root, "train"), texts_in(root, "val")
    head, tail = (text.removesuffix("<|endoftext|>") for text in (*train.values(), *val.values()))
    assert head + tail == text and head.endswith("\n\n")
    assert len(text) * 0.005 < len(tail) < len(text) * 0.015
    assert (list(train), list(val)) == (["text/book.txt"], ["text/book.txt#val"])
    assert len(notes) == 1 and "cut off at a paragraph" in notes[0] and "text/book.txt#val" in notes[0]
    assert not verify(root).faults


def test_the_manifest_and_both_rows_say_that_a_document_was_cut(make: Make) -> None:
    root, _ = make({"book.txt": story(0, 100)})
    said = json.loads((root / "manifest.json").read_text())
    cut, train, val = said["split"]["cut"], gm.open(root / "train"), gm.open(root / "val")
    assert said["split"]["val"] == "text" and (cut["id"], cut["val_id"]) == ("text/book.txt", "text/book.txt#val")
    assert (train.num_tokens, val.num_tokens) == (cut["keep"] + 1, cut["tokens"] - cut["keep"])
    assert [store.document(0).record["edits"] for store in (train, val)] == ["split", "split"]
    ends = {row["stage"]: row for row in said["funnel"] if row["stage"] in ("train", "val")}
    assert ends["train"]["bytes"] + ends["val"]["bytes"] == len(story(0, 100))
    assert ends["val"]["tokens"] == val.num_tokens


def test_both_halves_are_found_and_traced_by_their_own_ids(make: Make) -> None:
    root, _ = make({"book.txt": story(0, 100)}, 0.2)
    for split, name in (("train", "text/book.txt"), ("val", "text/book.txt#val")):
        store = gm.open(root / split)
        plan = gm.Plan({split: store}, seq_len=64, batch_size=2, seed=0)
        assert {row.doc_id for step in range(plan.total_steps or 0) for row in plan.trace(step)} == {name}
        assert {seen.step for seen in plan.find(name)} == set(range(plan.total_steps or 0))


def test_a_text_without_paragraphs_is_cut_between_characters(make: Make) -> None:
    root, notes = make({"one.txt": "漢字😀é" * 500}, 0.1)
    (head,), (tail,) = texts_in(root, "train").values(), texts_in(root, "val").values()
    whole = (head + tail).replace("<|endoftext|>", "")
    assert whole == "漢字😀é" * 500 and "at a token" in notes[0]


def test_a_few_documents_are_held_out_whole_where_that_gives_the_share(make: Make) -> None:
    texts = {f"{i}.txt": story(i, 5) for i in range(10)}
    for seed in range(12):
        root, notes = make(texts, 0.1, out=f"out{seed}", seed=seed)
        train, val = texts_in(root, "train"), texts_in(root, "val")
        assert 1 <= len(val) <= 3 and train.keys() | val.keys() == {f"text/{name}" for name in texts}
        assert not notes or "held out until val had" in notes[0]
    assert any("split" in json.loads((root / "manifest.json").read_text()) for root in root.parent.glob("out*"))


def test_a_large_document_among_small_ones_cannot_be_all_of_val(make: Make) -> None:
    texts = {"huge.txt": story(1, 500), **{f"{i}.txt": story(i, 1) for i in range(20)}}
    for seed in range(8):
        root, _ = make(texts, 0.05, out=f"out{seed}", seed=seed)
        train, val = gm.open(root / "train").num_tokens, gm.open(root / "val").num_tokens
        assert 0.05 / 3 <= val / (train + val) <= 0.05 * 3


def test_train_is_never_empty(make: Make) -> None:
    for seed in range(10):
        root, _ = make({"a.txt": story(0, 20)}, 0.4, out=f"out{seed}", seed=seed)
        train, val = gm.open(root / "train").num_tokens, gm.open(root / "val").num_tokens
        assert 0.3 < val / (train + val) < 0.5


def test_equal_texts_are_cut_at_the_same_place(make: Make) -> None:
    text = story(0, 100)
    root, _ = make({"a.txt": text, "b.txt": text}, 0.02, dedup=())
    train, val = texts_in(root, "train"), texts_in(root, "val")
    assert sorted(val) == ["text/a.txt#val", "text/b.txt#val"] and len(set(val.values())) == 1
    assert len(set(train.values())) == 1


def test_an_id_that_is_taken_is_not_given_again(make: Make) -> None:
    lines = [{"id": "a", "text": story(0, 100)}, {"id": "a#val", "text": "a short one"}]
    root, _ = make({"a.jsonl": "".join(json.dumps(line) + "\n" for line in lines)})
    names = [*texts_in(root, "train"), *texts_in(root, "val")]
    assert len(set(names)) == 3 and "a#val2" in names


def test_a_text_too_small_to_cut_is_all_in_train_and_the_note_says_so(make: Make) -> None:
    root, notes = make({"a.txt": "a few words"})
    assert texts_in(root, "train") and not texts_in(root, "val")
    assert notes == ["val is empty: a share of 0.005 of 12 tokens is too little to cut off."]


def test_who_asks_for_no_val_is_told_nothing(make: Make) -> None:
    root, notes = make({"a.txt": story(0, 20)}, 0)
    assert not notes and not texts_in(root, "val")
    assert "split" not in json.loads((root / "manifest.json").read_text())


def test_a_split_that_works_is_left_as_it_was(make: Make) -> None:
    root, notes = make({f"{i}.txt": story(i, 1) for i in range(400)}, 0.05)
    assert not notes and "split" not in json.loads((root / "manifest.json").read_text())


def test_the_copies_of_a_mix_are_on_one_side(tmp_path: Path, make: Make) -> None:
    mix = {"weights": {"text": 1.0}, "target": 5}
    root, _ = make({"a.txt": story(0, 100), "b.txt": story(1, 100)}, 0.05, mix=mix, shuffle=True)
    train, val = texts_in(root, "train"), texts_in(root, "val")
    assert len(train) == 5 and val and not set(train.values()) & set(val.values())
    assert all(name.endswith("#val") for name in val)
    rows = json.loads((root / "funnel.json").read_text())
    counts = {row["stage"]: row["documents"] for row in rows if row["stage"] in ("mix", "train", "val")}
    assert counts == {"mix": 5, "train": 5, "val": len(val)}
    assert not verify(root).faults


@pytest.mark.parametrize("options", [{}, {"shuffle": True}])
def test_workers_and_units_do_not_move_the_cut(make: Make, read: Read, options: dict[str, Any]) -> None:
    texts = {"long.txt": story(0, 300), **{f"{i}.txt": story(i, 2) for i in range(1, 4)}}
    one, _ = make(texts, 0.02, out="one", workers=1, **options)
    two, _ = make(texts, 0.02, out="two", workers=2, **options)
    assert read(one) == read(two) and "split" in json.loads((one / "manifest.json").read_text())


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
def test_a_killed_run_goes_on_to_the_same_cut(
    make: Make, read: Read, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    whole, _ = make({"book.txt": story(0, 200)}, out="whole")
    original, left = work.perform, iter(range(limit))

    def limited(job: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return original(job)

    with monkeypatch.context() as patch:
        patch.setattr(work, "perform", limited)
        with pytest.raises(KeyboardInterrupt):
            make({"book.txt": story(0, 200)})
    assert read(make({"book.txt": story(0, 200)})[0]) == read(whole)


@pytest.fixture(scope="module", params=["byte", "gpt2"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return load_tokenizer(request.param)


def parts(tokenizer: Tokenizer, text: str, wanted: int, reach: int) -> tuple[str, str, str]:
    tokens, _ = tokenizer.encode_batch([text])
    place, boundary = cut_place(tokens, wanted, reach, tokenizer)
    return tokenizer.decode(tokens[:place]), tokenizer.decode(tokens[place:]), boundary


def test_the_nearest_end_of_a_paragraph_is_taken(tokenizer: Tokenizer) -> None:
    text = "One line.\nIts second.\n\nAnother paragraph.\n \n\nThe third, which is the last."
    for wanted in (4, 12, 18):
        head, tail, boundary = parts(tokenizer, text, wanted, 100)
        assert head + tail == text and boundary == "paragraph"
        assert tail.startswith(("Another", "The third"))


def test_a_paragraph_out_of_reach_is_not_looked_for(tokenizer: Tokenizer) -> None:
    head, tail, boundary = parts(tokenizer, "a b c d e f g h i j k l m n\n\no p", 5, 3)
    assert boundary == "token" and (head + tail).startswith("a b c")


def test_no_character_is_cut(tokenizer: Tokenizer) -> None:
    text = "😀é漢字𐍈" * 20
    for wanted in range(1, 60):
        head, tail, boundary = parts(tokenizer, text, wanted, 20)
        assert head + tail == text and "\ufffd" not in head + tail and head and tail and boundary == "token"


def test_both_parts_have_a_token_at_least(tokenizer: Tokenizer) -> None:
    for wanted in (-5, 0, 1, 2, 500):
        head, tail, _ = parts(tokenizer, "ab cd\n\n", wanted, 50)
        assert head and tail


def test_a_text_without_blank_lines_has_no_paragraphs(tokenizer: Tokenizer) -> None:
    tokens, _ = tokenizer.encode_batch(["one\ntwo\nthree"])
    assert not len(paragraph_ends(tokens, tokenizer))
    assert not len(paragraph_ends(np.zeros(0, tokens.dtype), tokenizer))
