"""Augmented streams: nothing of a document is lost, and neither ranks, threads, filters nor restarts change a token."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
from gristmill.testing import tiny_store
from gristmill.tokenize.tokenizer import load_tokenizer

from .conftest import Files, assert_equal, bytes_stream, copied, joined, taken

EOS, PRE, MID, SUF, MASK, FIRST = 256, 300, 301, 302, 303, 400
IDS = {"prefix": PRE, "middle": MID, "suffix": SUF}
SENTINELS = range(FIRST, FIRST + 20)
CUTS = ("chunk", "pack", "pad")
KEYS = ("labels", "loss_mask", "doc_ids", "position_ids", "attention_mask")
# The bytes of every array of the first four batches: they must never change silently.
GOLDEN = {
    "fim": "25be5a9ccb5fb7fc9434c5e96ede084e",
    "characters": "66a234c072cec10a2db34c6213890abe",
    "spans": "777f387fb088f5ac01ad7bdd11e8be73",
    "mask": "d7768899aba601a874d715879e76ce76",
    "noise": "cd3690ee3e5f659f256f682b6b636c30",
}
AUGMENT: dict[str, list[Any]] = {
    "fim": [gm.FIM(rate=0.6, **IDS)],
    "characters": [gm.FIM(rate=0.6, level="character", **IDS)],
    "spans": [gm.SpanCorruption(rate=0.8, density=0.3, sentinels=SENTINELS)],
    "mask": [gm.FIM(rate=0.5, **IDS), gm.Mask(rate=0.3, token=MASK)],
    "noise": [gm.Noise(rate=0.3)],
}


def documents_of(folder: Path) -> list[str]:
    return [json.loads(line)["text"] for path in sorted(folder.glob("*.jsonl")) for line in path.open()]


def served(batches: Any) -> list[list[int]]:
    """The documents of rows that hold whole ones, without EOS."""
    found = []
    for batch in batches:
        for ids, kept in zip(batch["input_ids"], batch["attention_mask"], strict=True):
            line = ids[kept > 0]
            found += [part[part != EOS].tolist() for part in np.split(line, np.flatnonzero(line == EOS) + 1)]
    return [each for each in found if each]


def put_back(tokens: list[int]) -> tuple[list[list[int]], str]:
    """Prefix, middle and suffix of a rearranged document, and how it was."""
    if tokens[0] != PRE:
        return [tokens], "left"
    mid = tokens.index(MID)
    if tokens[1] == SUF:
        return [tokens[mid + 1 :], tokens[2:mid]], "SPM"
    suf = tokens.index(SUF)
    return [tokens[1:suf], tokens[mid + 1 :], tokens[suf + 1 : mid]], "PSM"


def whole_epoch(stream: Any, lanes: int = 3, **options: Any) -> Any:
    return copied(iter(stream.batch(lanes, seed=4, epochs=1, **options).loader(keys=KEYS)))


@pytest.mark.parametrize("level", ["token", "character"])
def test_fim_loses_nothing_of_documents_that_fit_a_row(files: Files, level: str) -> None:
    folder = files(count=2, rows=40, longest=40)
    stream = bytes_stream(folder, "pack", 512).augment(gm.FIM(rate=0.7, level=level, **IDS))
    back = [put_back(tokens) for tokens in served(whole_epoch(stream))]
    texts = [bytes(token for part in parts for token in part).decode() for parts, _ in back]
    assert Counter(texts) == Counter(documents_of(folder))
    kinds = Counter(kind for _, kind in back)
    assert min(kinds["left"], kinds["PSM"], kinds["SPM"]) > 10


def test_by_characters_the_parts_are_cut_anywhere_and_tokenised_by_themselves(tmp_path: Path) -> None:
    texts = [f"Grüße {i}: straßenbahnhaltestelle 日本語 unbelievably 🎉 " * 2 for i in range(60)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    tokenizer = load_tokenizer("gpt2")
    ids = {"prefix": 50257, "middle": 50258, "suffix": 50259}
    stream = gm.stream(str(tmp_path / "a.jsonl")).tokenize(tokenizer).augment(
        gm.FIM(rate=1.0, spm_rate=0.0, level="character", **ids)).pad(400)  # fmt: skip
    found, split = [], 0
    for batch in whole_epoch(stream, lanes=1, shuffle=False):
        line = batch["input_ids"][0][batch["attention_mask"][0] > 0].tolist()
        suf, mid = line.index(50259), line.index(50258)
        parts = [tokenizer.decode(part) for part in (line[1:suf], line[mid + 1 : -1], line[suf + 1 : mid])]
        assert line[0] == 50257 and line[-1] == tokenizer.eos
        offsets = tokenizer.encode_batch(["".join(parts)])[1]
        split += len(line) - 4 > offsets[-1]  # a word that was cut has more tokens than it had
        for part, own in zip(parts, (line[1:suf], line[mid + 1 : -1], line[suf + 1 : mid]), strict=True):
            assert tokenizer.encode_batch([part])[0].tolist() == own
        found.append("".join(parts))
    assert found == texts and split > 30


@pytest.mark.parametrize("level", ["token", "character"])
@pytest.mark.parametrize("name", ["fim", "spans"])
def test_a_document_longer_than_a_row_is_rearranged_row_by_row(files: Files, level: str, name: str) -> None:
    folder = files(count=1, rows=12, longest=80)
    made = gm.FIM(rate=0.8, level=level, **IDS) if name == "fim" else AUGMENT["spans"][0]
    batches = whole_epoch(bytes_stream(folder, "pack", 32).augment(made))
    tokens = np.concatenate([batch["input_ids"][batch["attention_mask"] > 0] for batch in batches])
    expected = Counter(byte for text in documents_of(folder) for byte in text.encode())
    assert Counter(tokens[tokens < 256].tolist()) == expected and (tokens == EOS).sum() == 12
    for row in np.concatenate([batch["input_ids"] for batch in batches]):
        ids, counts = np.unique(row[row >= PRE], return_counts=True)
        assert len(set(counts.tolist())) <= 1 or name == "spans"
        assert ids.tolist() in ([], [PRE, MID, SUF]) if name == "fim" else (counts % 2 == 0).all()


@pytest.mark.parametrize("cut", CUTS)
def test_spans_come_after_what_is_left_of_a_document_and_are_all_that_is_asked_for(files: Files, cut: str) -> None:
    folder = files(count=1, rows=40, longest=20)
    batches = whole_epoch(bytes_stream(folder, cut, 256).augment(*AUGMENT["spans"]), lanes=1)
    found = []
    lines = {key: np.concatenate([batch[key][0] for batch in batches]) for key in ("input_ids", "loss_mask", "labels")}
    if cut != "chunk":
        followed = lines["labels"][:-1] != -100
        assert np.array_equal(lines["labels"][:-1][followed], lines["input_ids"][1:][followed])
    for part in np.split(np.arange(len(lines["input_ids"])), np.flatnonzero(lines["input_ids"] == EOS) + 1):
        tokens, mask = lines["input_ids"][part].tolist()[:-1], lines["loss_mask"][part].tolist()[:-1]
        if not tokens or not any(token >= FIRST for token in tokens):
            found.append(tokens)
            continue
        targets = len(tokens) - 1 - tokens[::-1].index(FIRST)
        assert not any(mask[:targets]) and all(mask[targets:])
        found.append(restored(tokens[:targets], tokens[targets:]))
    texts = Counter(bytes(tokens).decode() for tokens in found if tokens)
    assert texts == Counter(documents_of(folder))


def restored(inputs: list[int], targets: list[int]) -> list[int]:
    spans: dict[int, list[int]] = {}
    for token in targets:
        if token >= FIRST:
            spans[token] = []
        else:
            spans[max(spans)].append(token)
    return [token for each in inputs for token in (spans[each] if each >= FIRST else [each])]


@pytest.mark.parametrize("cut", CUTS)
def test_masks_and_noise_change_rows_as_they_are_without_them(files: Files, cut: str) -> None:
    folder = files(count=2, rows=30, longest=20)
    plain = whole_epoch(bytes_stream(folder, cut, 64))
    masked = whole_epoch(bytes_stream(folder, cut, 64).augment(gm.Mask(rate=0.3, token=MASK)))
    blurred = whole_epoch(bytes_stream(folder, cut, 64).augment(gm.Noise(rate=0.3)))
    for was, hidden, noisy in zip(plain, masked, blurred, strict=True):
        chosen = hidden["labels"] != -100
        assert np.array_equal(hidden["labels"][chosen], was["input_ids"][chosen])
        assert np.array_equal(hidden["input_ids"][~chosen], was["input_ids"][~chosen])
        assert np.array_equal(chosen, hidden["loss_mask"]) and not (was["input_ids"][chosen] == EOS).any()
        assert np.array_equal(noisy["labels"], was["labels"]) and np.array_equal(noisy["loss_mask"], was["loss_mask"])
        assert np.array_equal(noisy["input_ids"] == EOS, was["input_ids"] == EOS)
    changed = np.mean([(a["input_ids"] != b["input_ids"]).mean() for a, b in zip(plain, blurred, strict=True)])
    assert 0.1 < changed < 0.35


def test_sentinels_of_fim_are_neither_hidden_nor_blurred(files: Files) -> None:
    folder = files(count=1, rows=30, longest=20)
    fim, plain = gm.FIM(rate=1.0, **IDS), bytes_stream(folder, "pack", 128)
    for last in (gm.Mask(rate=0.9, token=MASK), gm.Noise(rate=0.9)):
        for one, other in zip(*(whole_epoch(plain.augment(*each)) for each in ([fim], [fim, last])), strict=True):
            assert np.array_equal(one["input_ids"] >= PRE, np.isin(other["input_ids"], [PRE, MID, SUF]))


def twice_or_nothing(tokens: Any, rng: Any) -> Any:
    return np.tile(tokens, 2) if rng.random() < 0.5 else []


def test_a_function_may_change_the_length_of_documents_and_drop_them(files: Files) -> None:
    folder = files(count=1, rows=40, longest=8)
    stream = bytes_stream(folder, "pack", 256).augment(twice_or_nothing).batch(2, epochs=1)
    loader = stream.loader(keys="attention_mask", examples=40)
    found = [bytes(tokens).decode() for tokens in served(copied(iter(loader)))]
    stats: Any = loader.stats()
    gone = stats["dropped"]["tokenize"]["no_tokens"]
    assert 5 < gone < 35 and all(text[: len(text) // 2] * 2 == text for text in found)
    kept, dropped = {text[: len(text) // 2] for text in found}, {str(each["text"]) for each in loader.dropped()}
    written = [json.loads(line)["text"] for path in folder.iterdir() for line in path.read_text().splitlines()]
    assert sorted([*kept, *dropped]) == sorted(written) and len(dropped) == gone


def rich(folder: Path, other: Path) -> Any:
    """A mix with a filter, a function, and other rates of fill-in-the-middle."""
    one = gm.stream(f"{folder}/*.jsonl").filter("length", min_chars=30).map(_upper).tokenize("byte")
    two = gm.stream(f"{other}/*.jsonl").tokenize("byte")
    streams = {"code": one.augment(gm.FIM(rate=0.7, level="character", **IDS)).pack(48),
               "web": two.augment(gm.FIM(rate=0.3, **IDS)).pack(48)}  # fmt: skip
    return gm.mix(streams, {"code": 0.6, "web": 0.4}).batch(12, seed=3)


def _upper(document: dict[str, Any]) -> str:
    return str(document["text"]).upper()


def test_a_mix_with_fim_goes_on_from_every_step_on_any_number_of_ranks_and_threads(files: Files) -> None:
    """Three times running: each resumes where the one before it has ended, with other ranks and threads."""
    stream = rich(files(2, 30, 20, folder="a"), files(2, 30, 20, folder="b", seed=9))
    loader = stream.loader(keys=KEYS, threads=0)
    whole, states = [], [loader.state_dict()]
    for batch in itertools.islice(loader, 24):
        whole += copied(iter([batch]))
        states.append(loader.state_dict())
    assert any((batch["input_ids"] == PRE).any() for batch in whole)
    for step in range(18):
        state: Any = states[step]
        for again in range(3):
            world, threads = 1 + (step + again) % 4, (0, 1, 2, 4)[(step + 2 * again) % 4]
            loaders = [stream.loader(rank, world, keys=KEYS, threads=threads) for rank in range(world)]
            for each in loaders:
                each.load_state_dict(json.loads(json.dumps(state)))
            parts = [taken(each, 2) for each in loaders]
            at = step + 2 * again
            assert_equal([joined(batches) for batches in zip(*parts, strict=True)], whole[at : at + 2])
            state = gm.merge_states([each.state_dict() for each in loaders])
            assert state == states[at + 2]
            for each in loaders:
                each.close(wait=True)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", AUGMENT)
def test_every_augmentation_goes_on_from_every_step(files: Files, cut: str, name: str) -> None:
    stream = bytes_stream(files(2, 20, 12), cut, 40).augment(*AUGMENT[name]).batch(6, seed=2)
    loader = stream.loader(keys=KEYS, threads=0)
    whole, states = [], [loader.state_dict()]
    for batch in itertools.islice(loader, 12):
        whole += copied(iter([batch]))
        states.append(loader.state_dict())
    for step in range(10):
        world = 1 + step % 3
        loaders = [stream.loader(rank, world, keys=KEYS, threads=step % 2) for rank in range(world)]
        for each in loaders:
            each.load_state_dict(states[step])
        parts = [taken(each, 2) for each in loaders]
        assert_equal([joined(batches) for batches in zip(*parts, strict=True)], whole[step : step + 2])
        for each in loaders:
            each.close(wait=True)


def test_processes_of_its_own_make_the_same_blocks(files: Files) -> None:
    fim, mask = gm.FIM(rate=0.7, level="character", **IDS), gm.Mask(rate=0.2, token=MASK)
    stream = bytes_stream(files(2, 20, 12), "pack", 40).augment(fim, mask).batch(6, seed=2)
    with stream.loader(keys=KEYS, workers=2) as loader:
        assert_equal(taken(loader, 6), taken(stream.loader(keys=KEYS, threads=0), 6))


@settings(max_examples=25)
@given(keep=st.sets(st.integers(0, 19), min_size=1), seed=st.integers(0, 2**32), lanes=st.integers(1, 5))
def test_what_becomes_of_a_document_depends_on_no_other(
    tmp_path_factory: pytest.TempPathFactory, keep: set[int], seed: int, lanes: int
) -> None:
    """Whatever filters leave of its neighbours, and whatever it is packed with."""
    folder = tmp_path_factory.mktemp("stream")
    rows = [{"id": str(i), "text": f"<{i}> " + "word " * (i % 7)} for i in range(20)]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = gm.stream(str(folder / "a.jsonl"))

    def found(stream: Any) -> Counter[tuple[int, ...]]:
        made = (
            stream.tokenize("byte").augment(gm.FIM(rate=0.7, **IDS), _turned).pack(64).batch(lanes, seed=seed, epochs=1)
        )
        return Counter(map(tuple, served(copied(iter(made.loader(keys="attention_mask", threads=0))))))

    some, everything = found(texts.filter(lambda row: int(row["id"]) in keep)), found(texts)
    assert some <= everything and some.total() == len(keep) and everything.total() == 20


def _turned(tokens: Any, rng: Any) -> Any:
    return np.roll(tokens, int(rng.integers(len(tokens))))


def test_each_epoch_and_each_seed_draws_anew(files: Files) -> None:
    stream = bytes_stream(files(1, 10, 8), "pad", 128).augment(gm.FIM(rate=1.0, **IDS))

    def rows(seed: int, epochs: int) -> list[tuple[int, ...]]:
        batches = stream.batch(1, seed=seed, epochs=epochs, shuffle=False).loader(keys="attention_mask")
        return list(map(tuple, served(copied(iter(batches)))))

    first, second = rows(0, 2)[:10], rows(0, 2)[10:]
    assert len(second) == 10 and first != second and first != rows(1, 1) and first == rows(0, 1)


def test_a_state_of_a_stream_with_another_augmentation_is_refused_by_name(files: Files) -> None:
    plain = bytes_stream(files(), "pack", 64)
    streams = [plain, plain.augment(*AUGMENT["fim"]), plain.augment(gm.FIM(rate=0.1, **IDS)), plain.augment(_turned)]
    loaders = [stream.batch(4).loader() for stream in streams]
    assert "augment" not in streams[0].batch(4).parts
    for one, other in itertools.permutations(loaders, 2):
        with pytest.raises(gm.StateError, match="augment differs"):
            one.load_state_dict(other.state_dict())


@pytest.mark.parametrize(("augment", "said"), [
    ([gm.FIM()], "has no token"), ([gm.FIM(rate={"data": 0.5}, **IDS)], "rate must be a number"),
    ([_turned, gm.FIM(level="character", **IDS)], "comes first"), ([3], "none of FIM"),
    ([gm.Noise(), gm.Mask(token=MASK)], "comes last"), ([gm.FIM(prefix=256, middle=1, suffix=2)], "none is EOS"),
])  # fmt: skip
def test_what_cannot_be_is_refused_in_a_sentence(files: Files, augment: Any, said: str) -> None:
    with pytest.raises(gm.ConfigError, match=said):
        bytes_stream(files()).augment(*augment)
    with pytest.raises(gm.ConfigError, match="no tokenizer yet"):
        gm.stream("x").augment(gm.Noise())


def test_streams_of_one_mix_ask_for_tokens_in_one_way(files: Files) -> None:
    one = bytes_stream(files(), "pack", 64)
    masked = one.augment(gm.Mask(rate=0.5, token=MASK))
    with pytest.raises(gm.ConfigError, match="in one way: that of 'b'"):
        gm.mix({"a": one, "b": masked}, {"a": 0.5, "b": 0.5}).batch(4)
    left = one.augment(gm.FIM(rate=0.5, **IDS), gm.Mask(rate=0.0, token=MASK))
    loader = gm.mix({"a": left, "b": masked}, {"a": 0.5, "b": 0.5}).batch(8, seed=1).loader()
    for batch in taken(loader, 4):
        asked = (batch["labels"] != -100).any(axis=1)
        assert not asked[batch["sample_ids"][:, 0] == 0].any() and asked[batch["sample_ids"][:, 0] == 1].all()


@pytest.mark.parametrize("last", [[], [gm.Mask(token=MASK, vocab_size=257)], AUGMENT["spans"]])
def test_stores_in_a_mix_are_augmented_as_in_a_plan_of_their_own(files: Files, tmp_path: Path, last: list[Any]) -> None:
    store, stream = tiny_store(tmp_path / "store"), bytes_stream(files(), "chunk", 64)
    asked = [gm.FIM(rate=1.0, **IDS), *last]
    mixed = gm.mix({"raw": stream.augment(*last) if last else stream, "store": store}, {"raw": 0.5, "store": 0.5},
                   augment=asked).batch(8, seed=1)  # fmt: skip
    options = {"augment": asked}
    plan = gm.Plan({"store": store}, seq_len=64, batch_size=1, seed=1, steps=24, options=options)
    expected = copied(iter(gm.Loader(plan, keys=("labels", "loss_mask"), threads=0)))
    loader = mixed.loader(keys=("labels", "loss_mask"))
    batches = taken(loader, 6)
    stored = [{key: array[row] for key, array in batch.items()} for batch in batches
              for row in np.flatnonzero(batch["sample_ids"][:, 0] == 1)]  # fmt: skip
    assert len(stored) > 15 and loader.stats()["displaced_tokens"]
    for row, alone in zip(stored, expected, strict=False):
        assert all(np.array_equal(row[key], alone[key][0]) for key in ("input_ids", "labels", "loss_mask"))
    again = mixed.loader(keys=("labels", "loss_mask"), threads=0)
    again.load_state_dict(loader.state_dict())
    assert_equal(taken(again, 2), taken(loader, 2))


def test_what_is_done_to_stores_of_a_mix_is_part_of_its_state_and_asks_as_streams_do(
    files: Files, tmp_path: Path
) -> None:
    store, stream = tiny_store(tmp_path / "store"), bytes_stream(files(), "chunk", 64)
    sources, shares, mask = (
        {"raw": stream, "store": store},
        {"raw": 0.5, "store": 0.5},
        gm.Mask(token=MASK, vocab_size=257),
    )
    plain, changed = (gm.mix(sources, shares, augment=each).batch(8).loader() for each in ([], [gm.FIM(**IDS)]))
    with pytest.raises(gm.StateError, match="stores differs"):
        plain.load_state_dict(changed.state_dict())
    with pytest.raises(gm.ConfigError, match="in one way: that of 'store'"):
        gm.mix({**sources, "raw": stream.augment(mask)}, shares).batch(8)
    with pytest.raises(gm.ConfigError, match="in one way: that of 'store'"):
        gm.mix(sources, shares, augment=[mask]).batch(8)
    with pytest.raises(gm.ConfigError, match="for the stores of a mix"):
        gm.mix({"raw": stream}, {"raw": 1}, augment=[mask])


def test_a_function_that_raises_is_named_with_its_document(files: Files) -> None:
    def nervous(tokens: Any, rng: Any) -> Any:
        return tokens if bytes(tokens[:5].tolist()) != b"<1-3>" else 1 // 0

    stream = bytes_stream(files(), "pack", 64).augment(nervous)
    with pytest.raises(gm.ConfigError, match="nervous failed on document '1-3': ZeroDivisionError"):
        list(stream.batch(2, epochs=1))


def test_a_function_that_gives_ids_without_room_is_refused(files: Files) -> None:
    stream = bytes_stream(files(), "pack", 64).augment(lambda tokens, rng: tokens + 70_000)
    with pytest.raises(gm.ConfigError, match="outside the vocabulary"):
        next(iter(stream.batch(2)))


@pytest.mark.parametrize("name", GOLDEN)
def test_the_bytes_of_augmented_batches_are_pinned(tmp_path: Path, name: str) -> None:
    rows = [{"id": str(i), "text": f"Document {i}: " + "wörd " * (i % 9)} for i in range(40)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    stream = gm.stream(str(tmp_path / "a.jsonl")).tokenize("byte").augment(*AUGMENT[name]).pack(48).batch(4, seed=7)
    digest = hashlib.sha256()
    for batch in taken(stream.loader(keys=KEYS), 4):
        for key in sorted(batch):
            digest.update(key.encode() + np.ascontiguousarray(batch[key]).tobytes())
    assert digest.hexdigest()[:32] == GOLDEN[name]
