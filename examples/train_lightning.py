"""Trains a small GPT with Lightning on a Gristmill store.

    python examples/train_lightning.py --dataset-dir data/corpus
    python examples/train_lightning.py --dataset-dir data/corpus --devices 2 --resume

Stop it whenever you like and run the same command with --resume, on as many devices as you like: it goes on with the
next batch after its last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch.nn import functional

import gristmill as gm
from flags import add_evaluation, add_store, check_resume, make_parser
from gristmill.adapters.lightning import GristmillDataModule
from small_gpt import SmallGPT, learning_rate_share


class GPT(lightning.LightningModule):
    """The model with its loss, AdamW, warm-up and cosine."""

    def __init__(self, vocab_size: int, args: argparse.Namespace) -> None:
        super().__init__()
        self.highest, self.steps = args.learning_rate, args.steps
        self.model = SmallGPT(vocab_size, args.seq_len, args.n_embd, args.n_layer)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids)

    def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
        logits = self(batch["input_ids"])
        return functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())

    def validation_step(self, batch: dict[str, torch.Tensor], _: int) -> None:
        # The last batch may be short, its other rows are padding: labels of -100, maybe all that a rank has.
        labels = batch["labels"].flatten()
        total = functional.cross_entropy(self(batch["input_ids"]).flatten(0, 1), labels, reduction="sum")
        count = int((labels != -100).sum())
        self.log("val_loss", total / max(count, 1), batch_size=count, sync_dist=True, prog_bar=True)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.highest)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate_share(step, self.steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class LossLog(Callback):
    """One JSON line a step, written by rank 0."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, index: int) -> None:
        loss = trainer.strategy.reduce(outputs["loss"], reduce_op="mean").item()
        if trainer.is_global_zero:
            with self.path.open("a") as file:
                file.write(json.dumps({"step": trainer.global_step, "loss": loss}) + "\n")


def arguments() -> argparse.Namespace:
    parser = make_parser(__doc__, out_dir="runs/lightning")
    add_store(parser)
    add_evaluation(parser)
    parser.add_argument("--devices", type=int, default=1, help="ranks, each with a process and a device of its own")
    return parser.parse_args()


def data_module(args: argparse.Namespace) -> GristmillDataModule:
    """The one thing that differs from a run on other data."""
    sizes = {"seq_len": args.seq_len, "batch_size": args.batch_size, "seed": args.seed}
    plan = gm.Plan({"corpus": gm.open(args.dataset_dir / "train")}, **sizes)
    if not args.eval_batches:
        return GristmillDataModule(plan, keys=("labels",))
    val = gm.open(args.dataset_dir / "val")
    return GristmillDataModule(
        plan, gm.Plan({"corpus": val}, **sizes, options=gm.PlanOptions(drop_last=False)), keys=("labels",)
    )


def main() -> None:
    args = arguments()
    data = data_module(args)
    vocab_size = json.loads((args.dataset_dir / "manifest.json").read_text())["vocab_size"]
    lightning.seed_everything(args.seed, verbose=False)
    model = GPT(vocab_size, args)

    last = args.out_dir / "last.ckpt"
    check_resume(args, last.exists())
    args.out_dir.mkdir(parents=True, exist_ok=True)
    saves = ModelCheckpoint(args.out_dir, "last", every_n_train_steps=args.save_interval, enable_version_counter=False)
    trainer = lightning.Trainer(
        devices=args.devices,
        strategy="ddp" if args.devices > 1 else "auto",
        max_steps=args.stop_at or args.steps,
        callbacks=[saves, LossLog(args.out_dir / "losses.jsonl")],
        limit_val_batches=args.eval_batches,
        gradient_clip_val=1.0,
        logger=False,
        enable_model_summary=False,
    )
    trainer.fit(model, data, ckpt_path=last if args.resume else None)
    trainer.save_checkpoint(last)
    if trainer.is_global_zero:
        print(f"waited for data: {data.train_dataloader().stats()['waited_share']:.1%} of the time")


if __name__ == "__main__":
    try:
        main()
    except gm.GristmillError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
