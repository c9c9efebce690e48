"""The contract of OLMo-core's TextDataLoaderBase, and its own Trainer stopped and resumed on our batches."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from olmo_core.data import NumpyDataLoaderConfig, NumpyFSLDatasetConfig, TokenizerConfig
from olmo_core.data.utils import get_cumulative_document_lengths, get_document_lengths, get_labels
from olmo_core.nn.transformer import TransformerConfig
from olmo_core.optim import AdamWConfig, CosWithWarmup
from olmo_core.train import Duration, TrainerConfig
from olmo_core.train.callbacks import BatchSizeSchedulerCallback, Callback, CheckpointerCallback
from olmo_core.train.train_module import TransformerTrainModuleConfig

import gristmill as gm
from gristmill.adapters.olmo_core import GristmillDataLoader, GristmillStreamLoader
from gristmill.adapters.spark_stream import stream_frame
from gristmill.testing import EOS, random_documents, tiny_store

SEQ_LEN, ROWS = 16, 4
Batch = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    found = tiny_store(tmp_path_factory.mktemp("store"), random_documents(36, seed=1))
    gm.index(found, SEQ_LEN)
    return found


@pytest.fixture
def make_plan(store: Any) -> Callable[..., gm.Plan]:
    def make(steps: int | None = None, seed: int = 0, **options: Any) -> gm.Plan:
        chosen = gm.PlanOptions(**options)
        return gm.Plan({"web": store}, seq_len=SEQ_LEN, batch_size=ROWS, seed=seed, steps=steps, options=chosen)

    return make


def ranks_of(plan: gm.Plan, world_size: int, **options: Any) -> list[GristmillDataLoader]:
    return [GristmillDataLoader(plan, dp_world_size=world_size, dp_rank=r, **options) for r in range(world_size)]


def epoch_of(loader: GristmillDataLoader, epoch: int | None = None) -> list[Batch]:
    """The batches of one epoch, taken as the Trainer takes them."""
    loader.reshuffle(epoch)
    found = list(loader)
    loader.reset()
    return found


def samples(batches: list[Batch]) -> list[list[list[int]]]:
    return [batch["sample_ids"].tolist() for batch in batches]


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_the_ranks_together_have_the_steps_of_the_plan(make_plan: Callable[..., gm.Plan], world_size: int) -> None:
    plan = make_plan()
    loaders = ranks_of(plan, world_size)
    epochs = [epoch_of(loader) for loader in loaders]
    assert [len(epoch) for epoch in epochs] == [len(plan)] * world_size == [loaders[0].total_batches] * world_size
    for step, parts in enumerate(zip(*epochs, strict=True)):
        joined = torch.stack([part["sample_ids"] for part in parts], dim=1).reshape(-1, 3)
        assert joined.tolist() == plan.samples(step).tolist()
        for part in parts:
            assert part["input_ids"].dtype == torch.int64
            assert part["input_ids"].numel() == loaders[0].rank_batch_size == SEQ_LEN * ROWS // world_size


def test_the_state_is_the_same_on_every_rank_and_small(make_plan: Callable[..., gm.Plan]) -> None:
    states = []
    for loader in ranks_of(make_plan(), 4):
        loader.reshuffle(1)
        for _, _batch in zip(range(5), loader, strict=False):
            pass
        states.append(json.dumps(loader.state_dict()))
    assert states == states[:1] * 4
    assert len(states[0]) < 1200


@pytest.mark.parametrize("options", [{}, {"skip": [(2, 4), (19, 20)]}], ids=["plain", "skips"])
def test_every_state_resumes_on_another_world_size(make_plan: Callable[..., gm.Plan], options: dict[str, Any]) -> None:
    plan = make_plan(steps=10, **options)
    whole = [batch for epoch in (1, 2, 3) for batch in samples(epoch_of(ranks_of(plan, 1)[0], epoch))]
    loader, states = GristmillDataLoader(plan, dp_world_size=2), []
    for epoch in (1, 2, 3):
        loader.reshuffle(epoch)
        for _ in loader:
            states.append((epoch, loader.state_dict()))
        loader.reset()
    assert len(states) == len(whole)
    for done, (epoch, state) in enumerate(states, start=1):
        resumed = GristmillDataLoader(plan)
        resumed.load_state_dict(json.loads(json.dumps(state)))
        rest = samples(epoch_of(resumed, epoch))
        for later in range(epoch + 1, 4):
            rest += samples(epoch_of(resumed, later))
        assert rest == whole[done:]


def test_later_epochs_go_on_where_the_plan_ended(make_plan: Callable[..., gm.Plan]) -> None:
    plan = make_plan()
    loader = GristmillDataLoader(plan)
    rows = [tuple(row) for epoch in (1, 2, 3) for batch in samples(epoch_of(loader, epoch)) for row in batch]
    count = plan.sources[0].order(2, SEQ_LEN, SEQ_LEN).samples
    assert count % ROWS, "the tail of a pass must be in play"
    for number in (0, 1):  # each pass over the store is whole, and in an order of its own
        assert sorted(rows[number * count : (number + 1) * count]) == [(0, number, i) for i in range(count)]
    assert [row[2] for row in rows[:count]] != [row[2] for row in rows[count : 2 * count]]


def test_an_epoch_may_be_had_again(make_plan: Callable[..., gm.Plan]) -> None:
    loader = GristmillDataLoader(make_plan())
    first, second = samples(epoch_of(loader, 1)), samples(epoch_of(loader))
    assert first != second
    assert samples(epoch_of(loader, 1)) == first
    assert loader.epoch == 2
    assert samples(epoch_of(loader)) == second


def test_skipped_steps_are_no_batches(make_plan: Callable[..., gm.Plan]) -> None:
    loader = GristmillDataLoader(make_plan(steps=10, skip=[(0, 2), (8, 13)]))
    assert [loader.batches_in_epoch(epoch) for epoch in (1, 2, 3)] == [6, 7, 10]
    assert [len(epoch_of(loader, epoch)) for epoch in (1, 2, 3)] == [6, 7, 10]


def test_an_endless_plan_is_one_epoch(store: Any) -> None:
    plan = gm.Plan({"a": store, "b": store}, seq_len=SEQ_LEN, batch_size=ROWS)
    loader = GristmillDataLoader(plan)
    loader.reshuffle(1)
    for batch, step in zip(loader, range(100), strict=False):
        assert batch["sample_ids"].tolist() == plan.samples(step).tolist()
    assert loader.total_batches is None
    with pytest.raises(gm.ConfigError, match="count its length in steps"):
        loader.reshuffle(2)


def test_a_batch_is_had_by_its_number_without_moving(make_plan: Callable[..., gm.Plan]) -> None:
    loader = GristmillDataLoader(make_plan(steps=8, skip=[(1, 3)]))
    epoch_of(loader)
    loader.reshuffle(2)
    assert samples([loader[i] for i in range(8)]) == samples(list(loader))


def test_the_mock_batch_looks_like_a_batch(make_plan: Callable[..., gm.Plan]) -> None:
    loader = GristmillDataLoader(make_plan(cut="pack"), doc_lens=True, dp_world_size=2, dp_rank=1)
    mock = loader.get_mock_batch()
    assert loader.state_dict()["loader"]["step"] == 0
    loader.reshuffle(1)
    batch = next(iter(loader))
    assert list(mock) == list(batch) == ["input_ids", "sample_ids", "label_mask", "doc_lens", "max_doc_lens"]
    assert [mock[key].shape for key in list(mock)[:3]] == [batch[key].shape for key in list(mock)[:3]]


def test_document_lengths_are_those_that_olmo_core_finds(make_plan: Callable[..., gm.Plan]) -> None:
    for batch in epoch_of(GristmillDataLoader(make_plan(), doc_lens=True)):
        assert batch["doc_lens"].dtype == torch.int32
        for row, lengths, longest in zip(batch["input_ids"], batch["doc_lens"], batch["max_doc_lens"], strict=True):
            expected = get_document_lengths(row, EOS)
            assert lengths[lengths > 0].tolist() == expected.tolist()
            assert not lengths[len(expected) :].any() and longest == expected.max()


def test_packed_rows_tell_documents_apart_and_mask_first_tokens(make_plan: Callable[..., gm.Plan]) -> None:
    plan = make_plan(cut="pack")
    ours = gm.Loader(plan, keys=("labels",))
    for batch, expected in zip(epoch_of(GristmillDataLoader(plan, doc_lens=True)), ours, strict=True):
        bounds = get_cumulative_document_lengths(batch["doc_lens"])
        assert bounds[-1] == batch["input_ids"].numel()
        first = bounds[:-1].to(torch.int64)
        assert not batch["label_mask"].flatten()[first].any()
        labels = get_labels(batch)
        assert labels[:, :-1].tolist() == expected["labels"][:, :-1].tolist()
        assert (labels[:, -1] == -100).all()  # OLMo-core knows no token after the window


def test_excluded_documents_have_no_part_in_the_loss(make_plan: Callable[..., gm.Plan]) -> None:
    plan = make_plan(exclude=["part-0:3"])
    loader = GristmillDataLoader(plan)
    loader.reshuffle(1)
    hits = plan.find("part-0:3")
    assert hits
    for hit in hits:
        assert (get_labels(loader[hit.step])[hit.row] == -100).sum() > 1  # one is the window's end


def test_labels_of_an_augmentation_are_handed_over_and_others_are_olmo_cores(make_plan: Callable[..., gm.Plan]) -> None:
    noise = make_plan(steps=2, augment=[gm.Noise(rate=0.5, vocab_size=EOS + 1)])
    [loader] = ranks_of(noise, 1)
    for step, batch in enumerate(epoch_of(loader)):
        clean = gm.Loader(make_plan(steps=2), keys="labels", threads=0).batch(step)
        assert torch.equal(batch["labels"], torch.from_numpy(clean["labels"]))
    assert "labels" not in epoch_of(ranks_of(make_plan(steps=2), 1)[0])[0]


def test_unshuffled_batches_are_those_of_olmo_cores_own_loader(tmp_path: Path) -> None:
    tokens = tiny_store(tmp_path / "store", shards=1)
    (tmp_path / "part.npy").hardlink_to(tmp_path / "store" / "part-0.bin")
    tokenizer = TokenizerConfig(vocab_size=EOS + 1, eos_token_id=EOS, pad_token_id=EOS, bos_token_id=None)
    config = NumpyFSLDatasetConfig(
        paths=[str(tmp_path / "part.npy")], sequence_length=SEQ_LEN, tokenizer=tokenizer, work_dir=str(tmp_path)
    )
    theirs = NumpyDataLoaderConfig(global_batch_size=ROWS * SEQ_LEN, seed=0, work_dir=str(tmp_path))
    unshuffled = theirs.build(config.build())
    unshuffled.shuffle = False
    plan = gm.Plan({"a": tokens}, seq_len=SEQ_LEN, batch_size=ROWS, options=gm.PlanOptions(shuffle=False))
    unshuffled.reshuffle(1)
    for rank in (0, 1):
        unshuffled.dp_world_size, unshuffled.dp_rank = 2, rank
        found = epoch_of(GristmillDataLoader(plan, dp_world_size=2, dp_rank=rank))
        expected = [unshuffled[i]["input_ids"].tolist() for i in range(unshuffled.total_batches)]
        assert [batch["input_ids"].tolist() for batch in found] == expected


def test_the_batch_size_follows_the_plan(make_plan: Callable[..., gm.Plan]) -> None:
    phases = [gm.Phase(from_step=3, batch_size=8), gm.Phase(from_step=5, seq_len=8)]
    plan = make_plan(steps=7, phases=phases)
    loader, sizes, states = GristmillDataLoader(plan, dp_world_size=2), [], []
    loader.reshuffle(1)
    for batch in loader:
        sizes.append((loader.global_batch_size, tuple(batch["input_ids"].shape)))
        states.append(loader.state_dict())
    assert sizes == [(64, (2, 16))] * 3 + [(128, (4, 16))] * 2 + [(64, (4, 8))] * 2
    assert loader.tokens_processed == plan.tokens_before(7)
    resumed = GristmillDataLoader(plan)
    resumed.load_state_dict(states[2])
    assert resumed.global_batch_size == 128
    assert resumed.tokens_processed == 3 * 64


def test_history_may_be_rewritten_under_a_checkpoint(make_plan: Callable[..., gm.Plan]) -> None:
    loader = GristmillDataLoader(make_plan(steps=10))
    loader.reshuffle(1)
    for _, _batch in zip(range(6), loader, strict=False):
        pass
    resumed = GristmillDataLoader(make_plan(steps=12, skip=[gm.Skip(2, 4, rewrite_history=True)]))
    resumed.load_state_dict(loader.state_dict())
    resumed.reshuffle(1)
    assert resumed.batches_processed == 4
    assert next(iter(resumed))["sample_ids"].tolist() == make_plan(steps=10).samples(6).tolist()


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"batches_processed": 3, "epoch": 1, "dataset_type": "fsl"}, "not made with GristmillDataLoader"),
        (None, "not made with GristmillDataLoader"),
    ],
)
def test_the_state_of_another_loader_is_refused(make_plan: Callable[..., gm.Plan], state: Any, message: str) -> None:
    with pytest.raises(gm.StateError, match=message):
        GristmillDataLoader(make_plan()).load_state_dict(state)


def test_a_checkpoint_of_another_plan_is_refused(make_plan: Callable[..., gm.Plan]) -> None:
    loader = GristmillDataLoader(make_plan(steps=5))
    epoch_of(loader)
    with pytest.raises(gm.StateError, match=r"seed \(was 0, is 1\)"):
        GristmillDataLoader(make_plan(steps=5, seed=1)).load_state_dict(loader.state_dict())
    with pytest.raises(gm.StateError, match=r"epoch 2 of a plan of 5 steps; this plan has 6"):
        GristmillDataLoader(make_plan(steps=6)).load_state_dict(loader.state_dict())


def test_a_longer_plan_goes_on_in_its_first_epoch(make_plan: Callable[..., gm.Plan]) -> None:
    short, long = GristmillDataLoader(make_plan(steps=5)), GristmillDataLoader(make_plan(steps=8))
    short.reshuffle(1)
    first = samples(list(short))
    long.load_state_dict(short.state_dict())
    long.reshuffle(1)
    rest = samples(list(long))
    assert first + rest == samples(epoch_of(GristmillDataLoader(make_plan(steps=8))))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda make: GristmillDataLoader(make(drop_last=False)), "whole batches only"),
        (lambda make: GristmillDataLoader(make(), dp_world_size=3), "cannot be split over 3 ranks"),
        (lambda make: GristmillDataLoader(make()).reshuffle(0), "there is no epoch 0"),
        (lambda make: GristmillDataLoader(make(steps=10, max_epochs=1)).batches_in_epoch(9), "max_epochs"),
        (lambda make: setattr(GristmillDataLoader(make()), "global_batch_size", 128), "Phase"),
    ],
)
def test_what_cannot_be_is_refused(make_plan: Callable[..., gm.Plan], act: Callable[..., Any], message: str) -> None:
    with pytest.raises(gm.ConfigError, match=message):
        act(make_plan)


def test_iterating_before_reshuffle_is_refused_as_by_olmo_core(make_plan: Callable[..., gm.Plan]) -> None:
    with pytest.raises(RuntimeError, match="reshuffle"):
        next(iter(GristmillDataLoader(make_plan())))


# OLMo-core's own Trainer, in this process.


@dataclass
class Watch(Callback):
    """What the trainer saw: the samples and the loss of each step."""

    losses: dict[int, float] = field(default_factory=dict)
    seen: dict[int, Any] = field(default_factory=dict)

    def pre_step(self, batch: Batch) -> None:
        self.seen[self.step] = batch["sample_ids"].tolist()

    def log_metrics(self, step: int, metrics: dict[str, float]) -> None:
        if "train/CE loss" in metrics:  # the dry run reports others
            self.losses[step] = metrics["train/CE loss"]


def train(folder: Path, plan: gm.Plan, stop_at: int | None = None, **callbacks: Callback) -> Watch:
    """Three epochs of a model of two layers, or as far as `stop_at`; goes on where `folder` has a checkpoint."""
    return train_on(folder, GristmillDataLoader(plan), Duration.epochs(3), stop_at, **callbacks)


def train_on(folder: Path, loader: Any, duration: Duration, stop_at: int | None = None, **callbacks: Callback) -> Watch:
    torch.manual_seed(0)
    config = TransformerConfig.llama_like(d_model=16, n_layers=2, n_heads=2, vocab_size=EOS + 1)
    optim, scheduler = AdamWConfig(lr=1e-2), CosWithWarmup(warmup=2, t_max=17)
    module = TransformerTrainModuleConfig(
        rank_microbatch_size=SEQ_LEN, max_sequence_length=SEQ_LEN, optim=optim, scheduler=scheduler
    ).build(config.build(init_device="cpu"), device=torch.device("cpu"))
    watch = Watch()
    checkpointer = CheckpointerCallback(save_interval=100, pre_train_checkpoint=False)
    trainer = TrainerConfig(
        save_folder=str(folder),
        save_overwrite=True,
        max_duration=duration,
        hard_stop=Duration.steps(stop_at) if stop_at else None,
        callbacks={"watch": watch, "checkpointer": checkpointer, **callbacks},
    ).build(module, loader)
    trainer.fit()
    return watch


@pytest.mark.parametrize(("cut", "stops"), [("chunk", (3, 5, 8)), ("pack", (8,))])  # 5 is the end of an epoch
def test_the_trainer_resumes_to_the_last_bit(
    make_plan: Callable[..., gm.Plan], cut: str, stops: tuple[int, ...], tmp_path: Path
) -> None:
    plan = make_plan(steps=6, cut=cut, skip=[(2, 3)])  # 5 batches in the first epoch, 6 in the others
    straight = train(tmp_path / "straight", plan)
    assert list(straight.losses) == list(range(1, 18))
    for stop_at in stops:
        folder = tmp_path / f"stopped-{stop_at}"
        before, after = train(folder, plan, stop_at), train(folder, plan)
        assert list(after.losses) == list(range(stop_at + 1, 18))
        assert before.seen | after.seen == straight.seen
        assert before.losses | after.losses == straight.losses


def test_the_trainer_is_told_that_the_plan_sets_the_batch_size(
    make_plan: Callable[..., gm.Plan], tmp_path: Path
) -> None:
    schedule = BatchSizeSchedulerCallback(batch_sizes=[64, 128], schedule=[Duration.steps(0), Duration.steps(2)])
    with pytest.raises(gm.ConfigError, match="The plan sets the batch size"):
        train(tmp_path, make_plan(steps=6), batch_size=schedule)


# Streams


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    rows = ({"id": str(i), "text": f"Document {i}. " * (1 + i % 9)} for i in range(150))
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def make_stream(folder: Path, **options: Any) -> Any:
    return gm.stream(f"{folder}/*.jsonl").tokenize("byte").pack(SEQ_LEN).batch(ROWS, seed=1, **options)


def test_a_trainer_on_a_stream_resumes_to_the_last_bit(tmp_path: Path, texts: Path) -> None:
    def run(folder: str, stop_at: int | None = None) -> Watch:
        loader = GristmillStreamLoader(make_stream(texts), threads=0)
        return train_on(tmp_path / folder, loader, Duration.steps(9), stop_at)

    straight = run("straight")
    before, after = run("stopped", 4), run("stopped")
    assert list(after.losses) == list(range(5, 10))
    assert before.seen | after.seen == straight.seen and before.losses | after.losses == straight.losses


def test_a_trainer_on_a_dataframe_resumes_to_the_last_bit(tmp_path: Path, spark: Any) -> None:
    rows = spark.range(150).selectExpr("cast(id as string) as id", "repeat(concat('Document ', id, '. '), 9) as text")
    stream = stream_frame(rows, id_col="id").tokenize("byte").chunk(SEQ_LEN).batch(ROWS, seed=1)

    def run(folder: str, stop_at: int | None = None) -> Watch:
        return train_on(tmp_path / folder, GristmillStreamLoader(stream), Duration.steps(9), stop_at)

    straight = run("straight")
    before, after = run("stopped", 4), run("stopped")
    assert list(after.losses) == list(range(5, 10))
    assert before.seen | after.seen == straight.seen and before.losses | after.losses == straight.losses


def test_ranks_of_a_stream_have_its_rows_and_the_documents_lengths(texts: Path) -> None:
    whole = next(iter(make_stream(texts).loader(threads=0, keys=("cu_seqlens",))))
    for rank in range(2):
        loader = GristmillStreamLoader(make_stream(texts), doc_lens=True, threads=0, dp_world_size=2, dp_rank=rank)
        loader.reshuffle(1)
        batch = next(iter(loader))
        assert batch["input_ids"].tolist() == whole["input_ids"][rank::2].tolist()
        assert batch["doc_lens"].sum(1).tolist() == [SEQ_LEN] * 2
        assert loader.get_mock_batch().keys() == batch.keys() and loader.total_batches is None
    with pytest.raises(gm.ConfigError, match="no epoch 2"):
        loader.reshuffle(2)
    with pytest.raises(gm.StateError, match="not made with GristmillStreamLoader"):
        loader.load_state_dict({"epoch": 1})
    with pytest.raises(gm.ConfigError, match="leave epochs="):
        GristmillStreamLoader(make_stream(texts, epochs=1))
