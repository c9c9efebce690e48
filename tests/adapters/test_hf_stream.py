"""Hugging Face's Trainer on a stream: an update is a step, and a run that was stopped goes on with the next one."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import gristmill as gm
from gristmill.adapters.hf_stream import CausalLMStream
from gristmill.adapters.hf_trainer import CausalLMDataset, GristmillTrainer

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


def make_trainer(out: Path, data: Any, rows: int = ROWS, callbacks: Any = None, **options: Any) -> Recording:
    eval_dataset, metrics = options.pop("eval_dataset", None), options.pop("compute_metrics", None)
    args = TrainingArguments(
        str(out), per_device_train_batch_size=rows, logging_strategy="no", disable_tqdm=True, report_to=[],
        use_cpu=True, **options,
    )  # fmt: skip
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=257, n_positions=SEQ_LEN, n_embd=8, n_layer=1, n_head=1))
    return Recording(
        model=model, args=args, train_dataset=data, eval_dataset=eval_dataset, callbacks=callbacks,
        compute_metrics=metrics,
    )  # fmt: skip


def trained(folder: Path, out: Path, steps: int, parts: int = 1, resume: Any = None, **options: Any) -> Recording:
    options = {"save_steps": 1, "max_steps": steps, "gradient_accumulation_steps": parts, **options}
    made = make_trainer(out, CausalLMStream(make(folder), threads=0), ROWS // parts, **options)
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
    data = CausalLMStream(make(folder), threads=0, keys="position_ids")
    data.split(0, 1, 1)
    (batch,) = islice(data, 1)
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
    with pytest.raises(gm.ConfigError, match="leave out auto_find_batch_size"):
        trained(folder, tmp_path, 2, auto_find_batch_size=True)
    with pytest.raises(gm.ConfigError, match="leave epochs= out"):
        make_trainer(tmp_path, CausalLMStream(make(folder, epochs=1)), max_steps=1).train()
    whole = trained(folder, tmp_path, 1)
    place = Path(whole.args.output_dir) / "checkpoint-1" / "trainer_state.json"
    state = json.loads(place.read_text())
    assert len(json.dumps(state["stateful_callbacks"]["StreamPosition"])) < 1200
    del state["stateful_callbacks"]["StreamPosition"]
    place.write_text(json.dumps(state))
    with pytest.raises(gm.StateError, match="holds no place in a stream"):
        trained(folder, tmp_path, 2, resume=str(place.parent))


class SaveAtSeven(TrainerCallback):
    """It asks for a checkpoint where the arguments ask for none, and after all others have been asked."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_save = control.should_save or state.global_step == 7


def test_a_checkpoint_that_a_callback_asks_for_goes_on_with_the_next_batch(folder: Path, tmp_path: Path) -> None:
    expected = [batch["input_ids"].tolist() for batch in islice(make(folder).loader(threads=0), 9)]
    made = make_trainer(tmp_path, CausalLMStream(make(folder), threads=0), save_steps=5, max_steps=9)
    made.add_callback(SaveAtSeven())
    made.train()
    resumed = trained(folder, tmp_path / "resumed", 9, resume=str(tmp_path / "checkpoint-7"))
    assert [rows for rows, _ in resumed.seen] == expected[7:]
    again = {"restore_callback_states_from_checkpoint": True}
    resumed = trained(folder, tmp_path / "again", 9, resume=str(tmp_path / "checkpoint-7"), **again)
    assert [rows for rows, _ in resumed.seen] == expected[7:]


def test_the_best_checkpoint_goes_on_with_the_next_batch(folder: Path, tmp_path: Path) -> None:
    expected = [batch["input_ids"].tolist() for batch in islice(make(folder).loader(threads=0), 6)]
    held_out = CausalLMStream(make(folder, epochs=1), threads=0)
    trained(
        folder, tmp_path, 4, save_strategy="best", eval_strategy="steps", eval_steps=3, metric_for_best_model="loss",
        eval_dataset=held_out,
    )  # fmt: skip
    resumed = trained(folder, tmp_path / "resumed", 6, resume=str(tmp_path / "checkpoint-3"))
    assert [rows for rows, _ in resumed.seen] == expected[3:]


def test_a_place_in_the_stream_of_another_step_is_refused(folder: Path, tmp_path: Path) -> None:
    trained(folder, tmp_path, 2)
    place, other = (tmp_path / f"checkpoint-{step}" / "trainer_state.json" for step in (1, 2))
    state, later = json.loads(place.read_text()), json.loads(other.read_text())
    state["stateful_callbacks"]["StreamPosition"] = later["stateful_callbacks"]["StreamPosition"]
    place.write_text(json.dumps(state))
    with pytest.raises(gm.StateError, match="is of step 1, and its place in the stream of step 2"):
        trained(folder, tmp_path, 3, resume=str(place.parent))


def mean_by_hand(model: Any, stream: Any) -> float:
    """The mean loss over all targets, a row at a time."""
    total, count = 0.0, 0
    for batch in stream.loader(keys="labels", threads=0):
        for ids, mask, labels in zip(batch["input_ids"], batch["loss_mask"], batch["labels"], strict=True):
            if mask[1:].any():
                logits = model(input_ids=torch.from_numpy(ids)[None]).logits[0]
                wanted = torch.from_numpy(labels)[:-1]
                assert (labels[:-1][mask[1:]] == ids[1:][mask[1:]]).all()
                total += torch.nn.functional.cross_entropy(logits[:-1], wanted, reduction="sum").item()
                count += int(mask[1:].sum())
    return total / count


@pytest.mark.parametrize("rows", [1, 2, 3, 64])
def test_a_stream_that_ends_is_evaluated_to_its_mean_loss_by_target(folder: Path, tmp_path: Path, rows: int) -> None:
    stream = make(folder, epochs=1)
    made = make_trainer(tmp_path, None, eval_dataset=CausalLMStream(stream, threads=0), per_device_eval_batch_size=rows)
    with torch.no_grad():
        expected = mean_by_hand(made.model.eval(), stream)
    assert made.evaluate()["eval_loss"] == pytest.approx(expected, rel=1e-5)
    assert made.evaluate()["eval_loss"] == pytest.approx(expected, rel=1e-5), "from its start again"
    assert made.evaluate({"a": made.eval_dataset})["eval_a_loss"] == pytest.approx(expected, rel=1e-5)
    found = made.predict(made.eval_dataset)
    served = sum(len(batch["input_ids"]) for batch in stream.loader(threads=0))
    assert found.metrics["test_loss"] == pytest.approx(expected, rel=1e-5) and len(found.predictions) == served


def test_a_run_is_evaluated_on_a_stream_as_it_goes(folder: Path, tmp_path: Path) -> None:
    held_out = {name: CausalLMStream(make(folder, epochs=1), threads=0) for name in ("a", "b")}
    options = {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "no"}
    made = trained(folder, tmp_path, 4, eval_dataset=held_out, **options)
    losses = [(row["step"], row[f"eval_{name}_loss"]) for name in "ab" for row in made.state.log_history
              if f"eval_{name}_loss" in row]  # fmt: skip
    assert losses[:2] == losses[2:] and [step for step, _ in losses] == [2, 4, 2, 4]
    plain = trained(folder, tmp_path / "plain", 4, save_strategy="no")
    assert made.seen == plain.seen, "evaluation changes nothing of what is trained on"


def test_a_stream_without_end_is_not_evaluated_on(folder: Path, tmp_path: Path) -> None:
    endless = CausalLMStream(make(folder))
    for given in (endless, {"a": endless}):
        with pytest.raises(gm.ConfigError, match=r"A stream to evaluate on has an end: say batch\(..., epochs=1\)"):
            make_trainer(tmp_path, None, eval_dataset=given)
    for use in (Recording.evaluate, Recording.predict):
        with pytest.raises(gm.ConfigError, match="epochs=1"):
            use(make_trainer(tmp_path, None), endless)


def test_another_trainer_is_told_to_be_ours(folder: Path, tmp_path: Path) -> None:
    args = TrainingArguments(str(tmp_path), max_steps=1, report_to=[], use_cpu=True)
    data = CausalLMStream(make(folder, epochs=1))
    with pytest.raises(gm.ConfigError, match="is served by GristmillTrainer"):
        Trainer(torch.nn.Linear(1, 1), args, train_dataset=data).train()
    with pytest.raises(gm.ConfigError, match="is served by GristmillTrainer"):
        Trainer(torch.nn.Linear(1, 1), args, eval_dataset=data).evaluate()


def test_a_stream_where_rows_are_wanted_is_told_how_they_are_made(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(gm.ConfigError, match=r"train_dataset=CausalLMStream\(stream\)"):
        make_trainer(tmp_path, make(folder), max_steps=1).train()
    with pytest.raises(gm.ConfigError, match=r"CausalLMStream\(stream\)"):
        CausalLMDataset(make(folder))
