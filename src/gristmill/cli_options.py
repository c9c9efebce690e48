"""What the commands of the command line share: how one is added, and options that several have."""

from __future__ import annotations

import argparse
import sys
import textwrap
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gristmill.core.values import Count, fits, spelt

if TYPE_CHECKING:
    from gristmill.core.bar import Bar
# What the user of a command should know who has stopped it.
_AGAIN = ". Nothing that is half made looks finished: run the same command again."
WHEN_STOPPED = {
    "prepare": ". Run the same command again, and it goes on from what is done.",
    **dict.fromkeys(("index", "join", "export", "import", "train-tokenizer"), _AGAIN),
}


class DashedParser(argparse.ArgumentParser):
    """argparse with whole option names, in which underscores are dashes, as in the scripts that this replaces."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, after the names of options are spelt with dashes; what follows `--` is left alone."""
        given = list(sys.argv[1:] if args is None else args)
        end = given.index("--") if "--" in given else len(given)
        return super().parse_known_args([*map(self._dashed, given[:end]), *given[end:]], namespace)

    def _dashed(self, argument: str) -> str:
        name, equals, value = argument.partition("=")
        dashed = name.replace("_", "-")
        return f"{dashed}{equals}{value}" if dashed in self._option_string_actions else argument


def command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int | None], text: str, *examples: str
) -> argparse.ArgumentParser:
    """A command, with the function that runs it and examples of its use; every command has --json."""
    shown = [f"  gristmill {name} {example}".rstrip() for example in examples]
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text.partition(". ")[0].rstrip(".") + ".",
        description="\n".join([textwrap.fill(text, 79), "", "for example:", *shown]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--json", action="store_true", help="Print one JSON value, and nothing else, on stdout: for programs."
    )
    parser.set_defaults(run=run, parser=parser)
    return parser


def number(kind: Any) -> Callable[[str], Any]:
    """What turns an option's text into a number of a kind (`Positive`, `Count`), or says which numbers it takes."""

    def parsed(text: str) -> Any:
        try:
            value = typing.get_args(kind)[0](text)
        except ValueError:
            value = text
        if not fits(value, kind):
            raise argparse.ArgumentTypeError(f"must be {spelt(kind)}, not {text!r}")
        return value

    return parsed


def foreign_options(parser: argparse.ArgumentParser) -> None:
    """What cannot be known of a bare token file."""
    parser.add_argument("--dtype", help="The type of token files without a header: uint16, uint32, ...")
    parser.add_argument(
        "--eos",
        type=number(Count),
        metavar="ID",
        help="The token that ends a document in token files without an index.",
    )


def option_name(parser: argparse.ArgumentParser, argument: str) -> str:
    """How a command spells an argument: `--text-field`, `INPUT`."""
    (action,) = (action for action in parser._actions if action.dest == argument)
    return next(iter(action.option_strings), str(action.metavar))


def progress_bar(chosen: argparse.Namespace) -> Bar:
    """A bar on the terminal, unless JSON is asked for."""
    from gristmill.core.bar import Bar

    return Bar(quiet=chosen.json)
