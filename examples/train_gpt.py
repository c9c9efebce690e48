"""Trains a GPT-2-like model on a store, or on a text held in memory, and resumes it to the last bit.

    gristmill demo --out demo
    python examples/train_gpt.py --dataset-dir demo/code --out-dir runs/code
    python examples/train_gpt.py --dataset-dir demo/code=0.7 demo/prose=0.3 --out-dir runs/mix
    python examples/train_gpt.py --input-file book.txt --tokenizer byte --out-dir runs/book --sample 200
    torchrun --nproc-per-node 4 examples/train_gpt.py --dataset-dir demo/code --out-dir runs/code --resume

Stop it however you like and run the same command with --resume, on as many ranks as you like: it goes on with the next
batch. OUT/log.jsonl has one line a step: the loss to its last bit, and a digest of the batch's rows in their order.
With --record OUT is a run that `gristmill inspect OUT --spikes` and `gristmill watch OUT` understand: a document that
does harm is found there, and left out by --plan.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import gristmill as gm
from gristmill.adapters.random_windows import GPTDataLoader
from gristmill.adapters.torch import TorchLoader, data_parallel_rank
from gristmill.cli_options import DashedParser
from gristmill.core.errors import did_you_mean
from gristmill.core.hashing import derive_key, hash64
from gristmill.core.options import check_keys
from gristmill.loader.groups import step_after
from gristmill.places.door import place_at
from gristmill.store.manifest import read_manifest
from gristmill.tokenize.tokenizer import load_tokenizer

# Parameters with GPT-2's vocabulary and 1,024 positions: 3.5, 124.4, 354.8, 774.0 and 1,557.6 million.
MODELS: dict[str, dict[str, Any]] = {
    "tiny": {"n_layer": 4, "n_head": 4, "n_embd": 64, "learning_rate": 3e-3},
    "gpt2": {"n_layer": 12, "n_head": 12, "n_embd": 768, "learning_rate": 6e-4},
    "gpt2-medium": {"n_layer": 24, "n_head": 16, "n_embd": 1024, "learning_rate": 3e-4},
    "gpt2-large": {"n_layer": 36, "n_head": 20, "n_embd": 1280, "learning_rate": 2.5e-4},
    "gpt2-xl": {"n_layer": 48, "n_head": 25, "n_embd": 1600, "learning_rate": 2e-4},
}
KINDS = {"int": int, "float": float, "str": str, "bool": bool}


# --- Settings: defaults, then the model's, then those of --config-file, then flags


def setting(text: str, default: Any = dataclasses.MISSING) -> Any:
    return dataclasses.field(default=default, metadata={"help": text})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """All settings: each is a flag, a key of --config-file and a part of every checkpoint."""

    model_name: str = setting(f"one of {', '.join(MODELS)}", "tiny")
    n_layer: int = setting("blocks; the model's own unless given, as the next three")
    n_head: int = setting("attention heads a block")
    n_embd: int = setting("width")
    learning_rate: float = setting("the highest, reached after the warm-up")
    dropout: float = setting("share of activations dropped in training", 0.0)
    seq_len: int = setting("tokens of a row, and positions of the model", 256)
    batch_size: int = setting("rows of a step, on all ranks together", 16)
    grad_accum: int = setting("parts in which a rank computes its rows, to save memory", 1)
    steps: int = setting("steps of the run, and of its learning rate schedule", 1000)
    warmup_steps: int = setting("steps in which the learning rate rises", 50)
    lr_floor: float = setting("the learning rate at the end, as a share of the highest", 0.1)
    weight_decay: float = setting("of matrices; biases and norms have none", 0.1)
    beta1: float = setting("AdamW's", 0.9)
    beta2: float = setting("AdamW's", 0.95)
    grad_clip: float = setting("longest gradient, by its norm, 0 for no limit", 1.0)
    seed: int = setting("of the model's first weights, the order of rows and dropout", 0)
    eval_interval: int = setting("steps between evaluations, 0 for none", 100)
    eval_batches: int = setting("batches of an evaluation at most, of each store, 0 for none", 20)
    log_interval: int = setting("steps between lines of output", 10)
    save_interval: int = setting("steps between checkpoints", 100)
    keep: int = setting("checkpoints to keep", 2)
    tokenizer: str = setting("of --input-file: a name or a tokenizer.json; a store has its own", "gpt2")
    val_fraction: float = setting("share of --input-file, its end, that is kept for evaluation", 0.1)
    device: str = setting("cpu or cuda; auto is cuda where there is one", "auto")
    dtype: str = setting("float32, or bfloat16 by autocast; auto is bfloat16 on CUDA", "auto")
    deterministic: bool = setting("repeat runs to the last bit on CUDA too, where it is slower", False)

    def __post_init__(self) -> None:
        positive = ("n_layer", "n_head", "n_embd", "seq_len", "batch_size", "grad_accum", "steps")
        for name in (*positive, "log_interval", "save_interval", "keep"):
            self._require(name, getattr(self, name) >= 1, "at least 1")
        amounts = ("learning_rate", "weight_decay", "lr_floor", "grad_clip")
        for name in ("warmup_steps", "eval_interval", "eval_batches", *amounts):
            self._require(name, getattr(self, name) >= 0, "at least 0")
        for name in ("dropout", "val_fraction", "beta1", "beta2"):
            self._require(name, 0 <= getattr(self, name) < 1, "at least 0 and below 1")
        self._require("n_embd", self.n_embd % self.n_head == 0, f"a multiple of n_head, {self.n_head}")
        self._require("device", self.device in ("auto", "cpu", "cuda"), "auto, cpu or cuda")
        self._require("dtype", self.dtype in ("auto", "float32", "bfloat16"), "auto, float32 or bfloat16")

    def _require(self, name: str, holds: bool, what: str) -> None:
        if not holds:
            raise gm.ConfigError(f"{name} must be {what}, not {getattr(self, name)}.")

    @property
    def evaluates(self) -> bool:
        return bool(self.eval_interval and self.eval_batches)

    def lr(self, step: int) -> float:
        """Linear warm-up, then half a cosine down to the floor at steps."""
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        done = min(1.0, (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps))
        return self.learning_rate * (self.lr_floor + (1 - self.lr_floor) * (1 + math.cos(math.pi * done)) / 2)


def parse(argv: list[str] | None) -> argparse.Namespace:
    usage = "train_gpt.py (--dataset-dir DIR[=WEIGHT] ... | --input-file FILE) [options]"
    parser = DashedParser(
        usage=usage, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--dataset-dir", nargs="+", metavar="DIR", help="a store, or several, each with its weight")
    parser.add_argument("--input-file", type=Path, help="a text in UTF-8, of which windows are drawn at random")
    parser.add_argument("--out-dir", type=Path, default=Path("runs/gpt"), help="checkpoints and log.jsonl: runs/gpt")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="the order of --dataset-dir's rows, as a plan's JSON")
    parser.add_argument("--record", action="store_true", help="keep OUT/served.parquet: each step, and each row's loss")
    parser.add_argument("--config-file", type=Path, help="YAML or JSON with any of the settings below")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint of --out-dir")
    parser.add_argument("--stop-at", type=int, metavar="STEP", help="save and stop at this step, to go on later")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="write N tokens of text at the end")
    settings = parser.add_argument_group("settings")
    for field in dataclasses.fields(Config):
        kind: dict[str, Any] = {"type": KINDS[str(field.type)]}
        if field.type == "bool":
            kind = {"action": argparse.BooleanOptionalAction}
        default = "" if field.default is dataclasses.MISSING else f" (default: {field.default})"
        text = field.metadata["help"] + default
        settings.add_argument(f"--{field.name.replace('_', '-')}", default=argparse.SUPPRESS, help=text, **kind)
    args = parser.parse_args(argv)
    if (args.dataset_dir is None) == (args.input_file is None):
        raise gm.ConfigError("Give exactly one of --dataset-dir (a store) and --input-file (a text).")
    if args.input_file is not None and (args.plan or args.record):
        raise gm.ConfigError("--plan and --record are for stores: give --dataset-dir in place of --input-file.")
    return args


def make_config(args: argparse.Namespace) -> Config:
    names = {field.name for field in dataclasses.fields(Config)}
    values = read_config(args.config_file) if args.config_file else {}
    values |= {name: value for name, value in vars(args).items() if name in names}
    model = values.get("model_name", "tiny")
    if model not in MODELS:
        raise gm.ConfigError(f"There is no model {model!r}{did_you_mean(model, MODELS)}.")
    return Config(**{**MODELS[model], **values})


def read_config(path: Path) -> dict[str, Any]:
    """The settings of a file; JSON is YAML too."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise gm.ConfigError(f"--config-file {path} cannot be read: {' '.join(str(error).split())}.") from error
    if not isinstance(values, dict):
        raise gm.ConfigError(f"--config-file {path} must hold settings by name, not a {type(values).__name__}.")
    kinds = {field.name: KINDS[str(field.type)] for field in dataclasses.fields(Config)}
    check_keys(values, set(kinds), str(path))
    return {name: typed(value, kinds[name], f"{name} in {path}") for name, value in values.items()}


def typed(value: Any, kind: type, where: str) -> Any:
    # YAML takes 3e-4 for a word and 1 for a whole number: both are meant as numbers where one is asked for.
    if kind is float and isinstance(value, int | str) and not isinstance(value, bool):
        with suppress(ValueError):
            return float(value)
    if type(value) is not kind:
        raise gm.ConfigError(f"{where} must be of type {kind.__name__}, not {value!r}.")
    return value


# --- Model: GPT-2's. Parameters: V*d + T*d + L*(12*d*d + 13*d) + 2*d


class Block(nn.Module):
    """Causal self-attention and an MLP of four times the width, each added to what came in."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, self.heads, self.dropout = config.n_embd, config.n_head, config.dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.attended = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._drop(self.attended(self._attend(self.norm1(x))))
        return x + self._drop(self.narrow(functional.gelu(self.wide(self.norm2(x)), approximate="tanh")))

    def _attend(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        q, k, v = self.qkv(x).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return mixed.transpose(1, 2).reshape(rows, length, width)

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)


class GPT(nn.Module):
    """Logits of the next token, or with `labels` the summed loss of each row; the embedding is the output layer too."""

    def __init__(self, config: Config, vocab_size: int) -> None:
        super().__init__()
        self.seq_len, self.dropout = config.seq_len, config.dropout
        self.tokens = nn.Embedding(vocab_size, config.n_embd)
        self.positions = nn.Embedding(config.seq_len, config.n_embd)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.norm = nn.LayerNorm(config.n_embd)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                # What a block adds is scaled down, so that the sum of all blocks has the size of one.
                adds = name.endswith(("attended.weight", "narrow.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * config.n_layer) if adds else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids: Tensor, labels: Tensor | None = None) -> Tensor:
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        x = functional.dropout(x, self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        if labels is None:
            return logits
        losses = functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="none")
        return losses.view(labels.shape).sum(dim=1)

    @torch.no_grad()
    def generate(self, ids: Tensor, count: int, seed: int) -> Tensor:
        """`count` more tokens for the row `ids`, drawn from the 50 likeliest."""
        generator = torch.Generator().manual_seed(seed)
        for _ in range(count):
            top = self(ids[None, -self.seq_len :])[0, -1].float().cpu().topk(min(50, self.tokens.num_embeddings))
            drawn = torch.multinomial(top.values.softmax(0), 1, generator=generator)
            ids = torch.cat([ids, top.indices[drawn].to(ids.device)])
        return ids


def make_optimizer(model: GPT, config: Config) -> torch.optim.AdamW:
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    fused = parameters[0].is_cuda
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(config.beta1, config.beta2), fused=fused)


# --- Data: this rank's rows of each step, as (ids, labels)

Rows = tuple[Tensor, Tensor]
PASS = gm.PlanOptions(drop_last=False)


class StoreData:
    """Documents end to end, cut into rows, each once a pass; several stores by weight, or by size without weights.

    An evaluation reads the first batches of a shuffled pass over each store's val: the same rows every time.
    """

    def __init__(
        self, folders: dict[str, Path], weights: dict[str, str] | None, config: Config, plan: Path | None = None
    ) -> None:
        self.tokenizer = common_tokenizer(folders)
        stores = {name: gm.open(folder / "train") for name, folder in folders.items()}
        size: dict[str, Any] = {"seq_len": config.seq_len, "batch_size": config.batch_size, "seed": config.seed}
        made = gm.load_plan(plan) if plan else gm.Plan(stores, weights, **size, steps=config.steps)
        if (made.seq_len, made.batch_size) != (config.seq_len, config.batch_size):
            raise gm.ConfigError(
                f"{plan} has rows of {made.seq_len} tokens and batches of {made.batch_size} rows, the run "
                f"{config.seq_len} and {config.batch_size}: give --seq-len and --batch-size as the plan has them."
            )
        # As many batches as the run has steps: those that a plan skips are not among them.
        self.loader = TorchLoader(made.with_steps(step_after(made, 0, config.steps)), keys=("labels",))
        self._batches = iter(self.loader)
        self.decode = next(iter(stores.values())).decode
        self._eval_batches = config.eval_batches
        vals = {name: gm.open(folder / "val") for name, folder in folders.items() if config.evaluates}
        self.val_names = [name for name, val in vals.items() if val.num_tokens >= config.seq_len]
        plans = [gm.Plan({name: vals[name]}, **size, options=PASS) for name in self.val_names]
        self._val = [TorchLoader(plan, keys=("labels",), threads=0) for plan in plans]

    def next_batch(self) -> Rows:
        batch = next(self._batches)
        return batch["input_ids"], batch["labels"]

    def val_batches(self) -> Iterator[Rows]:
        for loader in self._val:
            for step in range(min(len(loader), self._eval_batches)):
                batch = loader.batch(step)
                yield batch["input_ids"], batch["labels"]

    def state_dict(self) -> dict[str, Any]:
        return {"dataset_dir": self.loader.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if "dataset_dir" not in state:
            raise gm.StateError("This run was trained on --input-file: give that, not --dataset-dir.")
        self.loader.load_state_dict(state["dataset_dir"])


class TextData:
    """Windows that begin anywhere in a text; its end is for evaluation, of which the windows are drawn once."""

    def __init__(self, path: Path, config: Config) -> None:
        try:
            text = path.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise gm.SourceError(f"--input-file {path} cannot be read as text in UTF-8: {error}.") from error
        tokenizer = load_tokenizer(config.tokenizer)
        self._path, self._text = path, {"characters": len(text), "xxh3": f"{hash64(text):016x}"}
        self.tokenizer = {name: getattr(tokenizer, name) for name in ("name", "fingerprint", "vocab_size")}
        self.decode = tokenizer.decode
        wanted = {"block_size": config.seq_len, "seed": config.seed, "val_fraction": config.val_fraction}
        rows = config.batch_size // data_parallel_rank()[1]
        self.loader = GPTDataLoader({**wanted, "batch_size": rows}, tokenizer)
        self.loader.prepare_data(text)
        batches = config.eval_batches if config.evaluates and config.val_fraction else 0
        self._val = [self.loader.get_batch("val") for _ in range(batches)]
        self.val_names = [path.name] if batches else []

    def next_batch(self) -> Rows:
        return self.loader.get_batch("train")

    def val_batches(self) -> Iterator[Rows]:
        return iter(self._val)

    def state_dict(self) -> dict[str, Any]:
        return {"input_file": self.loader.state_dict(), "text": self._text}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if "input_file" not in state:
            raise gm.StateError("This run was trained on --dataset-dir: give that, not --input-file.")
        if state["text"] != self._text:
            raise gm.StateError(
                f"{self._path} is not the text of the checkpoint, which had {state['text']['characters']:,} characters "
                f"(this has {self._text['characters']:,}): give the text that the run began with."
            )
        self.loader.load_state_dict(state["input_file"])


Data = StoreData | TextData


def open_data(args: argparse.Namespace, config: Config) -> Data:
    if args.input_file is not None:
        return TextData(args.input_file, config)
    folders, weights = {}, {}
    for item in args.dataset_dir:
        # A folder may have `=` in its own name, as in lang=en.
        path, _, weight = (item, "", "") if "=" not in item or Path(item).exists() else item.rpartition("=")
        name = Path(path).resolve().name
        if name in folders:
            raise gm.ConfigError(f"Two stores of --dataset-dir are named {name!r}: rename the folder of one.")
        folders[name] = Path(path)
        if weight:
            weights[name] = weight
    if weights and len(weights) < len(folders):
        raise gm.ConfigError("Give every store of --dataset-dir its weight, as in DIR=0.7, or none of them.")
    return StoreData(folders, weights or None, config, args.plan)


def common_tokenizer(folders: dict[str, Path]) -> dict[str, Any]:
    """The tokenizer of all stores, which must be the same."""
    manifests = {folder: read_manifest(folder) for folder in folders.values()}
    made_by = {folder: {**m["tokenizer"], "vocab_size": m["vocab_size"]} for folder, m in manifests.items()}
    (first, tokenizer), *others = made_by.items()
    for folder, other in others:
        if other["fingerprint"] != tokenizer["fingerprint"]:
            raise gm.ConfigError(
                f"{folder} was made with the tokenizer {other['name']}, {first} with {tokenizer['name']}: one model "
                "needs one of them, so prepare a store again."
            )
    return tokenizer


# --- Ranks


@dataclasses.dataclass(frozen=True)
class Place:
    """Where this process stands."""

    rank: int
    world_size: int
    device: torch.device


def join_ranks(config: Config) -> Place:
    """Meet the other processes, if torchrun's variables say that there are any."""
    cuda = config.device == "cuda" or (config.device == "auto" and torch.cuda.is_available())
    if cuda and not torch.cuda.is_available():
        raise gm.ConfigError("device is cuda, and torch finds none here: give --device cpu.")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    if "RANK" in os.environ:
        # What ranks tell each other besides gradients is small and on the host: by gloo no GPU waits for it.
        distributed.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")
    rank, world_size = data_parallel_rank()
    if config.batch_size % (world_size * config.grad_accum):
        raise gm.ConfigError(
            f"batch_size {config.batch_size} cannot be split over {world_size} ranks and {config.grad_accum} parts of "
            f"each (grad_accum): make it a multiple of {world_size * config.grad_accum}."
        )
    return Place(rank, world_size, device)


def summed(values: Tensor) -> Tensor:
    """The sum over all ranks of a tensor on the host."""
    if distributed.is_initialized():
        distributed.all_reduce(values)
    return values


def interleaved(rows: Tensor) -> Tensor:
    """(steps, rows of this rank) of all ranks as (steps, rows of the batch): rank r of w has rows r, r + w, ..."""
    if not distributed.is_initialized():
        return rows
    parts = [torch.empty_like(rows) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, rows)
    return torch.stack(parts, dim=2).flatten(1)


class Signals:
    """Remembers SIGTERM or SIGINT, so that the run can finish its step and save."""

    def __init__(self) -> None:
        self._received = 0
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._remember)

    def _remember(self, number: int, frame: Any) -> None:
        self._received = number

    def agreed(self) -> int:
        """The signal that any rank has received, else 0: all ranks must stop after the same step."""
        number = torch.tensor(self._received)
        if distributed.is_initialized():
            distributed.all_reduce(number, distributed.ReduceOp.MAX)
        return int(number)


# --- Log


class Log:
    """OUT/log.jsonl and lines of output; steps are held back until `flush`, so that no step waits for the device."""

    def __init__(self, path: Path, place: Place) -> None:
        self.path, self._is_first, self._world_size = path, place.rank == 0, place.world_size
        self._restart()

    def _restart(self) -> None:
        self._losses: list[Tensor] = []
        self._rows: list[np.ndarray[Any, Any]] = []
        self._tokens, self._waited, self._began = 0, 0.0, 0.0

    def cut(self, step: int) -> None:
        """Forget what a killed run logged after `step`, which will be done again."""
        lines = self.path.read_text().splitlines(keepends=True) if self.path.exists() else []
        kept = [line for line in lines if line.endswith("}\n") and json.loads(line)["step"] <= step]
        place_at(self.path).write("".join(kept))

    def add(self, loss: Tensor, ids: Tensor, labels: Tensor, began: float, waited: float) -> None:
        """A step: this rank's loss, its rows on the host, when it began and the seconds that it waited for the rows."""
        if not self._losses:
            # Evaluations and checkpoints lie between a flush and the next step: they are not training time.
            self._began = began
        hashes = [hash64(row.tobytes()) for row in torch.cat([ids, labels], dim=1).numpy()]
        self._rows.append(np.array(hashes, dtype=np.uint64).view(np.int64))
        self._losses.append(loss)
        self._tokens += ids.numel() * self._world_size
        self._waited += waited

    def flush(self, step: int, config: Config) -> None:
        """Write the steps since the last flush, the last of them `step`; one line of output."""
        if not self._losses:
            return
        losses = (summed(torch.stack(self._losses).double().cpu()) / self._world_size).tolist()
        seconds = time.perf_counter() - self._began
        rows = interleaved(torch.from_numpy(np.stack(self._rows))).numpy()
        steps = range(step - len(losses) + 1, step + 1)
        self._write(
            {"step": at, "loss": loss, "lr": config.lr(at - 1), "rows": f"{hash64(row.tobytes()):016x}"}
            for at, loss, row in zip(steps, losses, rows, strict=True)
        )
        self.say(
            f"step {step:,}/{config.steps:,}  loss {losses[-1]:.4f}  lr {config.lr(step - 1):.2e}  "
            f"{self._tokens / seconds:,.0f} tokens/s  waited for data {self._waited / seconds:.1%}"
        )
        self._restart()

    def evaluated(self, step: int, loss: float) -> None:
        self._write([{"step": step, "val_loss": loss}])
        self.say(f"step {step:,}  val loss {loss:.4f}")

    def _write(self, lines: Iterable[dict[str, Any]]) -> None:
        if self._is_first:
            with open(self.path, "a") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)

    def say(self, text: str) -> None:
        if self._is_first:
            print(text, flush=True)


# --- Checkpoints: OUT/step-00000100.pt, whole or not at all


CHECKPOINT = {"step", "config", "tokenizer", "data", "model", "optimizer"}


def checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.pt"))


def save_checkpoint(folder: Path, step: int, state: dict[str, Any], keep: int) -> None:
    """Write a checkpoint (temporary file, fsync, rename), then remove all but the last `keep`."""
    with place_at(folder / f"step-{step:08d}.pt").writing() as file:
        torch.save(state, file)
    for old in checkpoints(folder)[:-keep]:
        old.unlink()


def load_checkpoint(folder: Path) -> dict[str, Any]:
    found = checkpoints(folder)
    if not found:
        raise gm.StateError(f"There is no checkpoint in {folder} to resume from: leave out --resume to begin.")
    try:
        state = torch.load(found[-1], map_location="cpu", weights_only=True)
    except Exception as error:  # of many classes, by where the file ends
        raise gm.StateError(f"{found[-1]} is damaged: remove it to resume from the one before.") from error
    if not isinstance(state, dict) or not state.keys() >= CHECKPOINT:
        raise gm.StateError(f"{found[-1]} is no checkpoint of train_gpt.py: give the --out-dir of its run.")
    return state


def check_checkpoint(state: dict[str, Any], config: Config, tokenizer: dict[str, Any]) -> None:
    """Refuse a checkpoint of another tokenizer or model, or one that is past the run's end."""
    then = state["tokenizer"]
    if (then["fingerprint"], then["vocab_size"]) != (tokenizer["fingerprint"], tokenizer["vocab_size"]):
        was, now = (f"{each['name']} ({each['vocab_size']:,} ids)" for each in (then, tokenizer))
        raise gm.StateError(f"The checkpoint was trained with the tokenizer {was}, not with the data's {now}.")
    for name in ("n_layer", "n_head", "n_embd", "seq_len"):
        was, now = state["config"][name], getattr(config, name)
        if was != now:
            raise gm.StateError(
                f"The checkpoint's model has {name} {was}, this one {now}: give --{name.replace('_', '-')} {was}."
            )
    if state["step"] > config.steps:
        raise gm.StateError(f"The checkpoint is at step {state['step']:,}: give --steps of at least that.")


# --- Training


class Trainer:
    """Model, optimizer, data and log of a run; `step` is how many steps are done."""

    def __init__(self, config: Config, data: Data, folder: Path, place: Place, records: bool = False) -> None:
        self.config, self.data, self.folder, self.place, self.step = config, data, folder, place, 0
        self.records = records
        torch.manual_seed(config.seed)
        self.model = GPT(config, data.tokenizer["vocab_size"]).to(place.device)
        self.optimizer = make_optimizer(self.model, config)
        self.log = Log(folder / "log.jsonl", place)
        ids = [place.device] if place.device.type == "cuda" else None
        self.parallel = DistributedDataParallel(self.model, device_ids=ids) if place.world_size > 1 else self.model
        lower = config.dtype == "bfloat16" or (config.dtype == "auto" and place.device.type == "cuda")
        self.autocast = torch.autocast(place.device.type, torch.bfloat16, enabled=lower)

    def state_dict(self) -> dict[str, Any]:
        """All that the next step depends on, the same on every rank. There is no random state: see `_train_step`."""
        return {
            "step": self.step,
            "config": dataclasses.asdict(self.config),
            "tokenizer": self.data.tokenizer,
            "data": self.data.state_dict(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict()["state"],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_checkpoint(state, self.config, self.data.tokenizer)
        self.data.load_state_dict(state["data"])
        self.model.load_state_dict(state["model"])
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state["optimizer"], "param_groups": groups})
        self.step = state["step"]
        for name, now in dataclasses.asdict(self.config).items():
            if state["config"].get(name) != now:
                self.log.say(
                    f"note: {name} was {state['config'].get(name)} and is {now} from step {self.step + 1:,} on"
                )

    def run(self, signals: Signals, stop_at: int | None) -> int:
        """Train to the end of the run, to step `stop_at`, or until a signal, whose number is returned."""
        received, end = 0, min(stop_at or self.config.steps, self.config.steps)
        while self.step < end and not received:
            self._next_step()
            received = signals.agreed()
            ended = self.step == end
            finished = self.step == self.config.steps
            evaluates = self.config.evaluates and (self._is_due(self.config.eval_interval) or finished)
            saves = self._is_due(self.config.save_interval) or ended or received
            if evaluates or saves or self._is_due(self.config.log_interval):
                self.log.flush(self.step, self.config)
            if evaluates:
                self.log.evaluated(self.step, self.evaluate())
            if saves and self.place.rank == 0:
                save_checkpoint(self.folder, self.step, self.state_dict(), self.config.keep)
        return received

    def _is_due(self, interval: int) -> bool:
        return self.step % interval == 0

    def _next_step(self) -> None:
        began = time.perf_counter()
        ids, labels = self.data.next_batch()
        waited = time.perf_counter() - began
        rows = self._train_step(ids, labels)
        self.log.add(rows.sum() / ids.numel(), ids, labels, began, waited)
        if self.records:
            self.data.loader.record_loss(rows / (self._on_device(labels) >= 0).sum(dim=1).clamp(min=1))
        self.step += 1

    def _train_step(self, ids: Tensor, labels: Tensor) -> Tensor:
        """One update; the summed loss of each of this rank's rows."""
        # Dropout follows from seed, step and rank alone: a checkpoint needs no random state, on any number of ranks.
        torch.manual_seed(derive_key(self.config.seed, "dropout", self.step, self.place.rank))
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.lr(self.step)
        parts = self.config.grad_accum
        losses = []
        pairs = zip(self._on_device(ids).chunk(parts), self._on_device(labels).chunk(parts), strict=True)
        for i, (x, y) in enumerate(pairs):
            with self._gradients_meet(i + 1 == parts):
                with self.autocast:
                    # By the rows' tokens, not by their labels: a mean over parts is then the mean over all of them.
                    rows = self.parallel(x, y)
                (rows.sum() / ids.numel()).backward()
            losses.append(rows.detach())
        if self.config.grad_clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return torch.cat(losses)

    def _gradients_meet(self, now: bool) -> AbstractContextManager[Any]:
        """Ranks add up their gradients after the last part only."""
        if now or not isinstance(self.parallel, DistributedDataParallel):
            return nullcontext()
        return self.parallel.no_sync()

    def _on_device(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.place.device, non_blocking=True)

    @torch.no_grad()
    def evaluate(self) -> float:
        """The mean loss over the labels of all validation batches, in nats."""
        self.model.eval()
        total = torch.zeros(2, dtype=torch.float64)
        for ids, labels in self.data.val_batches():
            with self.autocast:
                loss = self.model(self._on_device(ids), self._on_device(labels)).sum()
            total += torch.tensor([float(loss), float((labels >= 0).sum())], dtype=torch.float64)
        self.model.train()
        loss_sum, labels_seen = summed(total)
        return float(loss_sum / labels_seen)

    def sample(self, count: int) -> str:
        """The beginning of a validation row, and `count` tokens that the model writes after it."""
        ids, _ = next(self.data.val_batches())
        self.model.eval()
        written = self.model.generate(self._on_device(ids[0, :16]), count, self.config.seed)
        return self.data.decode(written.cpu().numpy())


def begin(trainer: Trainer, resume: bool) -> None:
    """Load the last checkpoint of the folder, or make sure that there is none."""
    folder = trainer.folder
    if resume:
        trainer.load_state_dict(load_checkpoint(folder))
        trainer.log.say(f"resumed at step {trainer.step:,}")
    elif checkpoints(folder):
        raise gm.ConfigError(f"{folder} holds a run already: say --resume to go on, or give another --out-dir.")
    if trainer.place.rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob(".step-*.tmp"):
            unfinished.unlink()
        trainer.log.cut(trainer.step)


def run(args: argparse.Namespace) -> int:
    config = make_config(args)
    signals = Signals()
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    place = join_ranks(config)
    data = open_data(args, config)
    if (config.evaluates or args.sample) and not data.val_names:
        raise gm.ConfigError(
            f"There is no val split with a row of {config.seq_len} tokens to evaluate on: prepare the store with "
            "val_fraction above 0 (for a text, give --val-fraction), or say --eval-batches 0 and leave out --sample."
        )
    trainer = Trainer(config, data, args.out_dir, place, args.record)
    begin(trainer, args.resume)
    if isinstance(data, StoreData) and args.record:
        data.loader.record(args.out_dir / "served.parquet")
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    trainer.log.say(
        f"{config.model_name}: {parameters:,} parameters, {place.world_size} x {place.device.type}; "
        f"evaluated on {', '.join(data.val_names) or 'nothing'}"
    )
    received = trainer.run(signals, args.stop_at)
    if isinstance(data, StoreData):
        data.loader.close()
    if received:
        trainer.log.say(
            f"stopped by {signal.Signals(received).name} and saved at step {trainer.step:,}: go on by --resume"
        )
        return 128 + received
    if args.sample and place.rank == 0:
        print(trainer.sample(args.sample))
    return 0


def main(argv: list[str] | None = None) -> int:
    try:
        return run(parse(argv))
    except gm.GristmillError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
