"""Trains a small Llama with Hugging Face's Trainer on a Gristmill store.

    python examples/train_huggingface.py --dataset-dir data/corpus
    torchrun --nproc-per-node 2 examples/train_huggingface.py --dataset-dir data/corpus --resume
    python examples/train_huggingface.py --dataset-dir data/corpus --resume --grad-accum 2 --eval-batches 0

Stop it whenever you like and run the same command with --resume, on as many ranks as you like: it goes on with the next
batch after its last checkpoint. The batch of an update is the same, however ranks and accumulation split it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

import torch
from torch.utils.data import Subset
from transformers import LlamaConfig, LlamaForCausalLM, TrainerCallback, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

import gristmill as gm
from flags import add_evaluation, add_store, check_resume, make_parser
from gristmill.adapters.hf_trainer import CausalLMDataset, GristmillTrainer


class StopAt(TrainerCallback):
    """Saves and stops after a step of the run."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        if state.global_step == self.step:
            control.should_save = control.should_training_stop = True


def arguments() -> argparse.Namespace:
    parser = make_parser(__doc__, out_dir="runs/hf")
    add_store(parser)
    add_evaluation(parser)
    parser.add_argument("--grad-accum", type=int, default=1, help="forwards and backwards of an update on each rank")
    return parser.parse_args()


def data_sets(args: argparse.Namespace) -> tuple[CausalLMDataset, Subset[Any] | None]:
    """(train, val): a pass, of which the Trainer makes as many as its steps need; the first rows of a pass over val."""
    sizes = {"seq_len": args.seq_len, "batch_size": args.batch_size, "seed": args.seed}
    train = CausalLMDataset(gm.Plan({"corpus": gm.open(args.dataset_dir / "train")}, **sizes))
    if not args.eval_batches:
        return train, None
    val_store = gm.open(args.dataset_dir / "val")
    val = CausalLMDataset(gm.Plan({"corpus": val_store}, **sizes, options=gm.PlanOptions(drop_last=False)))
    return train, Subset(val, range(min(len(val), args.eval_batches * args.batch_size)))


def training_arguments(args: argparse.Namespace) -> TrainingArguments:
    ranks = int(os.environ.get("WORLD_SIZE", "1"))  # set by torchrun
    return TrainingArguments(
        str(args.out_dir),
        per_device_train_batch_size=max(args.batch_size // (ranks * args.grad_accum), 1),
        gradient_accumulation_steps=args.grad_accum,
        max_steps=args.steps,
        learning_rate=args.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=args.steps // 10,
        logging_steps=1,
        save_steps=args.save_interval,
        save_total_limit=2,
        seed=args.seed,
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
        report_to=[],
    )


def main() -> None:
    args = arguments()
    last = get_last_checkpoint(args.out_dir) if args.out_dir.exists() else None
    check_resume(args, last is not None)
    train, val = data_sets(args)
    vocab_size = json.loads((args.dataset_dir / "manifest.json").read_text())["vocab_size"]
    set_seed(args.seed)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=args.n_embd,
        intermediate_size=4 * args.n_embd,
        num_hidden_layers=args.n_layer,
        num_attention_heads=4,
        max_position_embeddings=args.seq_len,
    )
    # Where a run on other data has a Trainer.
    trainer = GristmillTrainer(
        model=LlamaForCausalLM(config),
        args=training_arguments(args),
        train_dataset=train,
        eval_dataset=val,
        callbacks=[StopAt(args.stop_at)] if args.stop_at else [],
    )
    trainer.train(resume_from_checkpoint=last)
    if val is not None:
        loss = trainer.evaluate()["eval_loss"]
        if trainer.is_world_process_zero():
            print(f"step {trainer.state.global_step}: validation loss {loss:.4f}")


if __name__ == "__main__":
    try:
        main()
    except gm.GristmillError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
