"""Trains a small GPT with Lightning on a Gristmill store.

    python examples/train_lightning.py data/corpus --save-folder runs/lightning
    python examples/train_lightning.py data/corpus --save-folder runs/lightning --devices 2

Stop it whenever you like and run it again, on as many devices as you like: it goes on with the next batch after its
last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import nn
from torch.nn import functional

import gristmill as gm
from gristmill.adapters.lightning import GristmillDataModule


class GPT(lightning.LightningModule):
    """A pre-norm Transformer with learned positions, AdamW, warm-up and cosine."""

    def __init__(self, vocab_size: int, sequence_length: int, d_model: int, layers: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Embedding(sequence_length, d_model)
        layer = nn.TransformerEncoderLayer(d_model, 4, 4 * d_model, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, nn.LayerNorm(d_model), enable_nested_tensor=False)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=ids.device)
        x = self.tokens(ids) + self.positions(torch.arange(length, device=ids.device))
        return self.head(self.blocks(x, mask, is_causal=True))

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
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self.learning_rate_at)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def learning_rate_at(self, step: int) -> float:
        """The share of the highest learning rate: a tenth of the run to warm up, then a cosine down to a tenth."""
        warm_up = max(self.steps // 10, 1)
        progress = min((step - warm_up) / max(self.steps - warm_up, 1), 1.0)
        return (step + 1) / warm_up if step < warm_up else 0.55 + 0.45 * math.cos(math.pi * progress)


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset_dir", type=Path, help="a store, as `gristmill prepare` writes it")
    parser.add_argument("--save-folder", type=Path, required=True, help="last.ckpt and losses.jsonl go here")
    parser.add_argument("--steps", type=int, default=200, help="length of the run, and of its learning rate schedule")
    parser.add_argument("--stop-at", type=int, help="save and stop at this step of the run, to go on later")
    parser.add_argument("--save-every", type=int, default=50, help="steps between two checkpoints")
    parser.add_argument("--devices", type=int, default=1, help="ranks, each with a process and a device of its own")
    parser.add_argument("--sequence-length", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=16, help="sequences of the global batch")
    parser.add_argument("--d-model", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def data_module(args: argparse.Namespace) -> GristmillDataModule:
    """The one thing that differs from a run on other data."""
    sizes = {"seq_len": args.sequence_length, "batch_size": args.batch_size, "seed": args.seed}
    plan = gm.Plan({"corpus": gm.open(args.dataset_dir / "train")}, **sizes)
    every_row = gm.PlanOptions(shuffle=False, drop_last=False)
    val_plan = gm.Plan({"corpus": gm.open(args.dataset_dir / "val")}, **sizes, options=every_row)
    return GristmillDataModule(plan, val_plan, keys=("labels",))


def main() -> None:
    args = arguments()
    data = data_module(args)
    vocab_size = json.loads((args.dataset_dir / "manifest.json").read_text())["vocab_size"]
    lightning.seed_everything(args.seed, verbose=False)
    model = GPT(vocab_size, args.sequence_length, args.d_model, args.layers, args.steps)

    args.save_folder.mkdir(parents=True, exist_ok=True)
    last = args.save_folder / "last.ckpt"
    saves = ModelCheckpoint(args.save_folder, "last", every_n_train_steps=args.save_every, enable_version_counter=False)
    trainer = lightning.Trainer(
        devices=args.devices,
        strategy="ddp" if args.devices > 1 else "auto",
        max_steps=args.stop_at or args.steps,
        callbacks=[saves, LossLog(args.save_folder / "losses.jsonl")],
        gradient_clip_val=1.0,
        logger=False,
        enable_model_summary=False,
    )
    trainer.fit(model, data, ckpt_path=last if last.exists() else None)
    trainer.save_checkpoint(last)
    if trainer.is_global_zero:
        print(f"waited for data: {data.train_dataloader().stats()['waited_share']:.1%} of the time")


if __name__ == "__main__":
    try:
        main()
    except gm.GristmillError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
