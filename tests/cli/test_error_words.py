"""An error speaks the language of whoever called: arguments in Python, options on the command line."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.cli import build_parser, in_options
from gristmill.core.errors import ConfigError

Command = Callable[..., Any]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text("A little text. " * 50)
    return tmp_path / "text.txt"


def test_a_finished_store_asks_for_overwrite_in_the_callers_words(call: Command, store: Path, text: Path) -> None:
    assert "say --overwrite." in call("prepare", text, "--out", store, "--tokenizer", "byte", code=2).said
    with pytest.raises(ConfigError, match=r"say overwrite=True\."):
        gm.prepare(gm.Recipe(str(store), [{"name": "a", "paths": [str(text)]}], tokenizer="byte"))  # type: ignore[list-item]


def test_a_wrong_value_is_blamed_on_the_option(call: Command, text: Path, tmp_path: Path) -> None:
    said = call("prepare", text, "--out", tmp_path / "new", "--tokens-per-shard", 0, code=2).said
    assert "--tokens-per-shard must be a whole number of 1 or more, not '0'." in said


def test_what_a_recipe_file_says_is_called_by_its_key(call: Command, text: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"out: {tmp_path / 'new'}\nsources: [{{name: a, paths: [{text}]}}]\nstore: {{tokens_per_shard: 0}}\n"
    )
    said = call("prepare", "--recipe", recipe, code=2).said
    assert "tokens_per_shard must be a whole number" in said and "--tokens" not in said


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('say dtype="uint16", or what it is', "say --dtype uint16, or what it is"),
        ("give eos= when you open it", "give --eos when you open it"),
        ("eos 7 is outside", "--eos 7 is outside"),
        ("say eos=7.", "say --eos 7."),
        ("paths must be files", "PATH must be files"),
        ("beos, eoss and --eos stay", "beos, eoss and --eos stay"),
        ("seq_len=5 is not what this error is about", "seq_len=5 is not what this error is about"),
    ],
)
def test_arguments_are_spelt_as_options(message: str, expected: str) -> None:
    chosen = build_parser().parse_args(["index", "a.bin"])
    assert in_options(ConfigError(message, arguments=("dtype", "eos", "paths")), chosen) == expected


def test_the_arguments_survive_the_way_out_of_a_worker_process() -> None:
    error = pickle.loads(pickle.dumps(ConfigError("say workers=1", arguments="workers")))
    assert (str(error), error.arguments) == ("say workers=1", ("workers",))


BLAMED = {
    "prepare {text} --out o --documents fil": "--documents 'fil' is not known (did you mean 'file'?)",
    "prepare {text} --out o --dedup nera": "--dedup 'nera' is not known (did you mean 'near'?)",
    "prepare {rows} --out o --tokenizer byte": "Name the key by --text-field KEY.",
    "prepare {rows} --out o --tokenizer byte --text-field body --id-field body": "must be different fields",
    "train-tokenizer {rows} --out o": "Name the key by --text-field KEY.",
    "prepare {text} --out o --encoding latin-11": "--encoding 'latin-11' is not one that Python knows for text",
    "prepare {text} --out o --memory much": "--memory is a size such as",
    "prepare {text} --out o --tokenizer byte --eos 3": "leave --eos out",
    "prepare {text} --out o --tokenizer byte --save-index i": "--save-index needs near dedup",
    "bench {store} --cut pck": "--cut 'pck' is not known (did you mean 'pack'?)",
    "bench {store} --keys lables": "--keys 'lables' is not known (did you mean 'labels'?)",
    "bench {store} --dtype uint16": "--dtype and --eos are for foreign files",
    "import {text} --tokenizer byte --dtype int7 --out o": "Unknown --dtype 'int7'",
    "export {store} --to megatorn --out o": "--to 'megatorn' is not known (did you mean 'megatron'?)",
    "train-tokenizer {text} --out o --limit much": "--limit is a size such as",
}


@pytest.mark.parametrize("arguments", BLAMED)
def test_an_error_names_the_option_that_was_given(
    call: Command, store: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"body": "a"}')
    places = {"store": store, "text": text, "rows": tmp_path / "rows.jsonl"}
    said = call(*arguments.format(**places).split(), code=2).said
    assert BLAMED[arguments] in said


def test_no_message_of_the_library_speaks_of_options_of_the_command_line() -> None:
    """Whole commands in backquotes apart; what other systems call their own options is in export.py."""
    others = ("show", "errors.py", "demo.py", "export.py")
    files = [path for path in Path(gm.__file__).parent.rglob("*.py")
             if not path.name.startswith("cli") and not set(path.parts) & set(others)]  # fmt: skip
    for path in files:
        text = re.sub(r"`gristmill [^`]*`", "", path.read_text())
        found = re.findall(r"(?:say|give|by|with|more|fewer|name it) --[a-z-]+", text)
        assert not found, f"{path}: {found}"
