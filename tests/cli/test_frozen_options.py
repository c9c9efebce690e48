"""Every command and option by name: none can vanish or change its meaning without this list changing too."""

from __future__ import annotations

import argparse

from gristmill.cli import build_parser

FROZEN = {
    "prepare": "INPUT --compression --dedup --documents --dry-run --eos --fields --id-field --json --keep-dropped "
    "--memory --no-dedup --no-normalize --on-error --out --overwrite --pack --recipe --sample --save-index --seed "
    "--shuffle --text-field --tokenizer --tokens-per-shard --val-fraction --work --workers",
    "init": "FILE --overwrite",
    "train-tokenizer": "INPUT --limit --out --overwrite --text-field --vocab-size",
    "inspect": "PATH --doc --dtype --eos --json --plan --step --until",
    "verify": "DIR --json",
    "index": "PATH --dtype --eos --force --index-dir --seq-len",
    "join": "STORE --json --out --overwrite",
    "export": "DIR --json --out --overwrite --to",
    "import": "FILE --boundaries --dtype --eos --json --out --overwrite --split --tokenizer",
    "bench": "PATH --batch-size --cut --dtype --eos --json --keys --seconds --seq-len",
    "demo": "--out",
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


def test_every_command_and_option_has_a_help_text() -> None:
    for name, parser in commands().items():
        assert parser.description, name
        for action in parser._actions:
            assert action.help, f"{name}: {action.dest}"


def test_defaults_are_the_librarys() -> None:
    chosen = build_parser().parse_args(["prepare", "a", "--out", "b"])
    given = {name: value for name, value in vars(chosen).items() if value not in (None, False, [])}
    assert set(given) == {"inputs", "out", "run", "parser"}
