"""A document of noise in a run of train_gpt.py: it is named, left out, and the run goes on without it."""

from __future__ import annotations

import json
import pydoc
import random
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import gristmill as gm
from gristmill.cli import main
from gristmill.figures.served import as_run

NOISE, STEPS = "noise-7", 240
SMALL = ["--n-layer", "1", "--n-head", "2", "--n-embd", "32", "--seq-len", "32", "--batch-size", "8", "--steps", STEPS,
         "--learning-rate", "0.01", "--warmup-steps", "10", "--eval-batches", "0", "--log-interval", "20",
         "--save-interval", "20", "--keep", "50", "--record"]  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real text in documents of 400 characters, and one of 320 random ones among them."""
    folder = tmp_path_factory.mktemp("spikes")
    text = "\n".join(map(pydoc.plain, topics.values()))[:70_000]
    documents = [{"id": f"topic-{i}", "text": text[at : at + 400]} for i, at in enumerate(range(0, len(text), 400))]
    letters = random.Random(7)
    noise = "".join(chr(letters.randrange(0x4E00, 0x9FFF)) for _ in range(110))
    documents.insert(60, {"id": NOISE, "text": noise})
    (folder / "raw.jsonl").write_text("\n".join(map(json.dumps, documents)))
    gm.prepare({"out": str(folder / "corpus"), "tokenizer": "byte", "clean": {"whitespace": False},
                "sources": [{"name": "topics", "paths": [str(folder / "raw.jsonl")]}]}, progress=False)  # fmt: skip
    return folder / "corpus"


@pytest.fixture(scope="module")
def train(load_example: Callable[[str], ModuleType], corpus: Path) -> Callable[..., None]:
    example = load_example("train_gpt")

    def run(*options: object) -> None:
        torch.set_num_threads(1)
        arguments = map(str, (*SMALL, "--dataset-dir", corpus, *options))
        assert example.main(list(arguments)) == 0

    return run


def ask(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    capsys.readouterr()
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_document_of_noise_is_named_first_and_the_run_goes_on_without_it(
    tmp_path: Path, train: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    train("--out-dir", run, "--stop-at", 220)
    found = ask(capsys, "inspect", run, "--spikes")
    assert found["suspects"][0]["doc_id"] == NOISE
    assert "exact" in found["suspects"][0]["passed"]
    first = next(spike for spike in found["spikes"] if spike["of"] == "step")
    last = max(spike["step"] for spike in found["spikes"])
    assert NOISE in {each["doc_id"] for each in first["documents"]}

    batch = ask(capsys, "inspect", run, "--step", first["step"])
    (row,) = (row for row in batch["rows"] if row["row"] == first["rows"][0])
    assert row["loss"] == max(each["loss"] for each in batch["rows"]) and batch["loss"] == pytest.approx(first["loss"])

    begun = as_run(run).served()
    checkpoint = last // 20 * 20
    for later in range(checkpoint + 20, 240, 20):
        (run / f"step-{later:08d}.pt").unlink()
    plan = tmp_path / "plan2.json"
    made = ask(capsys, "inspect", run, "--exclude-doc", NOISE, "--from-step", checkpoint, "--out", plan)
    assert made["checkpoints_up_to"] == checkpoint
    train("--out-dir", run, "--resume", "--plan", plan)

    served = as_run(run).served()
    assert served.step.tolist() == list(range(STEPS)) and served.told.all()
    np.testing.assert_array_equal(served.loss[:checkpoint], begun.loss[:checkpoint])
    assert served.loss[last] < begun.loss[last]
    assert last not in {spike["step"] for spike in ask(capsys, "inspect", run, "--spikes")["spikes"]}
    assert [each.doc for each in gm.load_plan(run / "plan.json").options.exclude] == [NOISE]


def test_a_step_is_skipped_by_the_plan_that_is_written(
    tmp_path: Path, train: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    run, plan = tmp_path / "run", tmp_path / "plan2.json"
    train("--out-dir", run, "--stop-at", 20)
    ask(capsys, "inspect", run, "--exclude-step", 25, "--exclude-step", 26, "--out", plan)
    train("--out-dir", run, "--resume", "--plan", plan)
    assert as_run(run).served().step.tolist() == [*range(25), *range(27, STEPS + 2)]


def test_a_text_without_a_plan_is_not_recorded(
    tmp_path: Path, load_example: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "a.txt"
    text.write_text("text")
    assert load_example("train_gpt").main(["--input-file", str(text), "--record"]) == 2
    assert "--record" in capsys.readouterr().err
