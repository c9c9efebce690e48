"""What the commands of the command line share: how one is added, and options that several have."""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypedDict, Unpack

from gristmill.core.errors import did_you_mean
from gristmill.core.values import Count, fits, spelt
from gristmill.core.watched import imported

if TYPE_CHECKING:
    from gristmill.core.bar import Bar

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
# What the user of a command should know who has stopped it.
_AGAIN = ". Nothing that is half made looks finished: run the same command again."
WHEN_STOPPED = {
    "view": ". The page is closed, and its address leads nowhere any more.",
    "prepare": ". Run the same command again, and it goes on from what is done.",
    **dict.fromkeys(("index", "join", "export", "import", "train-tokenizer"), _AGAIN),
}


class DashedParser(argparse.ArgumentParser):
    """argparse with option names in which underscores are dashes, as in the scripts that this replaces."""

    def parse_known_args(  # type: ignore[override]  # argparse fills any object; here it is always a Namespace
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse, after the names of options are spelt with dashes; what follows `--` is left alone."""
        given = list(sys.argv[1:] if args is None else args)
        end = given.index("--") if "--" in given else len(given)
        return super().parse_known_args([*map(self._dashed, given[:end]), *given[end:]], namespace)

    def _dashed(self, argument: str) -> str:
        name, equals, value = argument.partition("=")
        dashed = name.replace("_", "-")
        return f"{dashed}{equals}{value}" if dashed in self._option_string_actions else argument


class Parser(DashedParser):
    """argparse in our words: one sentence, and the nearest command to a misspelt one."""

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"argument COMMAND: invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if wrong:
            known = wrong[2].replace("'", "").split(", ")
            message = f"There is no command {wrong[1]!r}{did_you_mean(wrong[1], known)}"
        message = re.sub(r"^argument (\S+): must be ", r"\1 must be ", message)
        message = re.sub(r"^argument (\S+): invalid choice: (.*) \(choose from (.*)\)$", _no_choice, message)
        print(f"gristmill: {message[:1].upper()}{message[1:]}. See `{self.prog} --help`.", file=sys.stderr)
        raise SystemExit(2)


def _no_choice(found: re.Match[str]) -> str:
    known = found[3].replace("'", "").split(", ")
    return f"{found[1]} {found[2]} is not known{did_you_mean(found[2], known)}"


def command(commands: Commands, name: str, place: str, text: str, *examples: str) -> argparse.ArgumentParser:
    """A command with examples of its use, run by the function at `place`; every command has --json."""
    shown = [f"  gristmill {name} {example}".rstrip() for example in examples]
    parser = commands.add_parser(
        name,
        allow_abbrev=False,
        help=text.partition(". ")[0].rstrip(".") + ".",
        description="\n".join([textwrap.fill(text, 79), "", "for example:", *shown]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add(parser, "--storage", "ADDRESS,K=V,...", "How addresses that begin so are reached: endpoint=URL, region=NAME, "
        "profile=NAME, anonymous, deadline=SECONDS, cache=DIR, cache_bytes=SIZE, ...; may be given several times.",
        action="append", default=[])  # fmt: skip
    add_flag(parser, "--json", "Print one JSON value, and nothing else, on stdout: for programs.")
    parser.set_defaults(run=functools.partial(_run, place), parser=parser)
    return parser


def _run(place: str, chosen: argparse.Namespace) -> int | None:
    """Call the function at `module:name`, imported only now: `--help` waits for no library."""
    module, _, name = place.partition(":")
    gc.disable()  # imports make no garbage
    try:
        run = getattr(importlib.import_module(f"gristmill.{module}"), name)
    finally:
        gc.enable()
    imported()
    code: int | None = run(chosen)
    return code


class More(TypedDict, total=False):
    """What argparse may be told of an option beside its names and its help."""

    action: str
    choices: Sequence[str]
    default: float | str | list[str]
    dest: str
    nargs: str
    required: bool


def add(parser: argparse._ActionsContainer, names: str, metavar: str | None, text: str, **more: Unpack[More]) -> None:
    """A place or an option, by all its names, with what stands for its value in the help."""
    parser.add_argument(*names.split(), metavar=metavar, help=text, **more)


def add_flag(parser: argparse._ActionsContainer, name: str, text: str) -> None:
    """An option that is given or not."""
    parser.add_argument(name, action="store_true", help=text)


def add_number(
    parser: argparse._ActionsContainer, name: str, kind: object, text: str, metavar: str = "N", **more: Unpack[More]
) -> None:
    """An option that takes a number of a kind (`Positive`, `Count`), or says which numbers it takes."""

    def parsed(text: str) -> float:
        try:
            value: float | str = typing.get_args(kind)[0](text)
        except ValueError:
            value = text
        if isinstance(value, str) or not fits(value, kind):
            raise argparse.ArgumentTypeError(f"must be {spelt(kind)}, not {text!r}")
        return value

    parser.add_argument(name, type=parsed, metavar=metavar, help=text, **more)


def foreign_options(parser: argparse.ArgumentParser) -> None:
    """What cannot be known of a bare token file."""
    add(parser, "--dtype", None, "The type of token files without a header: uint16, uint32, ...")
    add_number(parser, "--eos", Count, "The token that ends a document in token files without an index.", metavar="ID")


def option_name(parser: argparse.ArgumentParser, argument: str) -> str:
    """How a command spells an argument: `--text-field`, `INPUT`."""
    (action,) = (action for action in parser._actions if action.dest == argument)
    return next(iter(action.option_strings), str(action.metavar))


def progress_bar(chosen: argparse.Namespace) -> Bar:
    """A bar on the terminal, unless JSON is asked for."""
    from gristmill.core.bar import Bar  # which imports rich: not for --help

    return Bar(quiet=chosen.json)


def answer(chosen: argparse.Namespace, figures: object, show: Callable[[], None]) -> None:
    """The figures as JSON for programs, else the screen that shows them."""
    from gristmill.show.terminal import print_json  # rich, as above

    if chosen.json:
        print_json(figures)
    else:
        show()
