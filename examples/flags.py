"""The flags that all examples have, and their one way to resume: run the same command again with --resume.

Underscores and dashes are the same: --batch_size is --batch-size.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gristmill as gm
from gristmill.cli_options import DashedParser


def make_parser(description: str | None, out_dir: str) -> argparse.ArgumentParser:
    """A parser with the flags of a run; each example adds where its tokens come from, and what else it can do."""
    parser = DashedParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--out-dir", type=Path, default=Path(out_dir), metavar="DIR", help=f"for checkpoints and losses: {out_dir}"
    )
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint of --out-dir")
    parser.add_argument("--steps", type=int, default=200, help="length of the run, and of its learning rate schedule")
    parser.add_argument("--stop-at", type=int, metavar="STEP", help="save and stop at this step, to go on later")
    parser.add_argument("--save-interval", type=int, default=50, metavar="STEPS", help="between two checkpoints")
    parser.add_argument("--batch-size", type=int, default=16, help="sequences of a step, over all ranks")
    parser.add_argument("--seq-len", type=int, default=128, help="tokens of a sequence")
    parser.add_argument("--n-layer", type=int, default=4, help="blocks of the model")
    parser.add_argument("--n-embd", type=int, default=128, help="width of the model, a multiple of 4")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="the highest, after the warm-up")
    parser.add_argument("--seed", type=int, default=0, help="of the model's first weights and the order of sequences")
    return parser


def add_store(parser: argparse.ArgumentParser) -> None:
    """Tokens from a store."""
    parser.add_argument(
        "--dataset-dir", type=Path, required=True, metavar="DIR", help="a store, as `gristmill prepare` writes it"
    )


def add_evaluation(parser: argparse.ArgumentParser) -> None:
    """How much of the validation split is looked at."""
    parser.add_argument(
        "--eval-batches", type=int, default=20, metavar="N", help="batches of an evaluation at most, 0 for none"
    )


def check_resume(args: argparse.Namespace, has_checkpoint: bool) -> None:
    """Never begin where a run is under way, and never resume what has not begun."""
    if args.resume and not has_checkpoint:
        raise gm.StateError(f"There is no checkpoint in {args.out_dir} to resume from: leave out --resume to begin.")
    if has_checkpoint and not args.resume:
        raise gm.ConfigError(f"{args.out_dir} holds a run already: say --resume to go on, or give another --out-dir.")
