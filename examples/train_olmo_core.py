"""Trains a small Llama-like model with OLMo-core's own Trainer on a Gristmill store.

    python examples/train_olmo_core.py data/corpus --save-folder runs/olmo
    torchrun --nproc-per-node 2 examples/train_olmo_core.py data/corpus --save-folder runs/olmo

Stop it whenever you like and run it again, on as many ranks as you like: it goes on with the next batch.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from olmo_core.config import DType
from olmo_core.distributed.parallel import DataParallelType
from olmo_core.distributed.utils import get_rank
from olmo_core.nn.transformer import TransformerConfig
from olmo_core.optim import AdamWConfig, CosWithWarmup
from olmo_core.train import Duration, TrainerConfig, prepare_training_environment, teardown_training_environment
from olmo_core.train.callbacks import Callback, CheckpointerCallback
from olmo_core.train.train_module import (
    TransformerDataParallelConfig,
    TransformerTrainModule,
    TransformerTrainModuleConfig,
)

import gristmill as gm
from gristmill.adapters.olmo_core import GristmillDataLoader


@dataclass
class LossLog(Callback):
    """One JSON line a step, written by rank 0."""

    path: str = ""

    def log_metrics(self, step: int, metrics: dict[str, float]) -> None:
        if get_rank() == 0 and "train/CE loss" in metrics:
            with open(self.path, "a") as file:
                file.write(json.dumps({"step": step, "loss": metrics["train/CE loss"]}) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset_dir", type=Path, help="a store, as `gristmill prepare` writes it")
    parser.add_argument("--save-folder", type=Path, required=True, help="checkpoints and losses.jsonl go here")
    parser.add_argument("--steps", type=int, default=200, help="length of the run, and of its learning rate schedule")
    parser.add_argument("--stop-at", type=int, help="save and stop at this step of the run, to go on later")
    parser.add_argument("--sequence-length", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=16, help="sequences of the global batch")
    parser.add_argument("--d-model", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def train_module(args: argparse.Namespace, vocab_size: int, distributed: bool) -> TransformerTrainModule:
    """The model and its optimizer; every rank sees its sequences one at a time, to fit any number of ranks."""
    model = TransformerConfig.llama_like(
        d_model=args.d_model, n_layers=args.layers, n_heads=4, vocab_size=vocab_size, dtype=DType.float32
    ).build(init_device="cpu")
    config = TransformerTrainModuleConfig(
        rank_microbatch_size=args.sequence_length,
        max_sequence_length=args.sequence_length,
        optim=AdamWConfig(lr=1e-3),
        scheduler=CosWithWarmup(warmup=args.steps // 10),
        max_grad_norm=1.0,
        dp_config=TransformerDataParallelConfig(name=DataParallelType.ddp) if distributed else None,
    )
    return config.build(model)


def main() -> None:
    args = arguments()
    distributed = "RANK" in os.environ  # set by torchrun
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    prepare_training_environment(seed=args.seed, backend=backend if distributed else None, shared_filesystem=True)

    plan = gm.Plan(
        {"corpus": gm.open(args.dataset_dir / "train")},
        seq_len=args.sequence_length,
        batch_size=args.batch_size,
        seed=args.seed,
    )
    vocab_size = json.loads((args.dataset_dir / "manifest.json").read_text())["vocab_size"]
    module = train_module(args, vocab_size, distributed)
    args.save_folder.mkdir(parents=True, exist_ok=True)
    config = TrainerConfig(
        save_folder=str(args.save_folder),
        save_overwrite=True,
        max_duration=Duration.steps(args.steps),
        hard_stop=Duration.steps(args.stop_at) if args.stop_at else None,
        metrics_collect_interval=5,
        callbacks={
            "checkpointer": CheckpointerCallback(save_interval=50, pre_train_checkpoint=False),
            "losses": LossLog(path=str(args.save_folder / "losses.jsonl")),
        },
    )
    # The one line that differs from a run on OLMo-core's own loader.
    data_loader = GristmillDataLoader(plan)
    config.build(module, data_loader).fit()
    if get_rank() == 0:
        print(f"waited for data: {data_loader.stats()['waited_share']:.1%} of the time")
    teardown_training_environment()


if __name__ == "__main__":
    main()
