"""Near duplicates from texts to evidence."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.curate.dedup import candidates
from gristmill.curate.dedup.near import Near
from gristmill.engine.local import LocalEngine
from gristmill.stages.near import CompareJob, NearSearch
from gristmill.stages.work import perform


def _evidence(search: NearSearch) -> dict[int, tuple[int, float | None]]:
    rows = pq.read_table(list(search.evidence().files)).to_pylist()
    assert [row["doc"] for row in rows] == sorted({row["doc"] for row in rows})
    return {row["doc"]: (row["kept"], row["similarity"]) for row in rows}


@pytest.fixture
def find(make_search: Any, make_batch: Any) -> Any:
    """`find(texts, options, dropped)`: the search among texts in units of 100."""
    runs = iter(range(1000))

    def run(texts: list[str], options: Near, dropped: Any = (), sources: Any = None, priorities: Any = None) -> Any:
        batches = [
            make_batch(texts[i : i + 100], i // 100, sources[i : i + 100] if sources else None)
            for i in range(0, len(texts), 100)
        ]
        return make_search(batches, options, f"work-{next(runs)}", dropped, priorities)

    return run


def _number(position: int) -> int:
    return (position // 100) << 32 | position % 100


def test_planted_duplicates_are_found_and_nothing_else(find: Any, texts_of: Any, edit: Any, jaccard: Any) -> None:
    rng = random.Random(0)
    originals = texts_of(450)
    planned = [0.9, 0.85, 0.8, 0.7, 0.6] * 60
    texts = originals + [edit(originals[i], similarity, rng) for i, similarity in enumerate(planned)]
    evidence = _evidence(find(texts, Near()))
    by_number = {_number(i): i for i in range(len(texts))}
    for doc, (kept, similarity) in evidence.items():
        true = jaccard(texts[by_number[doc]], texts[by_number[kept]])
        assert similarity == true >= 0.8
        assert kept not in evidence
    near = [i for i, similarity in enumerate(planned) if similarity >= 0.85]
    assert all(jaccard(texts[i], texts[450 + i]) >= 0.85 for i in near)
    assert sum(_number(450 + i) in evidence for i in near) >= 0.95 * len(near)


def test_chain_is_cut_by_the_keep_rule(find: Any) -> None:
    words = [f"w{i}" for i in range(120)]
    # Each is near to the next only: a - b - c; the middle one goes, the last one stays.
    chain = [" ".join(words[i : i + 90]) for i in (0, 8, 16)]
    assert _evidence(find(chain, Near(bands=128, rows=1))) == {1: (0, pytest.approx(78 / 94))}


def test_most_similar_kept_one_is_named(find: Any) -> None:
    words = [f"w{i}" for i in range(130)]
    texts = [" ".join(words[i : i + 100]) for i in (0, 24, 8)]
    rows = _evidence(find(texts, Near(threshold=0.7, bands=128, rows=1)))
    assert rows == {2: (0, pytest.approx(88 / 104))}


def test_keep_rules(find: Any) -> None:
    words = [f"w{i}" for i in range(100)]
    texts = [" ".join(words[:n]) for n in (94, 97, 100)]
    sources = ["web", "books", "web"]
    assert sorted(_evidence(find(texts, Near()))) == [1, 2]
    assert sorted(_evidence(find(texts, Near(keep="longest")))) == [0, 1]
    by_source = find(texts, Near(keep="priority"), sources=sources, priorities={"books": 2})
    assert {doc: kept for doc, (kept, _) in _evidence(by_source).items()} == {0: 1, 2: 1}


def test_short_and_empty_texts(find: Any) -> None:
    texts = ["", "?! ...", "", "Two words", "two, WORDS!", "two words more", "...", "漢字", "漢字"]
    assert _evidence(find(texts, Near())) == {4: (3, 1.0), 8: (7, 1.0)}


@pytest.mark.parametrize("verify", [True, False])
def test_texts_without_any_candidates_all_stay(find: Any, verify: bool) -> None:
    assert _evidence(find(["One of a kind.", "Quite another thing."], Near(verify=verify))) == {}


def test_scripts_without_spaces(find: Any, jaccard: Any) -> None:
    import unicodedata

    rng = random.Random(1)
    han = [chr(c) for c in range(0x4E00, 0x9FFF) if unicodedata.category(chr(c)) == "Lo"]
    text = "".join(rng.choices(han, k=400))
    other = text[:200] + "改" + text[201:]
    rows = _evidence(find([text, other, "".join(rng.choices(han, k=400))], Near()))
    assert rows == {1: (0, pytest.approx(jaccard(text, other)))}


def test_documents_already_gone_do_not_count(find: Any, texts_of: Any, tmp_path: Path) -> None:
    (text,) = texts_of(1)
    pq.write_table(pa.table({"doc": pa.array([0, 3], pa.int64())}), tmp_path / "gone.parquet")
    rows = _evidence(find([text, text + " more", text, text], Near(), [tmp_path / "gone.parquet"]))
    assert {doc: kept for doc, (kept, _) in rows.items()} == {2: 1}


def test_crowded_buckets_are_sampled_and_told(find: Any, texts_of: Any, edit: Any) -> None:
    rng = random.Random(2)
    (text,) = texts_of(1)
    texts = [text] + [edit(text, 0.96, rng) for _ in range(250)]
    search = find(texts, Near())
    assert len(_evidence(search)) == 250
    assert search.candidates().rows < 250 * 249 / 2
    assert "more than 100 documents, the largest 2" in search.alarms()[0]
    assert find(texts[:60], Near()).alarms() == []


def test_candidates_stand_without_verification(find: Any, texts_of: Any, edit: Any) -> None:
    rng = random.Random(3)
    originals = texts_of(50)
    rows = _evidence(find(originals + [edit(text, 0.9, rng) for text in originals], Near(verify=False)))
    assert len(rows) >= 45 and {similarity for _, similarity in rows.values()} == {None}


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalEngine]:
    engine = LocalEngine(2, 1 << 30, tmp_path / "local-scratch")
    yield engine
    engine.close()


def test_engines_agree_and_a_killed_run_goes_on(
    make_search: Any, make_batch: Any, texts_of: Any, edit: Any, local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(4)
    originals = texts_of(120)
    texts = originals + [edit(text, rng.choice([0.9, 0.8, 0.7]), rng) for text in originals]
    options = Near(keep="longest", threshold=0.75)
    batches = [make_batch(texts[i : i + 80], i // 80) for i in range(0, 240, 80)]
    whole = _evidence(make_search(batches, options, "inline"))

    monkeypatch.setattr(candidates, "ROWS_A_PASS", 240 * 5)
    calls, parts = 0, 0

    class Dying(LocalEngine):
        def query(self, *given: Any) -> list[Path]:
            nonlocal calls
            calls += 1
            if calls in (3, 9, 22):
                raise KeyboardInterrupt
            return local.query(*given)

        def map(self, function: Any, given: Any) -> Iterator[Any]:
            nonlocal parts
            for result in local.map(function, given):
                parts += function is perform  # all others are looks at the footers of queries
                if function is perform and parts in (5, 6):
                    raise KeyboardInterrupt
                yield result

    for _ in range(10):
        try:
            again = _evidence(make_search(batches, options, "local", by=Dying(2, 1, Path())))
            break
        except KeyboardInterrupt:
            continue
    # 32 bands in 7 passes of three queries, the distinct pairs, who is wanted, the evidence, its largest; three died.
    assert calls == 7 * 3 + 4 + 3
    # Three units are signed and shingled, one part compared and one resolved: what has its marker is not done again,
    # whether or not somebody took its result.
    assert parts <= 3 + 3 + 1 + 1
    assert whole == again and len(again) > 60


def test_what_spark_noted_beside_the_pairs_is_not_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gristmill.stages.near.verified", lambda pairs, *_: pairs)
    pairs = pa.table({"earlier_key": [0], "earlier": [1], "later_key": [0], "later": [2]})
    noted = pairs.replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": "its columns"})
    pq.write_table(noted, tmp_path / "pairs.parquet")
    job = CompareJob(groups=((tmp_path / "pairs.parquet", 0),), candidates="", sets=tmp_path, near=Near(),
                     folder=tmp_path)  # fmt: skip
    assert job() == {"rows": 1}
    assert pq.read_table(job.outputs[0]).schema.metadata is None
