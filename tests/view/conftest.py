"""A small corpus with all that a page must bear, a plan over it, a run of it, and their pages served."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
from view_site import Site, served

HOSTILE = "<script>document.title = 'ran'</script><img src=x onerror=\"document.title = 'ran'\"> \u202eevil\u202c "
PHRASE = "grinds exceedingly small"


def _texts() -> dict[str, str]:
    rng = np.random.default_rng(3)
    words = ["the", "mill", "of", "the", "gods", "that", "slow", "water", "stone", "wheel", "grain", "flour", "sack",
             "day", "and", "night"]  # fmt: skip
    texts = {f"web/{i}": " ".join(rng.choice(words, 60)) + "." for i in range(80)}
    texts["wanted"] = f"{texts['web/0']} It {PHRASE}, they say. {texts['web/1']}"
    texts["hostile"] = HOSTILE + "x" * 1_000_000
    texts["rtl"] = "السلام عليكم ورحمة الله. " * 4 + "日本語 🙂"
    return texts | {f"short/{i}": f"too short {i}" for i in range(5)}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two sources with a rule, its dropped texts kept, and val filled."""
    folder = tmp_path_factory.mktemp("view")
    rows = [{"id": id, "text": text, "url": f"https://example.org/{id}"} for id, text in _texts().items()]
    (folder / "web.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code = [{"id": f"code/{i}", "text": f"def f{i}(x):\n    return x + {i}\n" * 8} for i in range(40)]
    (folder / "code.jsonl").write_text("".join(json.dumps(row) + "\n" for row in code))
    sources = [{"name": "web", "paths": str(folder / "web.jsonl"), "fields": ["url"]},
               {"name": "code", "paths": str(folder / "code.jsonl")}]  # fmt: skip
    recipe = {"out": str(folder / "corpus"), "sources": sources, "tokenizer": "gpt2", "filters": [{"length": {}}],
              "store": {"val_fraction": 0.05}}  # fmt: skip
    gm.prepare(recipe, options={"keep_dropped": True, "workers": 1}, progress=False)
    return folder / "corpus"


@pytest.fixture(scope="session")
def plan(corpus: Path) -> Path:
    """A plan of one pass, one step of it skipped."""
    path = corpus.parent / "plan.json"
    options = {"skip": [[2, 3]]}
    gm.Plan({"corpus": gm.open(corpus)}, seq_len=128, batch_size=20, seed=4, options=options).save(path)
    return path


@pytest.fixture(scope="session")
def run(plan: Path) -> Path:
    """A run of the first steps, with a loss for each row, that of the fourth step high."""
    folder = plan.parent / "run"
    folder.mkdir()
    loader = gm.Loader(gm.load_plan(plan), threads=0)
    loader.record(folder / "served.parquet")
    for number, _ in zip(range(6), loader, strict=False):
        loader.record_loss(np.linspace(2, 3, 20) + (9 if number == 3 else 0))
    loader.close()
    return folder


@pytest.fixture(scope="session")
def store_site(corpus: Path) -> Iterator[Site]:
    with served(corpus) as site:
        yield site


@pytest.fixture(scope="session")
def plan_site(plan: Path) -> Iterator[Site]:
    with served(plan) as site:
        yield site


@pytest.fixture(scope="session")
def run_site(run: Path) -> Iterator[Site]:
    with served(run) as site:
        yield site
