"""Augmentations as options: their spellings, their JSON, what cannot go together, and the ids of their tokens."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.order.augment import as_augmentations, known
from gristmill.testing import tiny_store

IDS = {"prefix": 300, "middle": 301, "suffix": 302}
EACH = [
    gm.FIM(rate={"web": 0.5}, spm_rate=0.25, **IDS), gm.SpanCorruption(density=0.3, sentinels=range(300, 310)),
    gm.Mask(token=300, vocab_size=257), gm.Noise(rate=0.2, vocab_size=257),
]  # fmt: skip


@dataclass
class Words:
    """A vocabulary of a few words."""

    eos: int | None = 256
    vocab_size: int | None = 257
    words: dict[str, int] = field(default_factory=dict)

    def token_id(self, token: str) -> int | None:
        return self.words.get(token)


def reverse(tokens: Any, rng: Any) -> Any:
    return tokens[::-1]


def plan(tmp_path: Any, *augment: Any, **options: Any) -> gm.Plan:
    store = tiny_store(tmp_path / "web")
    return gm.Plan({"web": store}, seq_len=16, batch_size=4, options={"augment": list(augment), **options})


@pytest.mark.parametrize("augment", [*EACH, reverse], ids=lambda each: type(each).__name__)
def test_a_plan_with_an_augmentation_comes_back_from_its_json(tmp_path: Any, augment: Any) -> None:
    made = plan(tmp_path, augment)
    again = gm.Plan.from_json(made.to_json(), tmp_path_store(tmp_path))
    assert again.options == made.options and again.fingerprint == made.fingerprint
    assert again.to_json() == made.to_json()


def tmp_path_store(tmp_path: Any) -> Any:
    return {"web": tiny_store(tmp_path / "web")}


def test_json_names_each_by_its_word_and_leaves_out_what_is_at_its_default(tmp_path: Any) -> None:
    spelt = json.loads(plan(tmp_path, gm.FIM(**IDS), gm.Noise(vocab_size=257)).to_json())["options"]["augment"]
    assert spelt == [{"fim": IDS}, {"noise": {"vocab_size": 257}}]
    assert "augment" not in plan(tmp_path).to_json()


def test_a_function_is_kept_by_its_name_and_source_and_refused_when_it_has_changed(tmp_path: Any) -> None:
    text = plan(tmp_path, reverse).to_json()
    assert json.loads(text)["options"]["augment"][0]["function"]["path"] == f"{__name__}:reverse"
    changed = json.loads(text)
    changed["options"]["augment"][0]["function"]["source"] = "0" * 32
    del changed["sum"]
    with pytest.raises(gm.ConfigError, match="is not what it was"):
        gm.Plan.from_json(json.dumps(changed), tmp_path_store(tmp_path))
    with pytest.raises(gm.ConfigError, match="top of a module"):
        plan(tmp_path, lambda tokens, rng: tokens).to_json()


def test_the_fingerprint_has_all_that_decides_tokens_and_ids_in_the_place_of_names(tmp_path: Any) -> None:
    prints = {plan(tmp_path, each).fingerprint for each in [*EACH, reverse]}
    prints |= {plan(tmp_path, gm.FIM(rate=rate, **IDS)).fingerprint for rate in (0.25, 0.75)}
    prints |= {plan(tmp_path).fingerprint, plan(tmp_path, reverse, EACH[0]).fingerprint}
    assert len(prints) == 9
    by_source = plan(tmp_path, gm.FIM(rate={"web": 0.25}, **IDS))
    assert by_source.fingerprint == plan(tmp_path, gm.FIM(rate=0.25, **IDS)).fingerprint


def test_a_rate_of_a_source_that_begins_later_is_no_part_of_the_steps_before(tmp_path: Any) -> None:
    def mixed(rate: float) -> gm.Plan:
        stores = {name: tiny_store(tmp_path / name) for name in ("web", "code")}
        phase = gm.Phase(3, weights={"web": 0.5, "code": 0.5})
        options = {"phases": [phase], "augment": [gm.FIM(rate={"web": 0.5, "code": rate}, **IDS)]}
        return gm.Plan(stores, {"web": 1}, seq_len=16, batch_size=4, steps=9, options=options)

    assert mixed(0.1).prefix_fingerprint(3) == mixed(0.9).prefix_fingerprint(3)
    assert mixed(0.1).prefix_fingerprint(4) != mixed(0.9).prefix_fingerprint(4)


def test_names_of_tokens_are_looked_up_in_every_source() -> None:
    words = {"<|fim_prefix|>": 1, "<|fim_middle|>": 2, "<|fim_suffix|>": 3}
    [fim] = known([gm.FIM(rate={"code": 1})], {"web": Words(words=words), "code": Words(words=words)})
    assert fim.special == (1, 2, 3) and fim.rate == {"web": 0.0, "code": 1.0}
    with pytest.raises(gm.ConfigError, match=r"FIM: .*'code' has no token '<\|fim_prefix\|>'.*give an id"):
        known([gm.FIM()], {"web": Words(words=words), "code": Words()})
    other = Words(words={**words, "<|fim_suffix|>": 4})
    with pytest.raises(gm.ConfigError, match="other ids in other sources"):
        known([gm.FIM()], {"web": Words(words=words), "code": other})


def test_the_tokenizer_that_a_store_keeps_knows_its_tokens_by_name(tmp_path: Any) -> None:
    (tmp_path / "a.txt").write_text("Some text. " * 200)
    source = {"name": "web", "paths": str(tmp_path / "a.txt")}
    gm.prepare({"out": str(tmp_path / "s"), "sources": [source], "tokenizer": "byte"}, progress=False)
    store = gm.open(tmp_path / "s")
    assert store.vocab_size == 257 and store.token_id("<|endoftext|>") == 256 and store.token_id("[MASK]") is None
    with pytest.raises(gm.ConfigError, match=r"no token '\[MASK\]'"):
        gm.Plan(store, seq_len=8, batch_size=2, options={"augment": [gm.Mask()]})
    made = gm.Plan(store, seq_len=8, batch_size=2, options={"augment": [gm.Mask(token=257)]})
    assert made.augmentations[0].vocab_size == 257


@pytest.mark.parametrize(("augment", "said"), [
    ([gm.Mask(token=300), gm.Noise()], "comes last"), ([EACH[1], EACH[0]], "comes last"),
    ([gm.FIM(rate={"wbe": 0.5}, **IDS)], "unknown source 'wbe'.*'web'"), ([gm.FIM()], "no token"),
    ([gm.FIM(prefix=1, middle=1, suffix=2)], "each is another one"),
    ([gm.FIM(prefix=256, middle=1, suffix=2)], "none is EOS"), ([gm.Noise()], "vocab_size="),
    ([gm.FIM(level="character", **IDS)], "holds tokens"), ([3], "none of FIM"), ("fim", "list"),
    ([gm.FIM], "no function"),
    ([{"fimm": {}}], "'fim'"), ([{"fim": {"rat": 1}}], "'rat'"), ([{"function": {}}], "path and source"),
])  # fmt: skip
def test_what_cannot_be_is_refused_in_a_sentence(tmp_path: Any, augment: Any, said: str) -> None:
    with pytest.raises(gm.ConfigError, match=said):
        gm.Plan({"web": tiny_store(tmp_path)}, seq_len=16, batch_size=4, options={"augment": augment})


@pytest.mark.parametrize(("made", "said"), [
    (lambda: gm.FIM(rate=1.5), "rate"), (lambda: gm.FIM(rate={"a": -1}), "rate"),
    (lambda: gm.FIM(spm_rate=2), "spm_rate"),
    (lambda: gm.FIM(level="word"), "level"), (lambda: gm.FIM(prefix=-1), "prefix"),
    (lambda: gm.Mask(masked=0.8, random=0.3), "together at most 1"), (lambda: gm.Mask(token=None), "token"),  # type: ignore[arg-type]
    (lambda: gm.SpanCorruption(sentinels=[]), "sentinels"), (lambda: gm.SpanCorruption(sentinels="ab"), "sentinels"),
    (lambda: gm.SpanCorruption(density=1.0), "density"), (lambda: gm.SpanCorruption(mean_length=0.5), "mean_length"),
    (lambda: gm.SpanCorruption(sentinels=np.arange(300, 400)), "sentinels is a list"),  # type: ignore[arg-type]
    (lambda: gm.Mask(token="\ud800"), "surrogate"), (lambda: gm.SpanCorruption(sentinels=["\ud800"]), "sentinels"),
    (lambda: gm.Noise(vocab_size=1), "vocab_size"),
])  # fmt: skip
def test_values_that_mean_nothing_are_refused(made: Any, said: str) -> None:
    with pytest.raises(gm.ConfigError, match=said):
        made()


def test_foreign_files_without_eos_cannot_be_augmented(tmp_path: Any) -> None:
    np.arange(2000, dtype=np.uint16).tofile(tmp_path / "a.bin")
    with pytest.raises(gm.ConfigError, match="eos="):
        gm.Plan(tmp_path / "a.bin", seq_len=8, batch_size=2, options={"augment": [gm.Noise(vocab_size=9)]})


def test_nothing_is_an_augmentation_too() -> None:
    assert as_augmentations([]) == () and known((), {"web": Words(eos=None)}) == ()
