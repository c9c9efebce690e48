"""Streams in trainers on two processes: a checkpoint holds the rows of both, and one process goes on from it.

This file is the script of the two processes too: `test_stream_ranks.py TEXTS OUT`.
"""

import json
import os
import sys
from itertools import islice
from pathlib import Path

import lightning
import pytest
import torch
from accelerate import Accelerator
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments

import gristmill as gm
from gristmill.adapters.hf_stream import CausalLMStream
from gristmill.adapters.hf_trainer import GristmillTrainer
from gristmill.adapters.lightning import GristmillDataModule
from gristmill.adapters.streams import TorchStreamLoader

ROWS, SEQ_LEN, STOP, STEPS = 4, 16, 3, 6

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore")


def make(folder, **options):
    return gm.stream(f"{folder}/*.jsonl").tokenize("byte").pack(SEQ_LEN).batch(ROWS, seed=1, **options)


def accelerated(folder, out, steps, resume=False):
    """The rows of each step; what is kept after the last goes to `out`."""
    accelerator = Accelerator(cpu=True)
    loader = TorchStreamLoader(make(folder), device=accelerator.device, threads=0)
    accelerator.register_for_checkpointing(loader)
    if resume:
        accelerator.load_state(str(out))
    seen = [batch["input_ids"].tolist() for batch in islice(loader, steps - loader.step)]
    accelerator.save_state(str(out))
    return seen


class Recording(GristmillTrainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        self.seen = [*getattr(self, "seen", []), inputs["input_ids"].tolist()]
        return super().training_step(model, inputs, num_items_in_batch)


def trained(folder, out, steps, ranks, resume=None):
    args = TrainingArguments(
        str(out), per_device_train_batch_size=ROWS // ranks, max_steps=steps, save_steps=STOP, logging_strategy="no",
        disable_tqdm=True, report_to=[], use_cpu=True,
    )  # fmt: skip
    model = GPT2LMHeadModel(GPT2Config(vocab_size=257, n_positions=SEQ_LEN, n_embd=8, n_layer=1, n_head=1))
    trainer = Recording(model=model, args=args, train_dataset=CausalLMStream(make(folder), threads=0))
    trainer.train(resume_from_checkpoint=resume)
    return trainer.seen


def evaluated(folder, out):
    """The loss of a model on all texts, and the logits of all rows."""
    args = TrainingArguments(str(out), per_device_eval_batch_size=1, disable_tqdm=True, report_to=[], use_cpu=True)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=257, n_positions=SEQ_LEN, n_embd=8, n_layer=1, n_head=1))
    data = CausalLMStream(make(folder, epochs=1), threads=0)
    trainer = GristmillTrainer(model=model, args=args, eval_dataset=data)
    trainer.model_accepts_loss_kwargs = True  # as models have it whose losses are divided by the tokens of all ranks
    found = trainer.predict(data)
    return [trainer.evaluate()["eval_loss"], found.metrics["test_loss"], len(found.predictions)]


class Bigrams(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.table, self.seen = torch.nn.Embedding(257, 257), []

    def training_step(self, batch, _):
        self.seen.append(batch["input_ids"].tolist())
        return functional.cross_entropy(self.table(batch["input_ids"]).flatten(0, 1), batch["labels"].flatten())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-2)


def fitted(folder, out, steps, ranks, resume=None):
    model = Bigrams()
    trainer = lightning.Trainer(
        max_steps=steps, devices=ranks, accelerator="cpu", strategy="ddp" if ranks > 1 else "auto", logger=False,
        callbacks=[ModelCheckpoint(out, "{step}", every_n_train_steps=STOP, save_top_k=-1)], default_root_dir=out,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, GristmillDataModule(make(folder), keys=("labels",), threads=0), ckpt_path=resume)
    return model.seen


def in_two_processes(folder, out):
    seen = {
        "accelerate": accelerated(folder, out / "accelerate", STOP),
        "trainer": trained(folder, out / "trainer", STOP, 2),
        "lightning": fitted(folder, out / "lightning", STOP, 2),
        "evaluated": evaluated(folder, out / "evaluated"),
    }
    (out / f"rank{os.environ['RANK']}.json").write_text(json.dumps(seen))


def test_one_process_goes_on_from_what_two_have_kept(tmp_path, run_ranks):
    folder, out = tmp_path / "texts", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    rows = ({"id": str(i), "text": f"Document {i}. " * (1 + i % 9)} for i in range(150))
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run_ranks(2, __file__, folder, out)
    expected = [batch["input_ids"].tolist() for batch in islice(make(folder).loader(threads=0), STEPS)]
    ranks = [json.loads((out / f"rank{rank}.json").read_text()) for rank in range(2)]
    for name in ("accelerate", "trainer", "lightning"):
        both = zip(*(rank[name] for rank in ranks), strict=True)
        assert [[part[row // 2] for row in range(ROWS) for part in [parts[row % 2]]] for parts in both] == expected[
            :STOP
        ], name
    loss, same, rows = evaluated(folder, out / "evaluated")
    for rank in ranks:
        assert rank["evaluated"] == [pytest.approx(loss), pytest.approx(loss), rows] and same == loss
    assert accelerated(folder, out / "accelerate", STEPS, resume=True) == expected[STOP:]
    assert trained(folder, out / "trainer", STEPS, 1, str(out / "trainer" / f"checkpoint-{STOP}")) == expected[STOP:]
    assert fitted(folder, out / "lightning", STEPS, 1, out / "lightning" / f"step={STOP}.ckpt") == expected[STOP:]


if __name__ == "__main__":
    in_two_processes(*map(Path, sys.argv[1:]))
