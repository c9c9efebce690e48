"""Trains a small Llama with Hugging Face's Trainer on a Gristmill store.

    python examples/train_huggingface.py data/corpus --save-folder runs/hf
    torchrun --nproc-per-node 2 examples/train_huggingface.py data/corpus --save-folder runs/hf
    python examples/train_huggingface.py data/corpus --save-folder runs/hf --accumulate 2

Stop it whenever you like and run it again, on as many ranks as you like: it goes on with the next batch after its last
checkpoint. The batch of an update is the same, however ranks and accumulation split it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, TrainerCallback, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

import gristmill as gm
from gristmill.adapters.hf_trainer import CausalLMDataset, GristmillTrainer


class StopAt(TrainerCallback):
    """Saves and stops after a step of the run."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        if state.global_step == self.step:
            control.should_save = control.should_training_stop = True


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset_dir", type=Path, help="a store, as `gristmill prepare` writes it")
    parser.add_argument("--save-folder", type=Path, required=True, help="checkpoints go here")
    parser.add_argument("--steps", type=int, default=200, help="length of the run, and of its learning rate schedule")
    parser.add_argument("--stop-at", type=int, help="save and stop at this step of the run, to go on later")
    parser.add_argument("--save-every", type=int, default=50, help="steps between two checkpoints")
    parser.add_argument("--sequence-length", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=16, help="sequences of an update, over all ranks")
    parser.add_argument("--accumulate", type=int, default=1, help="forwards and backwards of an update on each rank")
    parser.add_argument("--hidden-size", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def data_sets(args: argparse.Namespace) -> tuple[CausalLMDataset, CausalLMDataset]:
    """(train, val): one pass each, the Trainer makes as many as its steps need."""
    sizes = {"seq_len": args.sequence_length, "batch_size": args.batch_size, "seed": args.seed}
    plan = gm.Plan({"corpus": gm.open(args.dataset_dir / "train")}, **sizes)
    every_row = gm.PlanOptions(shuffle=False, drop_last=False)
    val_plan = gm.Plan({"corpus": gm.open(args.dataset_dir / "val")}, **sizes, options=every_row)
    return CausalLMDataset(plan), CausalLMDataset(val_plan)


def training_arguments(args: argparse.Namespace) -> TrainingArguments:
    ranks = int(os.environ.get("WORLD_SIZE", "1"))  # set by torchrun
    return TrainingArguments(
        str(args.save_folder),
        per_device_train_batch_size=max(args.batch_size // (ranks * args.accumulate), 1),
        gradient_accumulation_steps=args.accumulate,
        max_steps=args.steps,
        learning_rate=1e-3,
        lr_scheduler_type="cosine",
        warmup_steps=args.steps // 10,
        logging_steps=1,
        save_steps=args.save_every,
        save_total_limit=2,
        seed=args.seed,
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
        report_to=[],
    )


def main() -> None:
    args = arguments()
    train, val = data_sets(args)
    vocab_size = json.loads((args.dataset_dir / "manifest.json").read_text())["vocab_size"]
    set_seed(args.seed)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=args.hidden_size,
        intermediate_size=4 * args.hidden_size,
        num_hidden_layers=args.layers,
        num_attention_heads=4,
        max_position_embeddings=args.sequence_length,
    )
    # Where a run on other data has a Trainer.
    trainer = GristmillTrainer(
        model=LlamaForCausalLM(config),
        args=training_arguments(args),
        train_dataset=train,
        eval_dataset=val,
        callbacks=[StopAt(args.stop_at)] if args.stop_at else [],
    )
    last = get_last_checkpoint(args.save_folder) if args.save_folder.exists() else None
    trainer.train(resume_from_checkpoint=last)
    loss = trainer.evaluate()["eval_loss"]
    if trainer.is_world_process_zero():
        print(f"step {trainer.state.global_step}: validation loss {loss:.4f}")


if __name__ == "__main__":
    try:
        main()
    except gm.GristmillError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
