"""Every command and option by name: none can vanish or change its meaning without this list changing too."""

from __future__ import annotations

import argparse

from gristmill.cli import build_parser

FROZEN = {
    "prepare": "INPUT --compression --dedup --documents --dry-run --encoding --engine --eos --fields --id-field "
    "--input-files --json --keep-dropped --master --memory --no-dedup --no-normalize --no-report --on-error --out "
    "--out-dir --overwrite --pack --recipe --remote --sample --save-index --seed --shuffle --storage --text-field "
    "--tokenization --tokenizer --tokens-per-shard --val-fraction --work --workers",
    "init": "FILE --json --overwrite --storage",
    "stream": "RECIPE --batch-size --cut --examples --json --seed --seq-len --split --state --step --steps --storage",
    "train-tokenizer": "INPUT --json --limit --out --overwrite --storage --text-field --vocab-size",
    "inspect": "PATH --doc --dtype --eos --exclude-doc --exclude-step --from-step --json --out --paths --plan --spikes "
    "--step --storage --until",
    "dropped": "DIR --examples --json --reason --rule --source --storage",
    "view": "PATH --json --no-browser --port --storage",
    "verify": "DIR --json --storage",
    "index": "PATH --dtype --eos --force --index-dir --json --range-documents --seq-len --storage",
    "join": "STORE --json --out --overwrite --storage",
    "export": "DIR --json --out --overwrite --seq-len --storage --to",
    "import": "FILE --boundaries --dtype --eos --json --out --overwrite --split --storage --tokenizer",
    "report": "PATH --json --open --out --storage --vs",
    "simulate": "PLAN --bandwidth --cache --json --latency --nodes --per-1000-requests --per-gb --ranks "
    "--requests-per-second --step-time --steps --storage",
    "ledger": "PLAN --html --ids --json --out --storage --until",
    "watch": "RUN --json --once --seconds --storage",
    "bench": "PATH --batch-size --cut --dtype --eos --json --keys --seconds --seq-len --storage",
    "warm": "--dir --json --recipe --storage",
    "demo": "--json --out --storage",
}


def commands() -> dict[str, argparse.ArgumentParser]:
    (found,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(found.choices)


def names(parser: argparse.ArgumentParser) -> str:
    actions = [action for action in parser._actions if action.dest != "help"]
    places = [str(action.metavar) for action in actions if not action.option_strings]
    return " ".join([*places, *sorted(name for action in actions for name in action.option_strings)])


def test_commands_and_options_are_the_frozen_ones() -> None:
    assert {name: names(parser) for name, parser in commands().items()} == FROZEN


def test_every_command_shows_an_example_and_every_option_says_what_it_is_for_in_a_sentence() -> None:
    for name, parser in commands().items():
        assert f"for example:\n  gristmill {name}" in (parser.description or ""), name
        for action in parser._actions:
            said = action.help or ""
            whole = said[:1].isupper() and said.endswith((".", "..."))
            assert whole or action.dest == "help", f"{name}: {action.dest}: {said}"


def test_defaults_are_the_librarys() -> None:
    chosen = build_parser().parse_args(["prepare", "a", "--out", "b"])
    given = {name: value for name, value in vars(chosen).items() if value not in (None, False, [])}
    assert set(given) == {"inputs", "out", "run", "parser"}


def given(action: argparse.Action, option: str) -> list[str]:
    """An option with a value that it takes."""
    return [option] if action.nargs == 0 else [option, str(next(iter(action.choices or ()), 1))]


def test_underscores_are_dashes_in_every_option_of_every_command() -> None:
    for name, parser in commands().items():
        needed = [
            word for a in parser._actions if a.required and a.option_strings for word in given(a, a.option_strings[0])
        ]
        for action in parser._actions:
            for option in (option for option in action.option_strings if "-" in option[2:]):
                words = given(action, f"--{option[2:].replace('-', '_')}")
                found, unknown = parser.parse_known_args(["x", *needed, *words])
                assert words[0] not in unknown and getattr(found, action.dest) not in (None, False, []), (name, option)


def test_what_follows_two_dashes_or_an_equals_sign_keeps_its_underscores() -> None:
    chosen = build_parser().parse_args(["prepare", "--out_dir=a_b", "--", "--text_field"])
    assert (chosen.out, chosen.inputs, chosen.text) == ("a_b", ["--text_field"], None)
