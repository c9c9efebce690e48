"""`gristmill prepare`: inputs to sources, options to a recipe, and what is printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.recipe import Recipe, SourceOptions, read_recipe

Command = Callable[..., Any]


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    (tmp_path / "raw").mkdir()
    for name in ("a", "b"):
        (tmp_path / "raw" / f"{name}.txt").write_text(f"text {name}")
    return tmp_path / "raw"


def sources(root: Path) -> list[tuple[str, str]]:
    store = gm.open(root)
    return [(store.document(i).source, store.document(i).id) for i in range(store.num_documents)]


def test_it_prints_the_figures_and_how_to_open_the_store(gristmill: Command, raw: Path, tmp_path: Path) -> None:
    ran = gristmill("prepare", raw, "--out", tmp_path / "out", "--tokenizer", "byte", "--val-fraction", 0)
    assert "byte tokens, uint16, EOS 256" in ran.out and "2 of 2 documents were kept (100%)." in ran.out
    assert f'gristmill.open("{tmp_path}/out/train")' in ran.out
    assert "note" not in ran.said


def test_json_is_all_that_is_on_stdout(gristmill: Command, raw: Path, tmp_path: Path) -> None:
    ran = gristmill("prepare", raw, "--out", tmp_path / "out", "--tokenizer", "byte", "--val-fraction", 0, "--json")
    assert ran.json["splits"]["train"]["documents"] == 2 and ran.json["recipe"]["store"]["val_fraction"] == 0


def test_the_default_tokenizer_is_gpt2(gristmill: Command, raw: Path, tmp_path: Path) -> None:
    ran = gristmill("prepare", raw, "--out", tmp_path / "out", "--no-dedup", "--no-normalize", "--json")
    assert ran.json["tokenizer"]["name"] == "gpt2" and ran.json["eos"] == 50256
    assert "rules" not in ran.said


def test_inputs_name_their_sources(gristmill: Command, raw: Path, tmp_path: Path) -> None:
    options = ("--tokenizer", "byte", "--val-fraction", 0, "--pack", 8, "--no-dedup")
    gristmill("prepare", "books=raw/a.txt", "raw", "raw/b.txt", "--out", "out", *options, cwd=tmp_path)
    expected = [("books", "books/a.txt"), ("raw", "raw/a.txt"), ("raw", "raw/b.txt"), ("text", "text/b.txt")]
    assert sources(tmp_path / "out") == expected
    assert (tmp_path / "out" / "train" / "pack-8.gmi").exists()


def test_a_pattern_and_the_files_that_a_shell_makes_of_it_are_the_same_store(
    call: Command, raw: Path, tmp_path: Path
) -> None:
    options = ("--tokenizer", "byte", "--val-fraction", 0)
    call("prepare", raw / "*.txt", "--out", tmp_path / "one", *options)
    call("prepare", raw / "a.txt", raw / "b.txt", "--out", tmp_path / "two", *options)
    assert (tmp_path / "one" / "manifest.json").read_bytes() == (tmp_path / "two" / "manifest.json").read_bytes()
    assert sources(tmp_path / "one") == [("text", "text/a.txt"), ("text", "text/b.txt")]


def test_options_reach_the_store(gristmill: Command, tmp_path: Path) -> None:
    lines = ['{"body": "one", "uid": 1}', "broken", *(f'{{"body": "text {i}", "uid": {i}}}' for i in range(2, 40))]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    options = "--tokenizer byte --tokens-per-shard 50 --val-fraction 0.3 --seed 7 --text-field body --id-field uid"
    arguments = (*options.split(), "--on-error", "skip", "--json")
    ran = gristmill("prepare", tmp_path / "a.jsonl", "--out", tmp_path / "out", *arguments)
    assert ran.json["splits"]["train"]["shards"] > 3 and ran.json["splits"]["val"]["documents"] > 3
    assert ran.json["recipe"]["seed"] == 7 and "1 documents could not be read" in ran.said
    assert {"stage": "unreadable", "source": "text", "documents": 1} in ran.json["funnel"]


def test_a_recipe_says_everything_but_may_be_sent_elsewhere(
    gristmill: Command, call: Command, raw: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"out: {tmp_path}/first\nsources: [{{name: web, paths: {raw}}}]\ntokenizer: byte\n")
    gristmill("prepare", "--recipe", recipe)
    call("prepare", "--recipe", recipe, "--out", tmp_path / "second")
    assert sources(tmp_path / "first") == sources(tmp_path / "second") != []
    ran = call("prepare", "--recipe", recipe, "--val-fraction", "0.1", code=2)
    assert "put --val-fraction into" in ran.said


MISTAKES: dict[str, tuple[list[str], str]] = {
    "no input": (["--out", "o"], "needs INPUTs and --out"),
    "no output": (["raw"], "needs INPUTs and --out"),
    "a missing file": (["none.txt", "--out", "o"], "'none.txt' (source 'text') names no file"),
    "a missing tokenizer file": (["raw", "--out", "o", "--tokenizer", "./tokenizer.json"], "no such file"),
    "an unknown tokenizer": (["raw", "--out", "o", "--tokenizer", "gpt-2"], "did you mean 'gpt2'"),
    "a fraction above 1": (["raw", "--out", "o", "--val-fraction", "2"], "--val-fraction"),
    "shards of nothing": (["raw", "--out", "o", "--tokens-per-shard", "0"], "--tokens-per-shard"),
    "text for a number": (
        ["raw", "--out", "o", "--tokens-per-shard", "many"],
        "must be a whole number of 1 or more, not 'many'",
    ),
    "a file as output": (["raw", "--out", "raw/a.txt", "--tokenizer", "byte"], "is a file"),
    "invalid UTF-8": (["bad.txt", "--out", "o", "--tokenizer", "byte"], "bad.txt is not UTF-8: byte 1"),
    "a broken line": (["bad.jsonl", "--out", "o", "--tokenizer", "byte"], "bad.jsonl, line 2 is not JSON"),
    "no text": (["empty.txt", "--out", "o", "--tokenizer", "byte"], "hold no text"),
    "a missing recipe": (["--recipe", "none.yaml"], "none.yaml cannot be read"),
    "a misspelt option": (["raw", "--out", "o", "--tokens-per-shrad", "5"], "did you mean '--tokens-per-shard'?"),
    "a shortened option": (["raw", "--out", "o", "--over"], "has no option --over"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_2(
    call: Command, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.txt").write_bytes(b"a\xff")
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": \n')
    (tmp_path / "empty.txt").touch()
    arguments, message = MISTAKES[case]
    ran = call("prepare", *arguments, code=2)
    assert message in ran.said and not ran.out and not (tmp_path / "o" / "manifest.json").exists()


def test_a_finished_store_is_refused(gristmill: Command, call: Command, raw: Path, copied: Path) -> None:
    assert "--overwrite" in gristmill("prepare", raw, "--out", copied, "--tokenizer", "byte", code=2).said
    call("prepare", raw, "--out", copied, "--tokenizer", "byte", "--overwrite")
    assert gm.open(copied).num_documents == 2


# Options that decide the bytes


TEXTS = ["One text.", "Another text. \r\n", "One text.", "caf\u0065\u0301 au lait\n\n\nA line that is in two texts.",
         "A line that is in two texts.\nAnd one that is not."]  # fmt: skip


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """JSON lines with an exact duplicate, a repeated line, Windows' line ends and a decomposed letter."""
    path = tmp_path / "raw.jsonl"
    path.write_text("".join(json.dumps({"id": f"d{i}", "text": text}) + "\n" for i, text in enumerate(TEXTS)))
    return path


@pytest.fixture
def prepared(call: Command, lines: Path, tmp_path: Path) -> Callable[..., Path]:
    """`prepared("out", options...)`: the store of these lines, all of it in train."""

    def made(out: str, *options: object) -> Path:
        call("prepare", lines, "--out", tmp_path / out, "--tokenizer", "byte", "--val-fraction", 0, *options)
        return tmp_path / out

    return made


def texts(root: Path) -> list[str]:
    store = gm.open(root / "train")
    return [store.document(i).text for i in range(store.num_documents)]


def ids(root: Path) -> list[str]:
    store = gm.open(root / "train")
    return [store.document(i).id for i in range(store.num_documents)]


def test_by_default_text_is_normalised_and_equal_documents_are_kept_once(prepared: Callable[..., Path]) -> None:
    cleaned = "caf\u00e9 au lait\n\n\nA line that is in two texts."
    assert texts(prepared("out")) == ["One text.", "Another text.", cleaned, TEXTS[4]]


def test_texts_and_duplicates_can_be_kept_as_they_are(prepared: Callable[..., Path]) -> None:
    assert texts(prepared("out", "--no-normalize", "--no-dedup")) == TEXTS
    assert texts(prepared("other", "--no-normalize")) == [TEXTS[0], *TEXTS[1:2], *TEXTS[3:]]


def test_dedup_is_chosen_by_name_and_runs_in_the_order_given(prepared: Callable[..., Path]) -> None:
    root = prepared("out", "--dedup", "near,lines")
    assert ids(root) == ["d0", "d1", "d3", "d4"] and texts(root)[3] == "And one that is not."
    funnel = json.loads((root / "funnel.json").read_text())
    assert [row["stage"] for row in funnel if row["stage"] in ("near", "lines", "exact")] == ["near", "lines"]


def test_shuffle_moves_documents_by_seed(prepared: Callable[..., Path]) -> None:
    orders = {tuple(ids(prepared(f"out{seed}", "--shuffle", "--seed", seed))) for seed in range(4)}
    assert len(orders) > 1 and {tuple(sorted(order)) for order in orders} == {("d0", "d1", "d3", "d4")}


def test_a_compressed_store_reads_the_same(prepared: Callable[..., Path]) -> None:
    root = prepared("out", "--compression", "zstd")
    assert (root / "train" / "shard-00000.bin.zst").exists() and texts(root) == texts(prepared("plain"))
    assert gm.open(root / "train").fingerprint == gm.open(root.parent / "plain" / "train").fingerprint


@pytest.mark.parametrize(
    ("documents", "expected"),
    [("file", ["a\nb\n\nc"]), ("line", ["a", "b", "c"]), ("paragraph", ["a\nb", "c"])],
)
def test_a_document_is_a_file_a_line_or_a_paragraph(
    call: Command, tmp_path: Path, documents: str, expected: list[str]
) -> None:
    (tmp_path / "a.txt").write_text("a\nb\n\nc\n")
    options = ("--tokenizer", "byte", "--val-fraction", 0, "--documents", documents)
    call("prepare", tmp_path / "a.txt", "--out", tmp_path / "out", *options)
    assert texts(tmp_path / "out") == expected


def test_fields_are_carried_into_the_documents_table(call: Command, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a", "url": "u", "date": 3}\n{"text": "b"}\n')
    options = ("--tokenizer", "byte", "--val-fraction", 0, "--fields", "url,date")
    call("prepare", tmp_path / "a.jsonl", "--out", tmp_path / "out", *options)
    store = gm.open(tmp_path / "out")
    found = [(store.document(i).record["url"], store.document(i).record["date"]) for i in range(2)]
    assert found == [("u", "3"), (None, None)]


def test_a_field_that_no_document_of_a_source_has_is_told(call: Command, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a", "url": "u"}\n{"text": "b"}\n')
    options = ("--tokenizer", "byte", "--val-fraction", 0, "--fields", "url,ulr")
    said = call("prepare", tmp_path / "a.jsonl", "--out", tmp_path / "out", *options).said
    assert "No document of the source 'text' has the field 'ulr'" in said and "'url'" not in said


# Options that change no byte


def test_dropped_documents_are_told_and_their_texts_kept_when_asked_for(
    call: Command, prepared: Callable[..., Path]
) -> None:
    root = prepared("out", "--keep-dropped")
    (row,) = call("inspect", root, "--doc", "d2", "--json").json
    assert (row["rule"], row["reason"], row["detail"], row["text"]) == ("exact", "duplicate", "d0", "One text.")
    assert "duplicate" in call("inspect", root, "--doc", "d2").out
    (row,) = call("inspect", prepared("other"), "--doc", "d2", "--json").json
    assert "text" not in row


def test_a_work_folder_is_kept_and_used_again(prepared: Callable[..., Path], tmp_path: Path) -> None:
    root = prepared("out", "--work", tmp_path / "work")
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "work" / "tokens").iterdir()}
    again = prepared("again", "--work", tmp_path / "work", "--workers", 2, "--memory", "512MB")
    assert made and {path: path.stat().st_mtime_ns for path in made} == made and not (root / ".work").exists()
    assert (root / "manifest.json").read_bytes() == (again / "manifest.json").read_bytes()


def test_a_dry_run_writes_nothing(call: Command, lines: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    ran = call("prepare", lines, "--out", tmp_path / "out", "--tokenizer", "byte", "--dry-run", "--dedup", "near")
    assert "steps: clean > dedup: near > tokenize: byte" in ran.out and sorted(tmp_path.iterdir()) == before


# Recipes


def test_init_writes_a_recipe_that_can_be_read(call: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call("init")
    recipe = read_recipe(tmp_path / "recipe.yaml")
    assert recipe == Recipe("data/corpus", [SourceOptions("web", ["raw/web/*.jsonl.zst"])])


BAD_RECIPES: dict[str, tuple[str, str]] = {
    "no output": ("sources: [{name: a, paths: raw}]", "lacks 'out'"),
    "no sources": ("out: o", "lacks 'sources'"),
    "a misspelt key": ("out: o\nsources: [{name: a, paths: raw}]\nfiltres: []", "did you mean 'filters'"),
    "a misspelt source key": ("out: o\nsources: [{name: a, path: raw}]", "did you mean 'paths'"),
    "a misspelt filter": ("out: o\nsources: [{name: a, paths: raw}]\nfilters: [lenght]", "did you mean 'length'"),
    "a misspelt option": ("out: o\nsources: [{name: a, paths: raw}]\nfilters: [{length: {min_char: 3}}]", "min_chars"),
    "a wrong kind": ("out: o\nsources: [{name: a, paths: raw}]\nfilters: [{length: {min_chars: x}}]", "whole number"),
    "a misspelt dedup": ("out: o\nsources: [{name: a, paths: raw}]\ndedup: [extact]", "did you mean 'exact'"),
    "dedup twice": ("out: o\nsources: [{name: a, paths: raw}]\ndedup: [exact, exact]", "names a rule twice"),
    "a filter as a mapping": ("out: o\nsources: [{name: a, paths: raw}]\nfilters: {c4: {}}", "filters is a list"),
    "two sources of a name": ("out: o\nsources: [{name: a, paths: raw}, {name: a, paths: b}]", "the same name"),
    "a mix of a stranger": (
        "out: o\nsources: [{name: a, paths: raw}]\nmix: {weights: {b: 1}, target: 3}", "'b', which is no source",
    ),
    "a mix that is not all": (
        "out: o\nsources: [{name: a, paths: raw}]\nmix: {weights: {a: 0.5}, target: 3}", "sum to 1, not 0.5",
    ),
    "no YAML": ("out: [", "is not YAML"),
    "a list": ("[1, 2]", "must be a mapping"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_RECIPES)
def test_a_mistake_in_a_recipe_is_named(call: Command, raw: Path, tmp_path: Path, case: str) -> None:
    text, message = BAD_RECIPES[case]
    (tmp_path / "recipe.yaml").write_text(text)
    ran = call("prepare", "--recipe", tmp_path / "recipe.yaml", code=2)
    assert message in ran.said and len(ran.said.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dedup", "exact", "--no-dedup"), "exclude each other"),
        (("--dedup", "exact,neer"), "did you mean 'near'"),
        (("--workers", "0"), "workers must be"),
        (("--memory", "much"), "--memory is a size such as"),
    ],
)
def test_options_that_contradict_or_mean_nothing_are_named(
    call: Command, raw: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    assert message in call("prepare", raw, "--out", tmp_path / "o", "--tokenizer", "byte", *options, code=2).said


def test_an_own_tokenizer_is_trained_and_used(call: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the mill grinds what the miller gives the mill\n" * 50)
    ran = call("train-tokenizer", tmp_path / "a.txt", "--out", tmp_path / "own.json", "--vocab-size", 270)
    assert "270 ids from 1 documents" in ran.out
    assert "exists" in call("train-tokenizer", tmp_path / "a.txt", "--out", tmp_path / "own.json", code=2).said
    options = ("--tokenizer", tmp_path / "own.json", "--val-fraction", 0)
    call("prepare", tmp_path / "a.txt", "--out", tmp_path / "out", *options)
    store = gm.open(tmp_path / "out")
    assert store.document(0).text == (tmp_path / "a.txt").read_text().rstrip()
    assert store.num_tokens < len(store.document(0).text) / 2


def test_the_spellings_of_older_scripts_make_the_same_store(call: Command, raw: Path, tmp_path: Path) -> None:
    files = (raw / "a.txt", raw / "b.txt")
    old = "--tokenization byte --tokens_per_shard 100 --no_normalize --no_dedup --val_fraction 0"
    new = "--tokenizer byte --tokens-per-shard 100 --no-normalize --no-dedup --val-fraction 0"
    call("prepare", "--input_files", *files, "--out_dir", tmp_path / "old", *old.split())
    call("prepare", *files, "--out", tmp_path / "new", *new.split())
    assert (tmp_path / "old" / "manifest.json").read_bytes() == (tmp_path / "new" / "manifest.json").read_bytes()


def test_a_recipe_says_everything_in_the_old_spelling_too(call: Command, raw: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(f"out: {tmp_path / 'out'}\nsources: [{{name: a, paths: [{raw}]}}]\n")
    ran = call("prepare", "--recipe", tmp_path / "recipe.yaml", "--input_files", raw, code=2)
    assert "--recipe says everything: put INPUT into" in ran.said


def test_stream_shows_rows_rates_drops_and_what_it_leaves_undone(call: Command, tmp_path: Path) -> None:
    rows = [json.dumps({"id": f"d{i}", "text": f"Document {i}. " + "word " * i}) + "\n" for i in range(30)]
    (tmp_path / "a.jsonl").write_text("".join(rows))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"out: new\nseed: 7\nsources: [{{name: web, paths: ['{tmp_path}/a.jsonl']}}]\ntokenizer: byte\n"
                      "filters: [{length: {min_chars: 40}}]\nstore: {val_fraction: 0.25}\n")  # fmt: skip
    shape = ("--seq-len", 64, "--batch-size", 4)
    shown = call("stream", recipe, *shape, "--examples", 2).out
    assert "pack 64 x 4, seed 7" in shown and "too_few_chars" in shown and "million tokens/s" in shown
    assert "dedup: duplicates (exact) stay" in shown and "25.00% for val" in shown
    assert f"gristmill prepare --recipe {recipe}" in shown and shown.count("length, too_few_chars: 2 of") == 1
    found = call("stream", recipe, *shape, "--steps", 1000, "--json").json
    dropped = sum(len(json.loads(row)["text"]) < 40 for row in rows)
    assert found["ended"] and found["funnel"][0]["documents"] == 30 and found["dropped"]["documents"] == dropped
    assert found["undone"].keys() == {"dedup", "store.val_fraction"} and found["rows"][0]["file"] == "a.jsonl"
    other = call("stream", recipe, *shape, "--seed", 8, "--cut", "pad", "--steps", 1, "--json").json
    assert (
        other["rows"] != found["rows"] and other["steps"] == 1 and all(row["documents"] == 1 for row in other["rows"])
    )


def test_a_stream_of_no_recipe_or_no_files_is_an_error_in_a_sentence(call: Command, tmp_path: Path) -> None:
    assert "cannot be read" in call("stream", tmp_path / "none.yaml", code=2).said
    (tmp_path / "recipe.yaml").write_text("out: new\nsources: [{name: web, paths: ['nowhere/*.txt']}]\n")
    assert "nowhere" in call("stream", tmp_path / "recipe.yaml", code=2).said


def test_stream_tells_the_documents_of_a_step_and_of_a_split(call: Command, tmp_path: Path) -> None:
    rows = [json.dumps({"id": f"d{i}", "text": f"Document {i}. " + "word " * i}) + "\n" for i in range(40)]
    (tmp_path / "a.jsonl").write_text("".join(rows))
    recipe, state = tmp_path / "recipe.yaml", tmp_path / "state.json"
    recipe.write_text(f"out: new\nseed: 7\nsources: [{{name: web, paths: ['{tmp_path}/a.jsonl']}}]\ntokenizer: byte\n"
                      "dedup: []\nstore: {val_fraction: 0.25}\n")  # fmt: skip
    stream = gm.stream_recipe(recipe, split="train").pack(64).batch(4, seed=7)
    loader = stream.loader(threads=0)
    for _ in zip(range(5), loader, strict=False):
        pass
    state.write_text(json.dumps(loader.state_dict()))
    asked = ("stream", recipe, "--seq-len", 64, "--batch-size", 4, "--split", "train")
    expected = [vars(row) for row in stream.trace(9)]
    assert call(*asked, "--step", 9, "--json").json == expected
    assert call(*asked, "--step", 9, "--state", state, "--json").json == expected
    assert call(*asked, "--state", state, "--json").json == [vars(row) for row in stream.trace(5)]
    assert expected[0]["doc_id"] in call(*asked, "--step", 9, "--state", state).out
    assert "is no file" in call(*asked, "--state", tmp_path / "none.json", code=2).said
    (tmp_path / "null.json").write_text("null")
    assert "no state of a Gristmill stream" in call(*asked, "--step", 9, "--state", tmp_path / "null.json", code=2).said
    assert "leave them out" in call(*asked, "--step", 9, "--steps", 3, code=2).said
    assert "belongs to another stream" in call(*asked, "--seed", 8, "--state", state, code=2).said
    shown = call("inspect", state).out
    assert "step" in shown and loader.state_dict()["digest"] in shown
    assert "state of a stream" in call("inspect", state, "--plan", tmp_path / "plan.json", code=2).said
    kept, held_out = (
        call(*asked[:-1], split, "--steps", 99, "--json").json["funnel"][-1]["documents"] for split in ("train", "val")
    )
    assert kept + held_out == 40 and held_out > 0
