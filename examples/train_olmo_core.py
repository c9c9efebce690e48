"""Trains a small Llama-like model with OLMo-core's own Trainer on a Gristmill store.

    python examples/train_olmo_core.py --dataset-dir data/corpus
    torchrun --nproc-per-node 2 examples/train_olmo_core.py --dataset-dir data/corpus --resume

Stop it whenever you like and run the same command with --resume, on as many ranks as you like: it goes on with the next
batch after its last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass

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
from flags import add_store, check_resume, make_parser
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
    parser = make_parser(__doc__, out_dir="runs/olmo")
    add_store(parser)
    return parser.parse_args()


def train_module(args: argparse.Namespace, vocab_size: int, distributed: bool) -> TransformerTrainModule:
    """The model and its optimizer; every rank sees its sequences one at a time, to fit any number of ranks."""
    model = TransformerConfig.llama_like(
        d_model=args.n_embd, n_layers=args.n_layer, n_heads=4, vocab_size=vocab_size, dtype=DType.float32
    ).build(init_device="cpu")
    config = TransformerTrainModuleConfig(
        rank_microbatch_size=args.seq_len,
        max_sequence_length=args.seq_len,
        optim=AdamWConfig(lr=args.learning_rate),
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
        seq_len=args.seq_len,
        batch_size=args.batch_size,
        seed=args.seed,
    )
    vocab_size = json.loads((args.dataset_dir / "manifest.json").read_text())["vocab_size"]
    module = train_module(args, vocab_size, distributed)
    check_resume(args, any(args.out_dir.glob("step*")))
    args.out_dir.mkdir(parents=True, exist_ok=True)
    config = TrainerConfig(
        save_folder=str(args.out_dir),
        save_overwrite=True,
        max_duration=Duration.steps(args.steps),
        hard_stop=Duration.steps(args.stop_at) if args.stop_at else None,
        metrics_collect_interval=5,
        callbacks={
            "checkpointer": CheckpointerCallback(save_interval=args.save_interval, pre_train_checkpoint=False),
            "losses": LossLog(path=str(args.out_dir / "losses.jsonl")),
        },
    )
    # The one line that differs from a run on OLMo-core's own loader.
    data_loader = GristmillDataLoader(plan)
    config.build(module, data_loader).fit()
    if get_rank() == 0:
        print(f"waited for data: {data_loader.stats()['waited_share']:.1%} of the time")
    teardown_training_environment()


if __name__ == "__main__":
    try:
        main()
    except gm.GristmillError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
