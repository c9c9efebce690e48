"""What the commands of the command line share: how one is added, and options that several have."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gristmill.core.bar import Bar


def command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int | None], text: str
) -> argparse.ArgumentParser:
    """A command, with the function that runs it."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run, parser=parser)
    return parser


def json_option(parser: argparse.ArgumentParser) -> None:
    """Programs want JSON."""
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")


def foreign_options(parser: argparse.ArgumentParser) -> None:
    """What cannot be known of a bare token file."""
    parser.add_argument("--dtype", help="of token files without a header: uint16, uint32, ...")
    parser.add_argument("--eos", type=int, metavar="ID", help="what ends documents in token files without an index")


def progress_bar(chosen: argparse.Namespace) -> Bar:
    """A bar on the terminal, unless JSON is asked for."""
    from gristmill.core.bar import Bar

    return Bar(quiet=getattr(chosen, "json", False))
