"""Lightning's Trainer on a plan: every way to stop a fit, and to go on, sees each batch once."""

import itertools
import json

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn import functional

import gristmill as gm
from gristmill.adapters.lightning import GristmillDataModule
from gristmill.adapters.passes import extended
from gristmill.testing import random_documents, tiny_store

VOCAB, PASS = 257, 8

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's advice on loggers, intervals and folders


class Model(lightning.LightningModule):
    """A bigram model, what it was shown and what that cost; no dropout, since Lightning keeps no random state."""

    def __init__(self, schedule=False):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(VOCAB, VOCAB)
        self.schedule, self.seen, self.losses, self.validated = schedule, [], [], []

    def loss(self, batch):
        return functional.cross_entropy(self.table(batch["input_ids"]).flatten(0, 1), batch["labels"].flatten())

    def training_step(self, batch, _):
        self.seen.append(batch["sample_ids"].tolist())
        loss = self.loss(batch)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, _):
        self.validated.append(batch["sample_ids"].tolist())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 1e-2)
        if not self.schedule:
            return optimizer
        # Asking for this makes Lightning set up the train loader before it restores a checkpoint.
        steps = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=int(steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tiny_store(tmp_path_factory.mktemp("lightning"), random_documents(120), shards=2)


@pytest.fixture
def make_plan(store):
    def make(seed=1, steps=PASS, sources=("web",), batch_size=4, **options):
        stores = dict.fromkeys(sources, store)
        return gm.Plan(
            stores, seq_len=16, batch_size=batch_size, seed=seed, steps=steps, options=gm.PlanOptions(**options)
        )

    return make


def make_trainer(folder, max_steps=-1, every=None, **options):
    saved = [ModelCheckpoint(folder, "{step}", every_n_train_steps=every, save_top_k=-1)] if every else []
    options = {"max_epochs": -1, "callbacks": saved, "enable_checkpointing": bool(every), **options}
    return lightning.Trainer(
        max_steps=max_steps,
        default_root_dir=folder,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )


def fit(folder, plan, max_steps=-1, every=None, resume=None, val=None, schedule=False, threads=0, workers=0, **options):
    """Train; with `every`, keep each of those steps as step=N.ckpt."""
    trainer, model = make_trainer(folder, max_steps, every, **options), Model(schedule)
    data = GristmillDataModule(plan, val, keys=("labels",), threads=threads, workers=workers)
    trainer.fit(model, data, ckpt_path=resume)
    return trainer, model


def expected_ids(plan, batches):
    loader = gm.Loader(extended(plan, batches), threads=0)
    return [loader.batch(step)["sample_ids"].tolist() for step in range(batches)]


@pytest.mark.parametrize("schedule", [False, True])
def test_a_fit_stopped_at_any_step_goes_on_to_the_last_bit(tmp_path, make_plan, schedule):
    plan = make_plan()
    _, whole = fit(tmp_path, plan, max_epochs=3, every=1, schedule=schedule)
    assert whole.seen == expected_ids(plan, 3 * PASS)
    for step in (1, 5, PASS - 1, PASS, PASS + 1, 2 * PASS, 23):
        kept = tmp_path / f"step={step}.ckpt"
        _, resumed = fit(tmp_path, plan, max_epochs=3, resume=kept, schedule=schedule, threads=2)
        assert resumed.seen == whole.seen[step:], f"after step {step}"
        assert resumed.losses == whole.losses[step:]
        assert torch.equal(resumed.table.weight, whole.table.weight), f"after step {step}"


def test_an_endless_plan_loses_no_batch_either(tmp_path, make_plan):
    plan = make_plan(sources=("a", "b"), steps=None)
    _, whole = fit(tmp_path, plan, 12, every=5)
    assert whole.seen == expected_ids(plan, 12)
    _, resumed = fit(tmp_path, plan, 12, resume=tmp_path / "step=5.ckpt")
    assert resumed.seen == whole.seen[5:]


def test_a_checkpoint_saved_after_the_fit_goes_on_as_well(tmp_path, make_plan):
    plan, after, done = make_plan(), tmp_path / "after.ckpt", 0
    _, whole = fit(tmp_path, plan, 20)
    for steps in (3, PASS, 11, 20):
        trainer, model = fit(tmp_path, plan, steps, resume=after if done else None)
        assert model.seen == whole.seen[done:steps]
        assert model.losses == whole.losses[done:steps]
        trainer.save_checkpoint(after)
        done = steps


def test_a_second_fit_of_the_same_trainer_goes_on(tmp_path, make_plan):
    trainer, model, data = make_trainer(tmp_path, 11), Model(), GristmillDataModule(make_plan(), keys=("labels",))
    trainer.fit(model, data)
    trainer.fit_loop.epoch_loop.max_steps = 20
    trainer.fit(model, data)
    assert model.seen == expected_ids(make_plan(), 20)


def test_epochs_are_passes_and_validation_is_whole_each_time(tmp_path, make_plan):
    plan, val = make_plan(), make_plan(steps=None, shuffle=False, drop_last=False)
    _, model = fit(tmp_path, plan, val=val, max_epochs=2)
    assert model.seen == expected_ids(plan, 2 * PASS)
    whole = [batch["sample_ids"].tolist() for batch in gm.Loader(val, threads=0)]
    assert model.validated == whole[:2] + 2 * whole, "two batches are Lightning's sanity check"


def test_a_checkpoint_of_the_validation_in_the_middle_of_an_epoch(tmp_path, make_plan):
    plan, val = make_plan(), make_plan(steps=2)
    options = {"val": val, "val_check_interval": 5, "check_val_every_n_epoch": None}
    monitor = ModelCheckpoint(tmp_path, "v-{step}", save_top_k=-1)
    _, whole = fit(tmp_path, plan, 17, callbacks=[monitor], enable_checkpointing=True, **options)
    _, resumed = fit(tmp_path, plan, 17, resume=tmp_path / "v-step=10.ckpt", **options)
    assert resumed.seen == whole.seen[10:] and resumed.losses == whole.losses[10:]


def test_limits_and_accumulation_go_on_where_the_epoch_ended(tmp_path, make_plan):
    plan = make_plan()
    _, model = fit(tmp_path, plan, limit_train_batches=3, max_epochs=4, accumulate_grad_batches=3)
    assert model.seen == expected_ids(plan, PASS + 3), "the third epoch ends with the pass"


def test_a_plan_that_changes_from_here_on_is_accepted(tmp_path, make_plan):
    fit(tmp_path, make_plan(steps=20), 10, every=5)
    changed = make_plan(steps=20, skip=[gm.Skip(from_step=5, to_step=8)])
    _, resumed = fit(tmp_path, changed, 10, resume=tmp_path / "step=5.ckpt")
    assert resumed.seen == [gm.Loader(changed).batch(step)["sample_ids"].tolist() for step in range(8, 13)]


def test_bad_checkpoints_are_refused_with_what_differs(tmp_path, make_plan):
    fit(tmp_path, make_plan(seed=2), 5, every=5)
    with pytest.raises(gm.StateError, match=r"step 5.*another plan: seed \(was 2, is 1\)"):
        fit(tmp_path, make_plan(seed=1), 10, resume=tmp_path / "step=5.ckpt")
    saved = torch.load(tmp_path / "step=5.ckpt", weights_only=True)
    del saved["GristmillDataModule"], saved["loops"]["fit_loop"]["state_dict"]["combined_loader"]
    torch.save(saved, tmp_path / "others.ckpt")
    with pytest.raises(gm.StateError, match=r"others.ckpt holds no place in the data.*load_from_checkpoint"):
        fit(tmp_path, make_plan(), 10, resume=tmp_path / "others.ckpt")


def test_validation_alone_needs_no_place_in_the_data(tmp_path, make_plan):
    plan, val = make_plan(), make_plan(steps=3, shuffle=False)
    fit(tmp_path, plan, 5, every=5)
    model = Model()
    make_trainer(tmp_path).validate(model, GristmillDataModule(plan, val), ckpt_path=tmp_path / "step=5.ckpt")
    assert len(model.validated) == 3


def test_a_world_size_that_does_not_divide_is_refused_when_loaders_are_made(make_plan):
    data = GristmillDataModule(make_plan(batch_size=4))
    with pytest.raises(gm.ConfigError, match=r'call setup\("fit"\) first'):
        data.train_dataloader()
    data.trainer = lightning.Trainer(accelerator="cpu", devices=3, strategy="ddp_fork", logger=False)
    with pytest.raises(gm.ConfigError, match=r"batch_size 4.*3 ranks: make it a multiple of 3"):
        data.setup("fit")


def test_narrow_batches_and_their_masks_reach_the_trainer(make_plan):
    module = GristmillDataModule(make_plan(cut="pad"), keys=("attention_mask",), threads=0, pad_to_multiple_of=1)
    module.setup("fit")
    for batch in module.train_dataloader():
        assert batch["attention_mask"].any(dim=0).all()
        assert batch["attention_mask"].shape == batch["input_ids"].shape


# Streams


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    rows = ({"id": str(i), "text": f"Document {i}. " * (1 + i % 9)} for i in range(150))
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def make_stream(folder, **options):
    return gm.stream(f"{folder}/*.jsonl").tokenize("byte").pack(16).batch(4, seed=1, **options)


def shown(batches):
    return [batch["sample_ids"].tolist() for batch in batches]


def test_a_fit_on_a_stream_stopped_at_any_step_goes_on_to_the_last_bit(tmp_path, texts):
    stream = make_stream(texts)
    _, whole = fit(tmp_path, stream, 12, every=1)
    assert whole.seen == shown(itertools.islice(stream.loader(threads=0), 12))
    for step in (1, 7, 11):
        made = {"workers": 1} if step == 7 else {"threads": 2}
        _, resumed = fit(tmp_path, make_stream(texts), 12, resume=tmp_path / f"step={step}.ckpt", **made)
        assert resumed.seen == whole.seen[step:] and resumed.losses == whole.losses[step:]


def test_a_stream_to_validate_on_is_whole_each_time_and_must_end(tmp_path, texts):
    val = make_stream(texts, epochs=1, shuffle=False)
    _, model = fit(tmp_path, make_stream(texts), 6, val=val, val_check_interval=3, num_sanity_val_steps=0)
    assert model.validated == 2 * shown(val.loader(threads=0))
    with pytest.raises(gm.ConfigError, match="epochs=1"):
        GristmillDataModule(make_stream(texts), make_stream(texts))


def test_a_stream_without_batches_is_told_how_they_are_made(texts):
    with pytest.raises(gm.ConfigError, match=r"plan must be a plan, or a stream with batches: gm.stream\("):
        GristmillDataModule(gm.stream(f"{texts}/*.jsonl").tokenize("byte").pack(16))
    with pytest.raises(gm.ConfigError, match="val_plan must be a plan, or a stream"):
        GristmillDataModule(make_stream(texts), 3)


def test_workers_are_for_streams(make_plan):
    with pytest.raises(gm.ConfigError, match="workers are for streams"):
        GristmillDataModule(make_plan(), workers=2)
