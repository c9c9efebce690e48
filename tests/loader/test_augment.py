"""Augmented rows of a plan: what becomes of a document, where it stays, and that nothing but the plan decides it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gristmill as gm
from gristmill.core.hashing import derive_key
from gristmill.loader.augment import call_own, first_keys, key_of, keys_below
from gristmill.testing import EOS, assert_resumes_anywhere, assert_same_on_any_world, tiny_store

CUTS = ("chunk", "pack", "pad", "window")
PRE, MID, SUF, MASK, FIRST = 300, 301, 302, 303, 400
IDS = {"prefix": PRE, "middle": MID, "suffix": SUF}
KEYS = ("labels", "loss_mask", "doc_ids", "position_ids", "cu_seqlens", "attention_mask")
SENTINELS = range(FIRST, FIRST + 8)


def backwards(tokens: Any, rng: Any) -> Any:
    """Turned round, and one token changed."""
    tokens[int(rng.integers(len(tokens)))] = 7
    return tokens[::-1]


AUGMENT: dict[str, list[Any]] = {
    "fim": [gm.FIM(rate=0.7, **IDS)],
    "spans": [gm.SpanCorruption(rate=0.8, density=0.3, sentinels=SENTINELS)],
    "mask": [gm.Mask(rate=0.3, token=MASK, vocab_size=257)],
    "noise": [gm.Noise(rate=0.3, vocab_size=257)],
    "function": [backwards],
    "all": [backwards, gm.FIM(rate=0.5, **IDS), gm.Noise(vocab_size=257)],
}
# The bytes of every array of the first five batches of a packed plan: they must never change silently.
GOLDEN = {
    "fim": "4541f20f12b8e988a3234c2c20cd4aab",
    "spans": "e04c71cd6b643763f385588ef650213d",
    "mask": "32b0a26f3a29a42bbe0cd10df818d100",
    "noise": "b845e366721f94881f8772e5e6aea13f",
    "all": "25a9bcc25ce1859f2ecb73e36308071f",
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("augment")
    made = {
        "web": tiny_store(folder / "web", [[(i + j) % 256 for j in range(1 + i % 61)] for i in range(90)], shards=3),
        "code": tiny_store(folder / "code", [[(7 * i + j) % 256 for j in range(3 + i % 37)] for i in range(60)]),
    }
    for store in made.values():
        gm.index(store, seq_len=32, progress=False)
    return made


def plan_of(stores: dict[str, Any], cut: str, augment: Any = (), **options: Any) -> gm.Plan:
    weights = {"web": 0.6, "code": 0.4}
    made = {"cut": cut, "block": 64, "augment": augment, **options}
    return gm.Plan(stores, weights, seq_len=32, batch_size=6, seed=5, steps=9, options=made)


def documents(row: Any, attention: Any) -> Iterator[tuple[int, int]]:
    """Where the documents of a row begin and end, without their EOS."""
    begin, end = 0, int(attention.sum())
    for stop in [*np.flatnonzero(row[:end] == EOS).tolist(), end]:
        if stop > begin:
            yield begin, stop
        begin = stop + 1


def pairs(stores: dict[str, Any], cut: str, augment: Any, keys: Any = KEYS) -> Iterator[tuple[Any, Any]]:
    """Rows of a plan without and with augmentation, as dicts."""
    plain, changed = (gm.Loader(plan_of(stores, cut, each), keys=keys, threads=0) for each in ((), augment))
    for one, other in zip(plain, changed, strict=True):
        for row in range(6):
            yield {k: v[row].copy() for k, v in one.items()}, {k: v[row].copy() for k, v in other.items()}


def filled_in(tokens: list[int]) -> tuple[list[int], bool]:
    """What a rearranged document was, and whether it is SPM."""
    if tokens[1] == SUF and MID in tokens:
        at = tokens.index(MID)
        joined, suffix = tokens[at + 1 :], tokens[2:at]
        return joined + suffix, True
    suf, mid = tokens.index(SUF), tokens.index(MID)
    return tokens[1:suf] + tokens[mid + 1 :] + tokens[suf + 1 : mid], False


@pytest.mark.parametrize("cut", CUTS)
def test_fim_moves_the_middle_of_a_document_to_its_end_and_loses_three_tokens(stores: Any, cut: str) -> None:
    kinds = {"PSM": 0, "SPM": 0, "left": 0}
    for was, now in pairs(stores, cut, AUGMENT["fim"]):
        for key in ("doc_ids", "position_ids", "cu_seqlens", "attention_mask", "loss_mask", "sample_ids"):
            assert np.array_equal(was[key], now[key])
        for begin, stop in documents(was["input_ids"], was["attention_mask"]):
            before, after = was["input_ids"][begin:stop].tolist(), now["input_ids"][begin:stop].tolist()
            if after == before:
                kinds["left"] += 1
                continue
            assert after[0] == PRE and len(before) > 3
            whole, spm = filled_in(after)
            assert whole == before[:-3]
            kinds["SPM" if spm else "PSM"] += 1
    assert min(kinds.values()) > 5


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", ["fim", "spans", "function"])
def test_labels_are_the_next_tokens_of_the_rearranged_row(stores: Any, cut: str, name: str) -> None:
    """Inside a row: labels are the targets of the inputs that are there; at its end only if nothing was moved there."""
    for was, now in pairs(stores, cut, AUGMENT[name]):
        ids, labels, mask = now["input_ids"], now["labels"], now["loss_mask"]
        same = was["labels"][:-1] == -100  # padding, and where a piece ends
        expected = np.where(mask[1:] & ~same, ids[1:], -100)
        assert np.array_equal(labels[:-1], expected)
        changed = [span for span in documents(was["input_ids"], was["attention_mask"])
                   if not np.array_equal(was["input_ids"][slice(*span)], ids[slice(*span)])]  # fmt: skip
        open_end = any(stop == 32 for _, stop in changed)
        assert labels[-1] == (-100 if open_end else was["labels"][-1])


@pytest.mark.parametrize("cut", CUTS)
def test_spans_are_asked_for_after_what_is_left_and_nothing_else_is(stores: Any, cut: str) -> None:
    found = 0
    for was, now in pairs(stores, cut, AUGMENT["spans"]):
        for key in ("doc_ids", "position_ids", "cu_seqlens", "attention_mask", "sample_ids"):
            assert np.array_equal(was[key], now[key])
        for begin, stop in documents(was["input_ids"], was["attention_mask"]):
            before, after = was["input_ids"][begin:stop].tolist(), now["input_ids"][begin:stop].tolist()
            if after == before:
                assert np.array_equal(now["loss_mask"][begin:stop], was["loss_mask"][begin:stop])
                continue
            spans = (np.array(after) >= FIRST).sum() // 2
            targets = len(after) - 1 - after[::-1].index(FIRST)
            assert whole_again(after[:targets], after[targets:]) == before[: -2 * spans]
            mask = now["loss_mask"][begin:stop]
            assert not mask[:targets].any() and mask[targets:].all()
            found += 1
    assert found > 15


def whole_again(inputs: list[int], targets: list[int]) -> list[int]:
    """A document from what was kept of it, and its spans by their sentinels."""
    spans: dict[int, list[int]] = {}
    for token in targets:
        if token >= FIRST:
            spans[token] = []
        else:
            spans[max(spans)].append(token)
    assert list(spans) == list(range(FIRST, FIRST + len(spans))) and all(spans.values())
    return [token for each in inputs for token in (spans[each] if each >= FIRST else [each])]


@pytest.mark.parametrize("cut", CUTS)
def test_masked_tokens_are_asked_for_where_they_are_and_no_others(stores: Any, cut: str) -> None:
    counts = {"masked": 0, "random": 0, "kept": 0, "left": 0}
    for was, now in pairs(stores, cut, AUGMENT["mask"], keys=("attention_mask",)):
        chosen = now["labels"] != -100
        assert np.array_equal(chosen, now["loss_mask"])
        assert np.array_equal(now["labels"][chosen], was["input_ids"][chosen])
        assert np.array_equal(now["input_ids"][~chosen], was["input_ids"][~chosen])
        assert not (chosen & ((was["input_ids"] == EOS) | (was["attention_mask"] == 0))).any()
        assert not (now["input_ids"][chosen] == EOS).any()
        counts["masked"] += int((now["input_ids"][chosen] == MASK).sum())
        counts["kept"] += int((now["input_ids"][chosen] == was["input_ids"][chosen]).sum())
        counts["left"] += int((~chosen & (was["input_ids"] != EOS)).sum())
        counts["random"] += int(chosen.sum())
    assert 0.25 < counts["random"] / (counts["random"] + counts["left"]) < 0.35
    assert 0.7 < counts["masked"] / counts["random"] < 0.9 and 0.03 < counts["kept"] / counts["random"] < 0.2


@pytest.mark.parametrize("cut", CUTS)
def test_noise_changes_inputs_and_no_labels(stores: Any, cut: str) -> None:
    changed = total = 0
    for was, now in pairs(stores, cut, AUGMENT["noise"]):
        for key in was.keys() - {"input_ids"}:
            assert np.array_equal(was[key], now[key])
        differ = was["input_ids"] != now["input_ids"]
        assert np.array_equal(was["input_ids"] == EOS, now["input_ids"] == EOS)
        changed, total = changed + int(differ.sum()), total + int((was["input_ids"] != EOS).sum())
    assert 0.25 < changed / total < 0.35


def test_labels_and_masks_are_there_where_an_augmentation_needs_them(stores: Any) -> None:
    for name, targets in {
        "mask": {"labels", "loss_mask"},
        "noise": {"labels"},
        "spans": {"loss_mask"},
        "fim": set(),
    }.items():
        batch = gm.Loader(plan_of(stores, "chunk", AUGMENT[name]), threads=0).batch(0)
        assert batch.keys() == {"input_ids", "sample_ids", *targets}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", AUGMENT)
def test_ranks_threads_and_restarts_change_nothing(stores: Any, cut: str, name: str) -> None:
    plan = plan_of(stores, cut, AUGMENT[name])
    assert_same_on_any_world(plan, world_sizes=(1, 2, 3), threads=(0, 2), keys=KEYS)
    assert_resumes_anywhere(plan)


@given(
    lengths=st.lists(st.integers(1, 60), min_size=8, max_size=30), seed=st.integers(0, 2**32),
    seq_len=st.integers(4, 40), rate=st.sampled_from([0.0, 0.3, 1.0]),
    name=st.sampled_from(["fim", "spans", "mask", "noise"]), cut=st.sampled_from(["chunk", "pad", "window"]),
)  # fmt: skip
def test_a_row_depends_on_its_sample_alone(
    lengths: Any, seed: int, seq_len: int, rate: float, name: str, cut: str
) -> None:
    """Whatever it is batched with, and whoever asks: every row of every step, in batches of one and of three."""
    kinds = {
        "fim": gm.FIM(rate=rate, **IDS),
        "spans": gm.SpanCorruption(rate=rate, sentinels=SENTINELS),
        "mask": gm.Mask(rate=rate, token=MASK, vocab_size=257),
        "noise": gm.Noise(rate=rate, vocab_size=257),
    }
    with tempfile.TemporaryDirectory() as folder:
        store = tiny_store(Path(folder), [[i % 256] * length for i, length in enumerate(lengths)], shards=1)
        if store.num_tokens < 3 * seq_len:
            return
        options = {"cut": cut, "augment": [kinds[name]]}
        loading = {"keys": ("labels", "loss_mask"), "threads": 0}
        plans = (gm.Plan(store, seq_len=seq_len, batch_size=size, seed=seed, steps=6 // size, options=options)
                 for size in (1, 3))  # fmt: skip
        one, three = (gm.Loader(plan, **loading) for plan in plans)
        rows = [{key: array.copy() for key, array in batch.items()} for batch in one]
        for step, batch in enumerate(three):
            for row in range(3):
                for key, array in batch.items():
                    assert np.array_equal(array[row], rows[3 * step + row][key][0])
        if rate == 0.0 and name != "mask":
            plain = gm.Plan(store, seq_len=seq_len, batch_size=1, seed=seed, steps=6, options={"cut": cut})
            for step, batch in enumerate(gm.Loader(plain, **loading)):
                assert all(np.array_equal(array, rows[step][key]) for key, array in batch.items())


def test_each_epoch_draws_anew_and_each_seed_too(stores: Any) -> None:
    def first_rows(seed: int, steps: int) -> list[Any]:
        options = {"shuffle": False, "augment": AUGMENT["fim"]}
        plan = gm.Plan(stores["web"], seq_len=32, batch_size=1, seed=seed, steps=steps, options=options)
        return [batch["input_ids"].copy() for batch in gm.Loader(plan, threads=0)]

    samples = gm.Plan(stores["web"], seq_len=32, batch_size=1).total_steps
    assert samples
    rows = first_rows(0, 2 * samples)
    assert any(not np.array_equal(a, b) for a, b in zip(rows[:samples], rows[samples:], strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(rows, first_rows(1, samples), strict=False))


def test_a_rate_by_source_leaves_the_others_alone(stores: Any) -> None:
    for was, now in pairs(stores, "pack", [gm.FIM(rate={"code": 1.0}, **IDS)]):
        same = np.array_equal(was["input_ids"], now["input_ids"])
        assert same == (was["sample_ids"][0] == 0) or (was["attention_mask"].sum() < 5 and same)


def test_what_sentinels_push_out_is_counted(stores: Any) -> None:
    loader = gm.Loader(plan_of(stores, "pack", [gm.FIM(rate=1.0, **IDS)]), threads=0)
    rearranged = sum(int((batch["input_ids"] == PRE).sum()) for batch in loader)
    assert loader.stats()["displaced_tokens"] == 3 * rearranged > 0
    assert gm.Loader(plan_of(stores, "pack"), threads=0).stats()["displaced_tokens"] == 0


@pytest.mark.parametrize("mode", ["replace", "loss"])
@pytest.mark.parametrize("name", ["fim", "spans", "mask", "noise"])
@pytest.mark.parametrize("cut", ["chunk", "pack"])
def test_an_excluded_document_is_taken_out_and_no_other_token_moves(
    stores: Any, cut: str, name: str, mode: str
) -> None:
    plan = plan_of(stores, cut, AUGMENT[name])
    row = next(row for row in plan.trace(2) if row.end - row.start > 6)
    out = [{"doc": row.doc_id, "source": row.source, "mode": mode}]
    without = gm.Loader(plan_of(stores, cut, AUGMENT[name], exclude=out), keys=KEYS, threads=0).batch(2)
    batch = gm.Loader(plan, keys=KEYS, threads=0).batch(2)
    taken = without["loss_mask"] != batch["loss_mask"]
    assert [hit.row for hit in plan_of(stores, cut, AUGMENT[name], exclude=out).trace(2) if hit.excluded]
    if mode == "replace":
        differ = without["input_ids"] != batch["input_ids"]
        assert (without["input_ids"][differ] == EOS).all() and differ.sum() >= row.end - row.start - 1
        assert not without["loss_mask"][differ].any()
    else:
        assert np.array_equal(without["input_ids"], batch["input_ids"])
    if name == "mask":
        assert (without["labels"][taken] == -100).all() and np.array_equal(
            without["labels"] != -100, without["loss_mask"]
        )
    assert not without["loss_mask"][taken].any()


def test_trace_find_and_samples_are_those_of_the_plan_without_it(stores: Any) -> None:
    plain, changed = plan_of(stores, "pack"), plan_of(stores, "pack", AUGMENT["all"])
    for step in range(9):
        assert np.array_equal(plain.samples(step), changed.samples(step)) and plain.trace(step) == changed.trace(step)
    document = plain.trace(4)[0].doc_id
    assert plain.find(document) == changed.find(document)


def test_a_checkpoint_of_a_plan_with_another_augmentation_is_refused_by_name(stores: Any) -> None:
    loaders = [gm.Loader(plan_of(stores, "chunk", each), threads=0) for each in ((), AUGMENT["fim"], AUGMENT["noise"])]
    for loader in loaders:
        loader.seek(4)
    for one in loaders:
        for other in loaders:
            if one is not other:
                with pytest.raises(gm.StateError, match="augment differs"):
                    one.load_state_dict(other.state_dict())


def test_keys_are_derived_from_seed_source_epoch_and_sample() -> None:
    epochs, samples = np.array([0, 0, 3]), np.array([5, 6, 5])
    keys = key_of(keys_below(first_keys(7, ["web"])[[0, 0, 0]], epochs, samples), 1)
    expected = [
        derive_key(7, "augment", "web", e, s, 1) for e, s in zip(epochs.tolist(), samples.tolist(), strict=True)
    ]
    assert keys.tolist() == expected


def test_a_function_gets_a_copy_and_a_generator_of_its_own() -> None:
    tokens = np.arange(5)
    assert call_own(backwards, tokens, 3, "").tolist() == call_own(backwards, tokens, 3, "").tolist()
    assert tokens.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("function", "said"), [
    (lambda tokens, rng: tokens[1:], "return as many"), (lambda tokens, rng: "text", "array of token ids"),
    (lambda tokens, rng: tokens * 0.5, "array of token ids"), (lambda tokens, rng: -1 - tokens, "array of token ids"),
    (lambda tokens, rng: 1 // 0, r"source \d, epoch 0, sample \d+: ZeroDivisionError"),
])  # fmt: skip
def test_a_function_that_gives_no_tokens_is_named(stores: Any, function: Any, said: str) -> None:
    with pytest.raises(gm.ConfigError, match=said):
        gm.Loader(plan_of(stores, "pack", [function]), threads=0).batch(0)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_bytes_of_augmented_batches_are_pinned(stores: Any, name: str) -> None:
    augment = [each for each in AUGMENT[name] if each is not backwards]  # numpy's generators promise no bytes
    digest = hashlib.sha256()
    for _, batch in zip(range(5), gm.Loader(plan_of(stores, "pack", augment), keys=KEYS, threads=0), strict=False):
        for key in sorted(batch):
            digest.update(key.encode() + np.ascontiguousarray(batch[key]).tobytes())
    assert digest.hexdigest()[:32] == GOLDEN[name]
