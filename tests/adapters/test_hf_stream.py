"""Hugging Face's Trainer on a stream: an update is a step, and a run that was stopped goes on with the next one."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments

import gristmill as gm
from gristmill.adapters.hf_stream import CausalLMStream
from gristmill.adapters.hf_trainer import GristmillTrainer

ROWS, SEQ_LEN = 4, 16

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore")  # pinned memory without a GPU, and the Trainer's own advice


class Recording(GristmillTrainer):
    """It notes what each forward was shown and what it cost."""

    seen: list[Any]

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        loss = super().training_step(model, inputs, num_items_in_batch)
        self.seen = [*getattr(self, "seen", []), (inputs["input_ids"].tolist(), loss.item())]
        return loss


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("streams")
    rows = ({"id": str(j), "text": f"Document {j}. " * (1 + (7 * j) % 11)} for j in range(200))
    (made / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


def make(folder: Path, **options: Any) -> Any:
    return gm.stream(f"{folder}/*.jsonl").tokenize("byte").pack(SEQ_LEN).batch(ROWS, seed=1, **options)


def trained(folder: Path, out: Path, steps: int, parts: int = 1, resume: Any = None, **options: Any) -> Recording:
    args = TrainingArguments(
        str(out), per_device_train_batch_size=ROWS // parts, gradient_accumulation_steps=parts, max_steps=steps,
        save_steps=1, logging_strategy="no", disable_tqdm=True, report_to=[], use_cpu=True, **options
    )  # fmt: skip
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=257, n_positions=SEQ_LEN, n_embd=8, n_layer=1, n_head=1))
    made = Recording(model=model, args=args, train_dataset=CausalLMStream(make(folder), threads=0))
    made.train(resume_from_checkpoint=resume)
    return made


def test_updates_are_the_steps_of_the_stream_and_a_stopped_run_goes_on(folder: Path, tmp_path: Path) -> None:
    whole = trained(folder, tmp_path, 8)
    expected = [batch["input_ids"].tolist() for batch in islice(make(folder).loader(threads=0), 8)]
    assert [rows for rows, _ in whole.seen] == expected
    for step in (1, 5, 7):
        resumed = trained(folder, tmp_path / "resumed", 8, resume=str(tmp_path / f"checkpoint-{step}"))
        assert resumed.seen == whole.seen[step:], "the last bit of the loss too"
    halves = trained(folder, tmp_path / "halves", 8, parts=2, resume=str(tmp_path / "checkpoint-5"))
    assert [a + b for (a, _), (b, _) in zip(halves.seen[::2], halves.seen[1::2], strict=True)] == expected[5:]


def test_labels_are_the_row_itself_where_tokens_are_targets(folder: Path) -> None:
    (batch,) = islice(CausalLMStream(make(folder), threads=0, keys="position_ids"), 1)
    (plain,) = islice(make(folder).loader(threads=0), 1)
    targets = plain["loss_mask"].copy()
    targets[:, 0] = False
    assert batch.keys() == {"input_ids", "labels", "position_ids"}
    assert (batch["labels"].numpy()[targets] == plain["input_ids"][targets]).all()
    assert (batch["labels"].numpy()[~targets] == -100).all()


def test_what_does_not_fit_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(gm.ConfigError, match="has batches of 4 sequences, the Trainer makes 3"):
        trained(folder, tmp_path, 2, parts=3)
    with pytest.raises(gm.ConfigError, match="leave out dataloader_num_workers"):
        trained(folder, tmp_path, 2, dataloader_num_workers=1)
    with pytest.raises(gm.ConfigError, match="Leave out ignore_data_skip"):
        trained(folder, tmp_path, 2, ignore_data_skip=True)
    with pytest.raises(gm.ConfigError, match="leave epochs= out"):
        CausalLMStream(make(folder, epochs=1))
    whole = trained(folder, tmp_path, 1)
    place = Path(whole.args.output_dir) / "checkpoint-1" / "trainer_state.json"
    state = json.loads(place.read_text())
    assert len(json.dumps(state["stateful_callbacks"]["StreamPosition"])) < 1200
    del state["stateful_callbacks"]["StreamPosition"]
    place.write_text(json.dumps(state))
    with pytest.raises(gm.StateError, match="holds no place in a stream"):
        trained(folder, tmp_path, 2, resume=str(place.parent))
