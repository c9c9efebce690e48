"""What trainers are served and what it cost, kept by the hooks that each of them has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments

import gristmill as gm
from gristmill.adapters.hf_trainer import CausalLMDataset, GristmillTrainer
from gristmill.adapters.lightning import GristmillDataModule, RecordServed
from gristmill.adapters.olmo_core import GristmillDataLoader
from gristmill.adapters.passes import PassLoader
from gristmill.adapters.streams import TorchStreamLoader
from gristmill.figures.served import as_run
from gristmill.testing import EOS, random_documents, tiny_store

SEQ_LEN, ROWS, PASS = 16, 4, 5
pytestmark = pytest.mark.filterwarnings("ignore")  # advice of the trainers on loggers, folders and pinned memory


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> gm.Plan:
    torch.set_num_threads(1)
    store = tiny_store(tmp_path_factory.mktemp("records"), random_documents(60), shards=1)
    return gm.Plan({"web": store}, seq_len=SEQ_LEN, batch_size=ROWS, steps=PASS)


class Model(lightning.LightningModule):
    """Its loss is the number of the step, and a parameter's that does not move."""

    def __init__(self) -> None:
        super().__init__()
        self.still = torch.nn.Parameter(torch.zeros(1))
        self.automatic_optimization = True

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        return self.still.sum() + index

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.0)


def test_lightning_keeps_every_step_and_its_loss(plan: gm.Plan, tmp_path: Path) -> None:
    trainer = lightning.Trainer(
        default_root_dir=tmp_path, max_epochs=1, accumulate_grad_batches=2, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
        callbacks=[RecordServed(tmp_path / "served.parquet")],
    )  # fmt: skip
    trainer.fit(Model(), GristmillDataModule(plan))
    served = as_run(tmp_path).served()
    assert served.step.tolist() == list(range(PASS)) and served.loss.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert gm.load_plan(tmp_path / "plan.json").fingerprint == plan.fingerprint


def test_the_trainer_of_hugging_face_keeps_every_update_and_goes_on(plan: gm.Plan, tmp_path: Path) -> None:
    def train(steps: int, **more: object) -> GristmillTrainer:
        torch.manual_seed(0)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=EOS + 1, n_positions=SEQ_LEN, n_embd=8, n_layer=1, n_head=1))
        args = TrainingArguments(str(tmp_path), per_device_train_batch_size=ROWS // 2, gradient_accumulation_steps=2,
                                 max_steps=steps, save_steps=3, logging_strategy="no", disable_tqdm=True, report_to=[],
                                 use_cpu=True)  # fmt: skip
        trainer = GristmillTrainer(model=model, args=args, train_dataset=CausalLMDataset(plan))
        trainer.record(tmp_path / "served.parquet")
        trainer.train(**more)
        return trainer

    train(4)
    first = as_run(tmp_path).served()
    assert first.step.tolist() == [0, 1, 2, 3] and first.told.all()
    assert first.tokens.tolist() == [ROWS * SEQ_LEN] * 4 and (first.loss > 3).all() and (first.loss < 8).all()
    train(7, resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    served = as_run(tmp_path).served()
    assert served.step.tolist() == list(range(7)) and served.told.all()


def test_olmo_core_keeps_steps_over_its_epochs(plan: gm.Plan, tmp_path: Path) -> None:
    loader = GristmillDataLoader(plan, dp_world_size=1, dp_rank=0, threads=0)
    loader.record(tmp_path / "served.parquet")
    for epoch in (1, 2):
        loader.reshuffle(epoch)
        for _ in loader:
            loader.record_loss(float(epoch))
        loader.reset()
    served = as_run(tmp_path).served()
    assert served.step.tolist() == list(range(2 * PASS)) and served.loss.tolist() == [1.0] * PASS + [2.0] * PASS


def test_a_loader_of_passes_keeps_the_plan_that_has_them(plan: gm.Plan, tmp_path: Path) -> None:
    with PassLoader(plan, threads=0) as loader:
        loader.record(tmp_path / "served.parquet")
        for _ in range(2):
            assert len(list(loader)) == PASS
    run = as_run(tmp_path)
    assert run.served().step.tolist() == list(range(2 * PASS)) and run.plan is not None and len(run.plan) == 2 * PASS


def test_tensors_of_a_stream_are_recorded_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("A line of text.\n" * 99)
    stream = gm.stream(str(tmp_path / "a.txt"), documents="line").tokenize("byte").pack(16).batch(2, seed=0)
    loader = TorchStreamLoader(stream, threads=0)
    loader.record(tmp_path / "served.parquet")
    for step, _ in zip(range(3), loader, strict=False):
        loader.record_loss(torch.tensor([step, step + 2.0]))
    loader.close()
    assert as_run(tmp_path).served().loss.tolist() == [1.0, 2.0, 3.0]
