"""Trains a small GPT on a pair of token files, by torch's own DataLoader.

    python examples/train_local.py --train_data_path train.npy --val_data_path val.npy --batch_size 16
    python examples/train_local.py --train_data_path 'train-{00..15}.bin' --val_data_path val.bin --out_dir runs/bin
    torchrun --nproc-per-node 2 examples/train_local.py --train_data_path train.npy --val_data_path val.npy --resume

The files are .npy or .bin, with a header or without. Stop it however you like and run the same command with --resume,
on as many ranks and with as many workers as you like: it goes on with the next batch after its last checkpoint.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import gristmill as gm
from flags import add_evaluation, check_resume, make_parser
from gristmill.adapters.local_files import ResumableDataLoader, Sample, create_dataloaders
from gristmill.adapters.torch import data_parallel_rank
from gristmill.places.door import place_at
from small_gpt import SmallGPT, learning_rate_share

CHECKPOINT, LOSSES = "last.pt", "losses.jsonl"


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = make_parser(__doc__, out_dir="runs/local")
    parser.add_argument("--train-data-path", required=True, nargs="+", metavar="FILE", help="token files to train on")
    parser.add_argument("--val-data-path", required=True, nargs="+", metavar="FILE", help="token files to evaluate on")
    parser.add_argument("--dtype", help="of the tokens, where the files do not tell: uint16, uint32, ...")
    parser.add_argument("--vocab-size", type=int, default=50_257, help="ids that there may be; default GPT-2's")
    parser.add_argument(
        "--max-length", type=int, dest="seq_len", default=argparse.SUPPRESS, help="the same as --seq-len"
    )
    parser.add_argument("--num-workers", type=int, default=0, help="worker processes of the DataLoader")
    parser.add_argument("--log-interval", type=int, default=10, metavar="STEPS", help="between lines of output")
    add_evaluation(parser)
    return parser.parse_args(argv)


def join_ranks() -> tuple[int, int]:
    """(rank, world size), after meeting the other processes that torchrun started, if it did."""
    if "RANK" in os.environ:
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return data_parallel_rank()


def open_data(args: argparse.Namespace, world_size: int) -> tuple[ResumableDataLoader, DataLoader[Sample]]:
    """The (train, val) loaders of this rank."""
    if args.batch_size % world_size:
        raise gm.ConfigError(f"--batch-size {args.batch_size} cannot be split over {world_size} ranks.")
    return create_dataloaders(
        args.train_data_path,
        args.val_data_path,
        batch_size=args.batch_size // world_size,
        max_length=args.seq_len,
        num_workers=args.num_workers,
        seed=args.seed,
        dtype=args.dtype,
    )


class Trainer:
    """Model, optimizer and data of a run; `step` is how many steps are done."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.step = args, 0
        self.rank, world_size = join_ranks()
        self.train, self.val = open_data(args, world_size)
        self.device = torch.device(f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(args.seed)
        self.model = SmallGPT(args.vocab_size, args.seq_len, args.n_embd, args.n_layer).to(self.device)
        self.parallel: nn.Module = DistributedDataParallel(self.model) if world_size > 1 else self.model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.learning_rate)

    def begin(self) -> None:
        """Load the checkpoint of the folder, or make sure that there is none."""
        place = self.args.out_dir / CHECKPOINT
        check_resume(self.args, place.exists())
        if self.args.resume:
            state = torch.load(place, map_location="cpu", weights_only=True)
            self.step = state["step"]
            self.train.load_state_dict(state["data"])
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
        if self.rank == 0:
            self.args.out_dir.mkdir(parents=True, exist_ok=True)
            cut_losses(self.args.out_dir / LOSSES, self.step)

    def run(self) -> None:
        """Train to the end, or to --stop-at."""
        end = min(self.args.stop_at or self.args.steps, self.args.steps)
        for batch in itertools.islice(endless(self.train), max(end - self.step, 0)):
            loss = self.update(self.ids(batch["input_ids"]), batch["labels"].to(self.device))
            self.step += 1
            self.note(loss)
            if self.step % self.args.save_interval == 0 or self.step == end:
                self.save()

    def update(self, ids: torch.Tensor, labels: torch.Tensor) -> float:
        """One step of the optimizer; the mean loss of all ranks."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.args.learning_rate * learning_rate_share(self.step, self.args.steps)
        loss = functional.cross_entropy(self.parallel(ids).flatten(0, 1), labels.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return mean_of_ranks(loss.detach())

    def ids(self, ids: torch.Tensor) -> torch.Tensor:
        if int(ids.max()) >= self.args.vocab_size:
            raise gm.ConfigError(f"The files hold the id {int(ids.max()):,}: give a --vocab-size above that.")
        return ids.to(self.device)

    def note(self, loss: float) -> None:
        """One JSON line a step, and now and then one to look at."""
        if self.rank:
            return
        with (self.args.out_dir / LOSSES).open("a") as file:
            file.write(json.dumps({"step": self.step, "loss": loss}) + "\n")
        if self.step % self.args.log_interval == 0:
            print(f"step {self.step}: loss {loss:.4f}", flush=True)

    def save(self) -> None:
        """All that the next step depends on, in one file that appears whole or not at all."""
        if self.rank == 0:
            state = {"step": self.step, "data": self.train.state_dict(), "model": self.model.state_dict()}
            with place_at(self.args.out_dir / CHECKPOINT).writing() as file:
                torch.save({**state, "optimizer": self.optimizer.state_dict()}, file)

    @torch.no_grad()
    def evaluate(self) -> float:
        """The mean loss over the first --eval-batches batches of val."""
        total, count = 0.0, 0
        for batch in itertools.islice(self.val, self.args.eval_batches):
            labels = batch["labels"].to(self.device).flatten()
            logits = self.model(self.ids(batch["input_ids"])).flatten(0, 1)
            total += float(functional.cross_entropy(logits, labels, reduction="sum"))
            count += int((labels >= 0).sum())
        return total / count


def endless(train: ResumableDataLoader) -> Iterator[dict[str, Any]]:
    """Pass after pass, each in an order of its own."""
    while True:
        yield from train


def mean_of_ranks(loss: torch.Tensor) -> float:
    if distributed.is_initialized():
        distributed.all_reduce(loss)
        loss /= distributed.get_world_size()
    return loss.item()


def cut_losses(path: Path, step: int) -> None:
    """Forget the steps after a checkpoint: they are about to be done again."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    place_at(path).write("".join(line for line in lines if json.loads(line)["step"] <= step))


def train(args: argparse.Namespace) -> int:
    """All of a run. The model goes with it: a DistributedDataParallel that outlives its process group may never end."""
    trainer = Trainer(args)
    trainer.begin()
    trainer.run()
    if args.eval_batches and trainer.rank == 0:
        print(f"step {trainer.step}: validation loss {trainer.evaluate():.4f}")
    return 0


def main(argv: list[str] | None = None) -> int:
    try:
        return train(arguments(argv))
    except gm.GristmillError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
