"""A recipe as a stream: the documents, tokens and decisions of the store that `prepare` makes of it."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import random
import tarfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
from ended_streams import served
from gristmill.streaming import unheeded

LONGEST = 4096
RULES: list[dict[str, Any]] = [
    {"length": {"min_chars": 20, "max_chars": 2000}}, {"language": {"keep": ["en"], "min_score": 0.3}},
    {"gopher_repetition": {}}, {"c4": {"min_sentences": 1}}, {"gopher_quality": {"min_words": 3}},
    {"fineweb": {}}, {"code_ratio": {"max": 0.5}},
]  # fmt: skip
PROSE = "the mill grinds what it is given and nobody asks of the flour where a river has been to that end"


def texts_of(seed: int, count: int = 90) -> list[str]:
    """Prose, repetitions, other languages, code, decomposed letters, addresses, and texts that are short or blank."""
    rng = random.Random(seed)

    def text(i: int) -> str:
        words = [rng.choice(PROSE.split()) for _ in range(rng.randrange(3, 90))]
        prose = ". ".join(" ".join(words[a : a + 9]).capitalize() for a in range(0, len(words), 9)) + "."
        kinds = [prose, prose + "\njavascript is required\n" + prose, "spam spam " * 40, "Die Mühle mahlt, was man ihr "
                 "gibt, und niemand fragt das Mehl danach. " * 4, "for (i = 0; i < n; i++) { a[i] = b[i] ^ c; }\n" * 4,
                 f"Zu\u0308rich\u0007 {prose}   ", f"Write to mill{i}@example.org. {prose}", "ok", " "]  # fmt: skip
        return f"{kinds[rng.randrange(len(kinds))]} {i} of {seed}." if i % 11 else kinds[-1]

    return [text(i) for i in range(count)]


def write_jsonl(folder: Path, texts: Sequence[str]) -> None:
    rows = [json.dumps({"id": f"j{i}", "text": text}) + "\n" for i, text in enumerate(texts)]
    (folder / "a.jsonl").write_text("".join(rows[: len(rows) // 2]))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress("".join(rows[len(rows) // 2 :]).encode()))


def write_parquet(folder: Path, texts: Sequence[str]) -> None:
    pq.write_table(pa.table({"id": [f"p{i}" for i in range(len(texts))], "text": texts}), folder / "a.parquet",
                   row_group_size=7)  # fmt: skip


def write_text(folder: Path, texts: Sequence[str]) -> None:
    for i in range(4):
        (folder / f"{i}.txt").write_text("\n\n".join(texts[i::4]))


def write_tar(folder: Path, texts: Sequence[str]) -> None:
    for name, share in (("a", texts[::2]), ("b", texts[1::2])):
        with tarfile.open(folder / f"{name}.tar", "w") as tar:
            for i, text in enumerate(share):
                for suffix, data in (("txt", text.encode()), ("jpg", b"no text")):
                    member = tarfile.TarInfo(f"{i:04d}.{suffix}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


WRITERS: dict[str, Callable[[Path, Sequence[str]], None]] = {
    "jsonl": write_jsonl, "parquet": write_parquet, "txt": write_text, "tar": write_tar,
}  # fmt: skip


def recipe_of(tmp_path: Path, filters: Sequence[Any] = RULES, **more: Any) -> dict[str, Any]:
    sources = [{"name": folder.name, "paths": [str(folder)], **({"documents": "paragraph"} if folder.name == "txt"
                else {"text": "txt"} if folder.name == "tar" else {})}
               for folder in sorted((tmp_path / "raw").iterdir())]  # fmt: skip
    clean = {"unicode": "nfc", "whitespace": True, "redact": ["email"]}
    return {"out": str(tmp_path / "store"), "sources": sources, "clean": clean, "filters": list(filters), "dedup": [],
            "tokenizer": "byte", "store": {"val_fraction": 0.0}, **more}  # fmt: skip


def written(tmp_path: Path, kinds: Sequence[str], texts: Sequence[str]) -> None:
    for kind in kinds:
        (tmp_path / "raw" / kind).mkdir(parents=True)
        WRITERS[kind](tmp_path / "raw" / kind, texts)


def rows_of(batches: Iterator[Any]) -> Counter[bytes]:
    """The rows of padded batches, without their padding."""
    return Counter(
        row[mask > 0].tobytes()
        for batch in batches
        for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
        if mask.any()
    )


Decisions = Counter[tuple[object, ...]]


def streamed(recipe: dict[str, Any], lanes: int = 5) -> tuple[Counter[bytes], Decisions]:
    """Each document's tokens, and what was decided of the others, as a stream of one epoch has them."""
    stream = gm.stream_recipe(recipe, progress=False).pad(LONGEST).batch(lanes, seed=7, epochs=1)
    with stream.loader(keys="attention_mask", examples=10**6) as loader:
        found = rows_of(served(loader))
        return found, Counter(tuple(map(row.get, ("id", "source", "rule", "reason"))) for row in loader.dropped())


def stored(recipe: dict[str, Any]) -> tuple[Counter[bytes], Decisions]:
    """The same of the store that `prepare` writes and a Loader reads."""
    gm.prepare(recipe, progress=False, options={"keep_dropped": True})
    store = gm.open(f"{recipe['out']}/train")
    plan = gm.Plan(store, seq_len=LONGEST, batch_size=5, options={"cut": "pad", "drop_last": False})
    dropped = pq.read_table(f"{recipe['out']}/dropped.parquet").to_pylist()
    decided = Counter(tuple(map(row.get, ("id", "source", "rule", "reason"))) for row in dropped)
    served = rows_of(iter(gm.Loader(plan, keys="attention_mask")))
    assert served == Counter(store.document(i).tokens.astype(np.int64).tobytes() for i in range(store.num_documents))
    return served, decided


@pytest.mark.parametrize("kinds", [("jsonl",), ("parquet",), ("txt",), ("tar",), tuple(WRITERS)], ids="-".join)
def test_a_stream_and_a_store_of_a_recipe_have_the_same_documents_tokens_and_decisions(
    tmp_path: Path, kinds: Sequence[str]
) -> None:
    written(tmp_path, kinds, texts_of(len(kinds)))
    recipe = recipe_of(tmp_path)
    found, decided = streamed(recipe)
    assert (found, decided) == stored(recipe)
    rules = {rule for _, _, rule, _ in decided}
    assert found.total() > 10 and {"length", "language", "gopher_repetition"} < rules


@settings(max_examples=12, deadline=None)
@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), min_size=1, max_size=12),
    seed=st.integers(0, 99),
    rules=st.lists(st.sampled_from(RULES), max_size=4, unique_by=lambda rule: next(iter(rule))),
    kind=st.sampled_from(["jsonl", "parquet", "tar"]),
)
def test_any_texts_and_rules_are_decided_alike(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], seed: int, rules: list[Any], kind: str
) -> None:
    tmp_path = tmp_path_factory.mktemp("any")
    written(tmp_path, [kind], [*texts, *texts_of(seed, 8), "The mill grinds. " * 7])
    recipe = recipe_of(tmp_path, [rule for rule in RULES if rule in rules and "fineweb" not in rule])
    found, decided = streamed(recipe, lanes=3)
    if found:
        assert (found, decided) == stored(recipe)


def test_a_recipe_decontaminates_its_stream_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    secret = "seven grey geese flew over the old stone bridge before the first snow of that winter"
    written(tmp_path, ["jsonl"], ["Something else entirely stands here.", f"It is said that {secret} came.", "Mill."])
    (tmp_path / "evals.jsonl").write_text(json.dumps({"question": secret}) + "\n")
    recipe = recipe_of(tmp_path, [], decontaminate={"paths": [str(tmp_path / "evals.jsonl")]})
    found, decided = streamed(recipe)
    assert (found, decided) == stored(recipe) and set(decided) == {("j1", "jsonl", "decontaminate", "contaminated")}
    prints = set()
    for home in ("cache", "elsewhere"):  # where the index lies is no part of the stream
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / home))
        prints.add(gm.stream_recipe(recipe, progress=False).pack(64).batch(4).fingerprint)
    assert len(prints) == 1


def test_sources_that_carry_other_fields_are_held_together(tmp_path: Path) -> None:
    for name, field in (("a", "url"), ("b", "title")):
        rows = [json.dumps({"id": f"{name}{i}", "text": f"Text {i} of {name}.", field: "x"}) + "\n" for i in range(9)]
        (tmp_path / f"{name}.jsonl").write_text("".join(rows))
    sources = [{"name": name, "paths": [str(tmp_path / f"{name}.jsonl")], "fields": [field]}
               for name, field in (("a", "url"), ("b", "title"))]  # fmt: skip
    recipe = {"out": str(tmp_path / "store"), "sources": sources, "tokenizer": "byte", "dedup": [],
              "store": {"val_fraction": 0}}  # fmt: skip
    stream = gm.stream_recipe(recipe, progress=False).filter(lambda row: row["source"] == "a" or "title" in row)
    loader = stream.pad(64).batch(1, seed=1, epochs=1, hold=3).loader(keys="attention_mask")
    assert rows_of(iter(loader)).total() == 18


def test_the_store_itself_is_no_input_of_the_stream(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("All that there is to read.")
    recipe = {**recipe_of_folder(tmp_path), "out": str(tmp_path / "store")}
    gm.prepare(recipe, progress=False)
    stream = gm.stream_recipe(recipe, progress=False)
    assert [file.name for file in stream.files()] == ["a.txt"]


def recipe_of_folder(folder: Path) -> dict[str, Any]:
    source = {"name": "all", "paths": [str(folder)]}
    return {"sources": [source], "tokenizer": "byte", "dedup": [], "store": {"val_fraction": 0.0}}


def test_what_a_stream_cannot_do_is_named_in_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One text.")
    plain = {**recipe_of_folder(tmp_path), "out": str(tmp_path / "out")}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gm.stream_recipe(plain, progress=False)
    full = {**plain, "dedup": [{"exact": {}}, {"near": {}}], "mix": {"weights": {"all": 1}, "target": 5},
            "shuffle": True, "store": {"val_fraction": 0.1, "compression": "zstd", "tokens_per_shard": 5}}  # fmt: skip
    with pytest.warns(UserWarning, match="undone") as caught:
        gm.stream_recipe(full, progress=False)
    said = str(caught[0].message)
    keys = ("dedup", "mix", "shuffle", "store.val_fraction", "store.compression", "store.tokens_per_shard")
    assert all(f"{key}: " in said for key in keys) and "exact, near" in said and "10.00%" in said
    assert caught[0].filename == __file__


def test_every_key_of_a_recipe_is_heeded_or_named() -> None:
    """A key that is new is to be thought of in `streaming.py`."""
    heeded = {"out", "sources", "seed", "clean", "filters", "decontaminate", "tokenizer", "eos", "on_error", "storage"}
    named = {"dedup", "mix", "shuffle", "store"}
    assert {field.name for field in gm.Recipe.__dataclass_fields__.values()} == heeded | named
    recipe = gm.Recipe("out", [{"name": "a", "paths": ["a"]}], dedup=["exact"], shuffle=True,  # type: ignore[list-item]
                       mix={"weights": {"a": 1}, "target": 1})  # type: ignore[arg-type]  # fmt: skip
    assert {key.partition(".")[0] for key in unheeded(recipe, None)} == named


@pytest.mark.parametrize("tokenizer", ["byte", "gpt2"])
def test_a_stream_of_words_has_a_recipe_and_its_store_has_the_same_documents(tmp_path: Path, tokenizer: str) -> None:
    written(tmp_path, ["jsonl"], texts_of(5))
    mine = tmp_path / "mine.py"
    mine.write_text("def keep(document):\n    return 'of 5' in document['text']\n")
    stream = (
        gm.stream(str(tmp_path / "raw" / "jsonl"), name="web").clean(redact=["email"]).filter("length", min_chars=30)
    )
    stream = stream.filter("function", path=str(mine)).tokenize(tokenizer)
    loader = stream.pad(LONGEST).batch(5, epochs=1).loader(keys="attention_mask", examples=10**6)
    found = rows_of(iter(loader))
    decided = Counter(tuple(map(row.get, ("id", "source", "rule", "reason"))) for row in loader.dropped())
    assert found and (found, decided) == stored(stream.recipe(tmp_path / "store"))
    for changed, said in [
        (stream.map(str), "no functions"), (stream.filter(bool), "no functions"), (stream.clean(), "cleans once"),
        (stream.augment(gm.FIM(prefix=1, middle=2, suffix=3)), "augment in the plan"),
    ]:  # fmt: skip
        with pytest.raises(gm.ConfigError, match=said):
            changed.recipe(tmp_path / "other")


def test_the_splits_of_a_stream_are_those_of_the_store(tmp_path: Path) -> None:
    written(tmp_path, ["jsonl"], texts_of(6, 300))
    words = gm.stream(str(tmp_path / "raw" / "jsonl"), name="web").clean().filter("length", min_chars=30)
    words = words.tokenize("byte")
    recipe = words.split(0.25, seed=7)[1].recipe(tmp_path / "store")
    assert recipe == words.split(0.25, seed=7)[0].recipe(tmp_path / "store")
    gm.prepare(recipe, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        described = [gm.stream_recipe(recipe, split=split, progress=False) for split in ("train", "val")]
    for number, split in enumerate(("train", "val")):
        store = gm.open(tmp_path / "store" / split)
        expected = Counter(store.document(i).tokens.astype(np.int64).tobytes() for i in range(store.num_documents))
        assert len(expected) > 30
        for stream in (words.split(0.25, seed=7)[number], described[number]):
            loader = stream.pad(LONGEST).batch(5, epochs=1).loader(keys="attention_mask", threads=0)
            assert rows_of(iter(loader)) == expected
            assert loader.stats()["dropped"]["split"] == {("val", "train")[number]: ANY}
    with pytest.raises(gm.ConfigError, match="split"):
        gm.stream_recipe(recipe, split="test", progress=False)
    with pytest.raises(gm.ConfigError, match="val_fraction must be a share above 0 and below 1"):
        gm.stream_recipe({**recipe, "store": {"val_fraction": 0.0}}, split="val", progress=False)
    for wrong in (0, 1, -0.1, 5e-324, float("nan"), "x", True, None):
        with pytest.raises(gm.ConfigError, match="val_fraction must be a share above 0 and below 1"):
            words.split(wrong)  # type: ignore[arg-type]
    with pytest.raises(gm.ConfigError, match="seed"):
        words.split(0.2, seed=10**30)
    assert words.split(np.float32(0.25), seed=7)[1].steps == words.split(0.25, seed=7)[1].steps  # type: ignore[arg-type]
    whole = gm.stream_recipe({**recipe, "store": {"val_fraction": 0.0}}, split="train", progress=False)
    assert "split" not in [step.name for step in whole.steps]


def test_a_stream_of_a_recipe_can_be_pickled_and_goes_on(tmp_path: Path) -> None:
    written(tmp_path, ["jsonl"], texts_of(3))
    stream = gm.stream_recipe(recipe_of(tmp_path), progress=False).pack(64).batch(4, seed=2)
    loader = stream.loader()
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    again = pickle.loads(pickle.dumps(stream)).loader()
    again.load_state_dict(loader.state_dict())
    assert np.array_equal(next(iter(again))["input_ids"], next(batches)["input_ids"])
