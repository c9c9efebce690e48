"""Hugging Face's Trainer on a plan: stopped at any step and resumed to the last bit, without reading anything again."""

import json

import pytest
import torch
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import gristmill as gm
from gristmill.adapters.hf_trainer import CausalLMDataset, GristmillTrainer
from gristmill.adapters.passes import extended
from gristmill.testing import EOS, random_documents, tiny_store

PASS, ROWS, SEQ_LEN = 6, 8, 16

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore")  # pinned memory without a GPU, and the Trainer's own advice


class Recording(Trainer):
    """A Trainer of one's own: it notes what each forward was shown and what it cost."""

    def training_step(self, model, inputs, num_items_in_batch=None):
        loss = super().training_step(model, inputs, num_items_in_batch)
        self.seen = [*getattr(self, "seen", []), inputs["input_ids"].tolist()]
        self.losses = [*getattr(self, "losses", []), loss.item()]
        return loss


class RecordingTrainer(GristmillTrainer, Recording):
    """The same on a plan."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    found = tiny_store(tmp_path_factory.mktemp("trainer"), random_documents(200), shards=2)
    gm.index(found, SEQ_LEN)
    return found


@pytest.fixture
def make_plan(store):
    def make(seed=1, steps=PASS, batch_size=ROWS, **options):
        chosen = gm.PlanOptions(**options)
        return gm.Plan({"web": store}, seq_len=SEQ_LEN, batch_size=batch_size, seed=seed, steps=steps, options=chosen)

    return make


def make_model():
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=EOS + 1, n_positions=SEQ_LEN, n_embd=8, n_layer=1, n_head=1))


def make_trainer(folder, plan, parts=1, trainer=RecordingTrainer, eval_dataset=None, rows=None, keys=(), **options):
    options = {"max_steps": 15, "save_strategy": "no", **options}
    args = TrainingArguments(
        str(folder),
        per_device_train_batch_size=rows or ROWS // parts,
        gradient_accumulation_steps=parts,
        logging_strategy="no",
        disable_tqdm=True,
        report_to=[],
        use_cpu=True,
        **options,
    )
    data = CausalLMDataset(plan, keys=keys)
    return trainer(model=make_model(), args=args, train_dataset=data, eval_dataset=eval_dataset)


def rows_of(plan, updates):
    """The rows of each update, in the plan's order."""
    loader = gm.Loader(extended(plan, updates), threads=0)
    return [loader.batch(step)["input_ids"].tolist() for step in range(updates)]


def joined(microbatches, parts):
    """The rows of each update of one rank."""
    return [sum(microbatches[i : i + parts], []) for i in range(0, len(microbatches), parts)]  # noqa: RUF017


@pytest.mark.parametrize("parts", [1, 2])
def test_a_run_resumed_at_any_step_is_the_same_to_the_last_bit(tmp_path, make_plan, parts):
    plan = make_plan()
    whole = make_trainer(tmp_path, plan, parts, save_strategy="steps", save_steps=1)
    whole.train()
    assert joined(whole.seen, parts) == rows_of(plan, 15)
    for step in (1, PASS - 1, PASS, PASS + 2, 14) if parts == 1 else (PASS - 1, PASS + 1):
        resumed = make_trainer(tmp_path, plan, parts, dataloader_num_workers=2 if step == PASS + 2 else 0)
        resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
        assert resumed.seen == whole.seen[step * parts :], f"after step {step}"
        assert resumed.losses == whole.losses[step * parts :], f"after step {step}"
        for one, other in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
            assert torch.equal(one, other)


def test_epochs_are_passes_and_skipped_steps_are_not_in_them(tmp_path, make_plan):
    plan = make_plan(steps=8, skip=[gm.Skip(from_step=3, to_step=5)])
    trainer = make_trainer(tmp_path, plan, max_steps=-1, num_train_epochs=2)
    trainer.train()
    longer = gm.Loader(extended(plan, 12), threads=0)
    assert trainer.seen == [batch["input_ids"].tolist() for batch in longer]
    assert trainer.state.epoch == 2 and trainer.state.global_step == 12
    assert trainer.num_examples(trainer.get_train_dataloader()) == 6 * ROWS


def test_a_run_goes_on_with_other_accumulation_steps_again_and_again(tmp_path, make_plan):
    done = 0
    for parts, steps in ((1, 4), (4, 9), (2, 15)):
        trainer = make_trainer(tmp_path, make_plan(), parts, max_steps=steps, save_strategy="steps", save_steps=steps)
        trainer.train(resume_from_checkpoint=done > 0)
        assert joined(trainer.seen, parts) == rows_of(make_plan(), 15)[done:steps]
        done = steps


def test_resuming_reads_nothing_of_what_was_trained_on(tmp_path, make_plan, monkeypatch):
    plan = make_plan(steps=5000)
    make_trainer(tmp_path, plan, max_steps=1, save_strategy="steps", save_steps=1).train()
    kept = tmp_path / "checkpoint-1" / "trainer_state.json"
    state = json.loads(kept.read_text())
    loader = gm.Loader(plan)
    loader.seek(4990)
    state["global_step"] = 4990
    state["stateful_callbacks"]["PlanPosition"]["attributes"]["loader"] = loader.state_dict()
    kept.write_text(json.dumps(state))
    resumed, read = make_trainer(tmp_path, plan, max_steps=4992), []
    items = CausalLMDataset.__getitems__
    monkeypatch.setattr(CausalLMDataset, "__getitems__", lambda data, rows: read.extend(rows) or items(data, rows))
    resumed.train(resume_from_checkpoint=str(kept.parent))
    assert read == list(range(4990 * ROWS, 4992 * ROWS))


def test_two_ranks_split_each_update_as_a_loader_does(tmp_path, make_plan, monkeypatch):
    plan = make_plan()
    ranks = []
    for rank in range(2):
        trainer = make_trainer(tmp_path, plan, 2, rows=ROWS // 4)
        monkeypatch.setattr(type(trainer.args), "world_size", 2)
        monkeypatch.setattr(type(trainer.args), "process_index", rank)
        ranks.append([batch["input_ids"].tolist() for batch in trainer.get_train_dataloader()])
        monkeypatch.undo()
    for rank, seen in enumerate(ranks):
        loader = gm.Loader(plan, rank, 2, threads=0)
        assert joined(seen, 2) == [loader.batch(step)["input_ids"].tolist() for step in range(PASS)]


@pytest.mark.parametrize("cut", ["chunk", "pack"])
def test_the_loss_is_that_of_the_next_token_computed_by_hand(make_plan, cut):
    plan = make_plan(cut=cut)
    rows = CausalLMDataset(plan, keys=("position_ids",)).__getitems__(range(ROWS))
    batch = {key: torch.stack([row[key] for row in rows]) for key in rows[0]}
    assert set(batch) == {"input_ids", "labels", "position_ids"}
    model = make_model().eval()
    found = model(**batch)
    shifted = torch.from_numpy(gm.Loader(plan, keys=("labels",)).batch(0)["labels"])[:, :-1]
    by_hand = functional.cross_entropy(found.logits[:, :-1].flatten(0, 1), shifted.flatten())
    assert found.loss.item() == pytest.approx(by_hand.item(), rel=1e-6)
    assert (cut == "pack") == bool((batch["labels"][:, 1:] == -100).any())


@pytest.mark.parametrize("cut", ["chunk", "pack"])
def test_the_loss_of_blurred_inputs_is_that_of_the_clean_text(make_plan, cut):
    plan = make_plan(cut=cut, augment=[gm.Noise(rate=0.5, vocab_size=EOS + 1)])
    rows = CausalLMDataset(plan).__getitems__(range(ROWS))
    batch = {key: torch.stack([row[key] for row in rows]) for key in rows[0]}
    found = make_model().eval()(**batch)
    shifted = torch.from_numpy(gm.Loader(make_plan(cut=cut), keys=("labels",)).batch(0)["labels"])[:, :-1]
    by_hand = functional.cross_entropy(found.logits[:, :-1].flatten(0, 1), shifted.flatten())
    assert found.loss.item() == pytest.approx(by_hand.item(), rel=1e-6)


def test_hidden_tokens_are_asked_for_where_they_are(make_plan):
    plan = make_plan(augment=[gm.Mask(rate=0.5, token=EOS + 1, vocab_size=EOS)])
    rows = CausalLMDataset(plan).__getitems__(range(ROWS))
    expected = gm.Loader(plan, threads=0).batch(0)
    for key in ("input_ids", "labels"):
        assert torch.equal(torch.stack([row[key] for row in rows]), torch.from_numpy(expected[key]))


def test_evaluation_sees_every_row_once(tmp_path, make_plan, store):
    val = make_plan(steps=None, batch_size=5, shuffle=False, drop_last=False)
    data = CausalLMDataset(val)
    trainer = make_trainer(tmp_path, make_plan(), eval_dataset=data, per_device_eval_batch_size=16)
    rows = torch.stack([data[i]["input_ids"] for i in range(len(data))])
    assert len(rows) == store.num_tokens // SEQ_LEN
    by_hand = trainer.model.eval()(rows, labels=rows).loss.item()
    assert trainer.evaluate()["eval_loss"] == pytest.approx(by_hand, rel=1e-5)


def test_the_place_is_in_the_trainers_own_state_and_small(tmp_path, make_plan):
    plan = make_plan()
    make_trainer(tmp_path, plan, max_steps=8, save_strategy="steps", save_steps=8).train()
    state = json.loads((tmp_path / "checkpoint-8" / "trainer_state.json").read_text())
    loader = gm.Loader(extended(plan, 8))
    loader.seek(8)
    assert state["stateful_callbacks"]["PlanPosition"]["attributes"]["loader"] == loader.state_dict()
    resumed = make_trainer(tmp_path, plan, restore_callback_states_from_checkpoint=True)
    resumed.train(resume_from_checkpoint=True)
    assert resumed.seen == rows_of(plan, 15)[8:]


def test_a_checkpoint_of_another_plan_or_trainer_is_refused(tmp_path, make_plan):
    options = {"max_steps": 3, "save_strategy": "steps", "save_steps": 3}
    make_trainer(tmp_path / "seed", make_plan(seed=2), **options).train()
    with pytest.raises(gm.StateError, match=r"another plan: seed \(was 2, is 1\)"):
        make_trainer(tmp_path / "seed", make_plan()).train(resume_from_checkpoint=True)
    make_trainer(tmp_path / "plain", make_plan(), trainer=Trainer, **options).train()
    with pytest.raises(gm.StateError, match="not made by GristmillTrainer"):
        make_trainer(tmp_path / "plain", make_plan()).train(resume_from_checkpoint=True)


def test_what_the_trainer_cannot_train_on_is_refused(tmp_path, make_plan, store):
    with pytest.raises(gm.ConfigError, match=r"batches of 8 sequences.*makes 6 of per_device_train_batch_size"):
        make_trainer(tmp_path, make_plan(), 2, rows=3).train()
    with pytest.raises(gm.ConfigError, match=r"batches of 16 sequences from step 3 on.*makes 8"):
        make_trainer(tmp_path, make_plan(phases=[gm.Phase(from_step=3, batch_size=16)])).train()
    with pytest.raises(gm.ConfigError, match="whole batches only"):
        make_trainer(tmp_path, make_plan(steps=None, drop_last=False)).train()
    with pytest.raises(gm.ConfigError, match="ignore_data_skip would begin the pass anew"):
        make_trainer(tmp_path, make_plan(), ignore_data_skip=True).train()
    with pytest.raises(gm.ConfigError, match="leave out auto_find_batch_size"):
        make_trainer(tmp_path, make_plan(), auto_find_batch_size=True).train()
    with pytest.raises(gm.ConfigError, match="give the plan steps="):
        CausalLMDataset(gm.Plan({"a": store, "b": store}, seq_len=SEQ_LEN, batch_size=ROWS))
    trainer = make_trainer(tmp_path, make_plan())
    trainer.train_dataset = [{"input_ids": [1]}]
    with pytest.raises(gm.ConfigError, match=r"train_dataset=CausalLMDataset\(plan\)"):
        trainer.train()


def test_batches_as_wide_as_their_longest_row_cost_less_and_train_the_same(tmp_path):
    store = tiny_store(tmp_path / "short", random_documents(80, mean_tokens=4), shards=1)
    options, keys = gm.PlanOptions(cut="pad"), ("attention_mask",)
    plan = gm.Plan({"web": store}, seq_len=SEQ_LEN, batch_size=ROWS, seed=1, steps=5, options=options)
    usual, narrow = (make_trainer(tmp_path, plan, parts=2, keys=keys, max_steps=5) for _ in range(2))
    narrow.train_dataset = CausalLMDataset(plan, keys=keys, pad_to_multiple_of=1)
    for trainer in (usual, narrow):
        for dropout in (module for module in trainer.model.modules() if isinstance(module, torch.nn.Dropout)):
            dropout.p = 0.0  # it would draw other numbers for another shape
        trainer.train()
    widths = [[len(rows[0]) for rows in trainer.seen] for trainer in (usual, narrow)]
    assert widths[0] == [SEQ_LEN] * 10 and sum(widths[1]) < sum(widths[0])
    assert widths[1][::2] == widths[1][1::2]  # both microbatches of an update
    assert narrow.losses == pytest.approx(usual.losses, rel=1e-5)


def test_evaluation_may_have_batches_of_rows_from_several_steps(tmp_path, make_plan, store):
    options = gm.PlanOptions(cut="pad", shuffle=False, drop_last=False)
    val = gm.Plan({"web": store}, seq_len=SEQ_LEN, batch_size=4, options=options)
    losses = []
    for multiple in (None, 1):
        data = CausalLMDataset(val, keys=("attention_mask",), pad_to_multiple_of=multiple)
        trainer = make_trainer(tmp_path, make_plan(), eval_dataset=data, per_device_eval_batch_size=6)
        losses.append(trainer.evaluate()["eval_loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
