"""The command line: the library's own words. Errors are one sentence; exit 2 for the user's, 1 for others."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Sequence
from functools import partial

from gristmill.cli_commands import add_commands
from gristmill.cli_options import WHEN_STOPPED, Parser, option_name
from gristmill.core.ending import Ending, fall_silent, leave, open_closed, unread
from gristmill.core.errors import ConfigError, GristmillError, did_you_mean
from gristmill.core.version import version
from gristmill.core.watched import watched
from gristmill.places.storage import parse_storage, use


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the process's exit code. Without arguments it is that of the shell."""
    open_closed()
    return watched(partial(_told, None)) if arguments is None else _told(arguments)


def _told(arguments: Sequence[str] | None) -> int:
    with Ending(last=arguments is None) as ending:
        try:
            return _printed(arguments, ending)
        except MemoryError:
            os.write(2, b"gristmill: There was not enough memory. Free some, or ask for less, and run again.\n")
            if arguments is None:
                leave(1)  # libraries that did not get their memory would touch it once more
            return 1
        except BaseException as error:  # whatever an interrupt was made of on its way: Numba's loader wraps it
            if ending.told is not None or isinstance(error, KeyboardInterrupt):
                return ending.say()
            if isinstance(error, BrokenPipeError) and unread():
                return fall_silent()
            raise


def _printed(arguments: Sequence[str] | None, ending: Ending) -> int:
    """Run the command, and let all that it printed reach its reader: help and errors, too."""
    try:
        code = _main(arguments, ending)
    except SystemExit:
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return code


def _main(arguments: Sequence[str] | None, ending: Ending) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a letter is no reason to stop
    parser = build_parser()
    chosen, unknown = parser.parse_known_args(arguments)
    if not hasattr(chosen, "run"):
        parser.print_help()
        return 2
    ending.hint = WHEN_STOPPED.get(chosen.parser.prog.split()[-1], "")
    try:
        _refuse_unknown(chosen.parser, unknown)
        _refuse_empty(chosen)
        for said in chosen.storage:
            use(parse_storage(said))
        code = int(chosen.run(chosen) or 0)
        sys.stdout.flush()  # a disk that is full is known only now
        return code
    except Exception as error:
        if ending.told is not None or isinstance(error, MemoryError):
            raise
        return _failed(error, chosen)


def _failed(error: Exception, chosen: argparse.Namespace) -> int:
    """Say in one sentence what went wrong; what nobody foresaw is raised again."""
    if isinstance(error, GristmillError):
        print(f"gristmill: {in_options(error, chosen)}", file=sys.stderr)
        return error.exit_code
    if isinstance(error, OSError) and not (isinstance(error, BrokenPipeError) and unread()):
        place = f" ({error.filename})" if error.filename else ""
        why = error.strerror or str(error)
        print(f"gristmill: The machine failed: {why}{place}. Mend that and run again.", file=sys.stderr)
        return 1
    raise error


def _refuse_empty(chosen: argparse.Namespace) -> None:
    """An option that is given nothing ("$UNSET") is a mistake, never a default."""
    for action in chosen.parser._actions:
        if getattr(chosen, action.dest, None) == "" and action.default != "":
            raise ConfigError(f"{action.option_strings[-1] if action.option_strings else action.metavar} is empty.")


def _refuse_unknown(parser: argparse.ArgumentParser, unknown: list[str]) -> None:
    """Name what the command does not know, and the option that may have been meant."""
    if not unknown:
        return
    option = unknown[0].partition("=")[0]
    if not option.startswith("--"):
        raise ConfigError(f"{parser.prog} does not know what to do with {option!r}. See `{parser.prog} --help`.")
    known = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
    raise ConfigError(f"{parser.prog} has no option {option}{did_you_mean(option, known)}.")


def in_options(error: GristmillError, chosen: argparse.Namespace) -> str:
    """The message with the arguments that it names as the command's options: dtype="uint16" is --dtype uint16.

    What a recipe file says keeps its name.
    """
    message, kept = str(error), getattr(chosen, "said_by_recipe", ())
    for action in chosen.parser._actions:
        if action.dest in error.arguments and action.dest not in kept:
            message = _with_option(message, action.dest, option_name(chosen.parser, action.dest))
    return message


def _with_option(message: str, name: str, option: str) -> str:
    """`name=value` and `name=` as the option; a message without them says `name` itself."""
    as_argument = rf'\b{name}=(\w+(?:\.\w+)*|"[^"]*"|\'[^\']*\')?'
    if not re.search(as_argument, message):
        return re.sub(rf"(?<![\w-]){name}\b", option, message)
    return re.sub(as_argument, partial(_as_option, option), message)


def _as_option(option: str, found: re.Match[str]) -> str:
    value = (found[1] or "").strip("\"'")
    return option if value in ("", "True") else f"{option} {value}"


class _Version(argparse.Action):
    """Looks the version up where it is asked for: that takes a fifth of a command's start."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *given: object) -> None:
        print(f"gristmill {version()}")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = Parser(
        prog="gristmill",
        allow_abbrev=False,
        description="Raw text to the batches a language model trains on.",
        epilog="Begin with `gristmill demo`, or with `gristmill prepare my.txt --out data/mine`; "
        "`gristmill COMMAND --help` explains a command and shows how it is used.",
    )
    parser.add_argument("--version", action=_Version, help="Print the version.")
    add_commands(parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser))
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
