"""Streams from a bucket: the batches of the same files on disk, resumed, killed, under faults, and what they fetch."""

from __future__ import annotations

import io
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import webdataset
from torch.utils.data import DataLoader

import gristmill as gm
from gristmill.adapters.streams import StreamDataset
from gristmill.places.door import place_at
from gristmill.places.retrying import Patience
from gristmill.places.storage import VARIABLE
from gristmill.places.traffic import traffic

KINDS, TABLES = ("jsonl", "tar", "tar.gz"), ("arrow", "parquet")
FAULTS = ("500", "503", "cut", "lost", "half", "shorter", "longer", "elsewhere")


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same 600 documents in five formats, 1.3 MB each, a folder a format."""
    root, rng = tmp_path_factory.mktemp("raw"), np.random.default_rng(0)
    for kind in (*KINDS, *TABLES):
        (root / kind).mkdir()
    for i in range(3):
        texts = [f"<{i}-{j}> " + "word " * length for j, length in enumerate(rng.integers(50, 800, 200).tolist())]
        rows = [{"id": f"{i}-{j}", "text": text} for j, text in enumerate(texts)]
        (root / "jsonl" / f"{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        table = pa.Table.from_pylist(rows)
        pq.write_table(table, root / "parquet" / f"{i}.parquet", row_group_size=20, compression="none")
        with pa.ipc.new_stream(str(root / "arrow" / f"{i}.arrow"), table.schema) as writer:
            writer.write_table(table, max_chunksize=20)
        for kind in KINDS[1:]:
            with tarfile.open(root / kind / f"{i}.{kind}", "w:gz" if kind.endswith("gz") else "w") as tar:
                for j, text in enumerate(texts):
                    member = tarfile.TarInfo(f"{j:04d}.txt")
                    member.size = len(text)
                    tar.addfile(member, io.BytesIO(text.encode()))
    return root


@pytest.fixture(scope="module")
def there(raw: Path, upload: Callable[[Path, str], str]) -> str:
    return upload(raw, "streams")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits before a request is made again."""
    monkeypatch.setattr(Patience, "wait", lambda self, tried: 0.0)


def stream(root: Path | str, kind: str, lanes: int = 6, fim: bool = False) -> Any:
    made = gm.stream(f"{root}/{kind}/{{0..2}}.{kind}").tokenize("byte").pack(512)
    made = made.augment(gm.FIM(rate=0.5, prefix=253, middle=254, suffix=255)) if fim else made
    return made.batch(lanes, seed=1)


def served(loader: Any, count: int) -> list[Any]:
    found = iter(loader)
    batches = [{key: array.copy() for key, array in next(found).items()} for _ in range(count)]
    loader.close(wait=True)
    return batches


def assert_equal(one: list[Any], other: list[Any]) -> None:
    assert len(one) == len(other)
    assert all(np.array_equal(a[key], b[key]) for a, b in zip(one, other, strict=True) for key in a)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_those_of_the_files_on_disk_and_states_go_from_one_to_the_other(
    raw: Path, there: str, proxy: Any, kind: str
) -> None:
    here, remote = stream(raw, kind), stream(there, kind)
    assert here.fingerprint == remote.fingerprint
    expected = served(here.loader(), 60)
    for world in (1, 2, 3):
        loaders = [remote.loader(rank, world) for rank in range(world)]
        found = [served(each, 20) for each in loaders]
        for rank in range(world):
            assert_equal(
                found[rank], [{key: array[rank::world] for key, array in batch.items()} for batch in expected[:20]]
            )
        state = gm.merge_states([each.state_dict() for each in loaders])
        for again in (here.loader(), remote.loader(threads=0)):
            again.load_state_dict(state)
            assert_equal(served(again, 40), expected[20:])


@pytest.mark.parametrize("kind", KINDS)
def test_faults_that_pass_change_no_batch(raw: Path, there: str, proxy: Any, at_once: None, kind: str) -> None:
    expected = served(stream(raw, kind, fim=True).loader(), 60)
    rng = random.Random(5)
    drawn = [rng.choice(FAULTS) if rng.random() < 0.2 else None for _ in range(2000)]
    proxy.begin(lambda number, method: drawn[number % 2000])
    loader = stream(there, kind, fim=True).loader()
    found = served(loader, 30)
    again = stream(there, kind, fim=True).loader()
    again.load_state_dict(loader.state_dict())
    found += served(again, 30)
    assert_equal(found, expected)
    assert proxy.injected.total() > 5


def test_a_server_that_is_gone_is_a_clear_error_and_the_loader_goes_on_when_it_is_back(
    raw: Path, there: str, proxy: Any, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = served(stream(raw, "tar").loader(threads=0), 40)
    loader = stream(there, "tar").loader(threads=0)
    found, batches = [], iter(loader)
    found += [{key: array.copy() for key, array in next(batches).items()} for _ in range(10)]
    state = loader.state_dict()
    monkeypatch.setenv(VARIABLE, '{"s3://corpus": {"tries": 4}}')  # by default it is asked for two minutes
    proxy.begin(lambda number, method: "500")
    broken = stream(there, "tar")
    with pytest.raises(gm.GristmillError, match="s3://corpus/streams/tar"):
        served(broken.loader(threads=0), 1)
    proxy.begin()
    loader.load_state_dict(state)
    found += served(loader, 30)
    assert_equal(found, expected)


def test_objects_that_are_no_tars_or_break_off_are_named(
    raw: Path, tmp_path: Path, proxy: Any, upload: Callable[[Path, str], str]
) -> None:
    (tmp_path / "0.tar").write_bytes((raw / "tar" / "0.tar").read_bytes()[:200_000])
    (tmp_path / "1.tar").write_bytes((raw / "tar" / "1.tar").read_bytes())
    where = upload(tmp_path, "streams/broken")
    made = gm.stream(f"{where}/*.tar").tokenize("byte").pack(512).batch(2, epochs=1)
    with pytest.raises(gm.SourceError, match=r"s3://corpus/streams/broken/0.tar is damaged, cut off or no tar"):
        list(made)
    loader = gm.stream(f"{where}/*.tar", on_error="skip").tokenize("byte").pack(512).batch(2, epochs=1).loader()
    list(loader)
    assert loader.stats()["unreadable"] == 1 and loader.stats()["after"]["read"][0] > 200


@pytest.mark.parametrize("kind", [*KINDS[:2], "arrow"])
def test_an_epoch_fetches_little_more_than_the_files(there: str, raw: Path, proxy: Any, kind: str) -> None:
    total = sum(path.stat().st_size for path in (raw / kind).iterdir())
    made = gm.stream(f"{there}/{kind}").tokenize("byte").pack(512).batch(2, seed=1, epochs=1)
    list(made)  # tars that are cut are looked through once, as are tables
    before = traffic.fetched_bytes
    list(made)
    assert (traffic.fetched_bytes - before) < (1.3 if kind == "arrow" else 1.6) * total


@pytest.mark.parametrize("kind", TABLES)
def test_tables_in_a_bucket_give_the_batches_of_those_on_disk(raw: Path, there: str, proxy: Any, kind: str) -> None:
    assert_equal(served(stream(there, kind).loader(threads=2), 60), served(stream(raw, kind).loader(), 60))


def test_a_folder_may_be_named_with_a_slash_behind_it(there: str, proxy: Any) -> None:
    named, slashed = (
        gm.stream(path).tokenize("byte").pack(64).batch(4) for path in (f"{there}/jsonl", f"{there}/jsonl//")
    )
    assert named.fingerprint == slashed.fingerprint


def test_a_file_is_asked_for_its_size_and_kind_once_and_a_unit_is_one_request(
    raw: Path, there: str, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gristmill.sources.lines._BEYOND", 1 << 13)  # no document of these is longer
    made = gm.stream(f"{there}/jsonl").tokenize("byte").pack(512).batch(2, seed=1, epochs=3)
    with made.loader(threads=0) as loader:
        proxy.begin()
        served_rows = sum(len(batch["input_ids"]) for batch in loader)
    asked = [request for request in proxy.requests if ".jsonl" in request]
    files, units = 3, len(made.units[0])
    assert units > 2 * files and served_rows > 1000
    assert len(asked) == files + 3 * units and all(request.startswith("GET") for request in asked)


def test_units_are_asked_for_before_their_rows_come_to_them(raw: Path, there: str, proxy: Any) -> None:
    made = gm.stream(f"{there}/jsonl").tokenize("byte").pack(512).batch(6, seed=1)
    with made.loader(threads=0) as loader:
        proxy.begin()
        next(iter(loader))
        until = time.monotonic() + 60
        while len(proxy.requests) < 2 * 6 and time.monotonic() < until:
            time.sleep(0.01)
    assert len(proxy.requests) >= 2 * 6  # of each row the unit that it reads, and the next one


@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_stream_asks_of_a_bucket_is_told_whoever_asks(raw: Path, there: str, proxy: Any, workers: int) -> None:
    total = sum(path.stat().st_size for path in (raw / "jsonl").iterdir())
    with gm.stream(f"{there}/jsonl").tokenize("byte").pack(512).batch(2, epochs=1).loader(workers=workers) as loader:
        proxy.begin()
        list(loader)
        told = loader.stats()
    assert told["requests"] == len(proxy.requests) > 3 and total < told["fetched_bytes"] < 1.6 * total
    assert "requests" not in gm.stream(f"{raw}/jsonl").tokenize("byte").pack(512).batch(2).loader().stats()


def test_a_file_that_is_replaced_while_a_stream_reads_it_is_told(
    raw: Path, tmp_path: Path, proxy: Any, upload: Callable[[Path, str], str]
) -> None:
    data = (raw / "jsonl" / "0.jsonl").read_bytes()
    (tmp_path / "0.jsonl").write_bytes(data)
    where = upload(tmp_path, "streams/replaced")
    with gm.stream(f"{where}/0.jsonl").tokenize("byte").pack(512).batch(1, seed=1).loader(threads=0) as loader:
        batches = iter(loader)
        next(batches)
        (tmp_path / "0.jsonl").write_bytes(data.replace(b"word", b"wort"))
        upload(tmp_path, "streams/replaced")
        with pytest.raises(gm.SourceError, match=r"streams/replaced/0.jsonl cannot be read \(it was replaced while"):
            list(itertools.islice(batches, 10_000))


@pytest.fixture(scope="module")
def kept(raw: Path, tmp_path_factory: pytest.TempPathFactory, upload: Callable[[Path, str], str]) -> tuple[Path, str]:
    """A store of 2 million tokens on disk, and the same one in the bucket."""
    folder = tmp_path_factory.mktemp("kept")
    recipe = {"out": str(folder), "sources": [{"name": "data", "paths": [str(raw / "jsonl")]}], "tokenizer": "byte",
              "clean": None, "dedup": [], "store": {"val_fraction": 0, "tokens_per_shard": 500_000}}  # fmt: skip
    gm.prepare(recipe, progress=False)
    return folder, upload(folder, "streams/kept")


def mixed(raw: Path, store: Path | str, locality: Any) -> Any:
    made = gm.stream(f"{raw}/jsonl/*.jsonl").tokenize("byte").chunk(512)
    opened = gm.open(f"{store}/train")
    return gm.mix({"raw": made, "kept": opened}, {"raw": 0.5, "kept": 0.5}, locality=locality).batch(8, seed=1)


@pytest.mark.parametrize("locality", [None, {"block": 32, "window": 4}])
@pytest.mark.filterwarnings("ignore:This plan shuffles over all")
def test_a_mix_with_a_store_of_the_bucket_gives_the_batches_of_one_with_a_store_on_disk(
    raw: Path, kept: tuple[Path, str], proxy: Any, locality: Any
) -> None:
    here, there = (mixed(raw, store, locality) for store in kept)
    expected = served(here.loader(), 60)
    assert_equal(served(there.loader(threads=0), 60), expected)
    loaders = [there.loader(rank, 2) for rank in range(2)]
    found = [served(each, 20) for each in loaders]
    assert_equal([{key: np.stack([a[key], b[key]], 1).reshape(8, -1) for key in a}
                  for a, b in zip(*found, strict=True)], expected[:20])  # fmt: skip
    again = there.loader(workers=1, threads=0)
    again.load_state_dict(gm.merge_states([each.state_dict() for each in loaders]))
    assert_equal(served(again, 40), expected[20:])


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_worker_processes_fetch_what_a_mix_reads_for_themselves(
    raw: Path, kept: tuple[Path, str], proxy: Any, workers: int
) -> None:
    here, there = (mixed(raw, store, {"block": 32, "window": 4}) for store in kept)
    expected = served(here.loader(), 30)
    assert_equal(served(there.loader(threads=1), 3), expected[:3])  # with threads, which a fork does not take along
    loader = DataLoader(StreamDataset(there, threads=1), batch_size=None, num_workers=workers)
    found = [{key: np.asarray(array) for key, array in batch.items()} for batch in itertools.islice(loader, 30)]
    assert_equal(found, expected)


def test_what_a_mix_reads_of_a_store_in_the_bucket_comes_ahead_and_once(
    raw: Path, kept: tuple[Path, str], proxy: Any
) -> None:
    here, there = kept
    total = sum(path.stat().st_size for path in (here / "train").glob("*.bin"))
    with mixed(raw, there, {"block": 32, "window": 4}).loader(threads=0) as loader:
        before, batches = traffic.fetched_bytes, iter(loader)
        next(batches)
        until = time.monotonic() + 60
        while traffic.fetched_bytes - before < total and time.monotonic() < until:
            time.sleep(0.01)
        assert traffic.fetched_bytes - before >= total
        rows = sum(int((batch["sample_ids"][:, 0] == 1).sum()) for batch, _ in zip(batches, range(1100), strict=False))
    assert rows * 1024 > 1.5 * total  # more than an epoch of it
    assert traffic.fetched_bytes - before < 1.2 * total


def test_what_it_costs_to_shuffle_over_all_of_a_store_in_the_bucket_is_said_for_a_mix_too(
    raw: Path, kept: tuple[Path, str], proxy: Any
) -> None:
    with pytest.warns(UserWarning, match=r"locality=Locality\(\), of PlanOptions or of gm.mix"):
        served(mixed(raw, kept[1], None).loader(threads=0), 1)


CODE = """
import json, os, sys, gristmill as gm
address, kept = sys.argv[1:]
loader = gm.stream(f"{address}/tar/*.tar").tokenize("byte").pack(512).batch(6, seed=1).loader()
if os.path.exists(kept):
    loader.load_state_dict(json.load(open(kept)))
for batch in loader:
    print(loader.step - 1, batch["input_ids"].sum(), flush=True)
    with open(kept + ".new", "w") as file:
        json.dump(loader.state_dict(), file)
    os.replace(kept + ".new", kept)
"""


def test_a_process_that_is_killed_again_and_again_serves_the_same_batches(
    there: str, proxy: Any, tmp_path: Path
) -> None:
    expected = [int(batch["input_ids"].sum()) for batch in served(stream(there, "tar").loader(), 40)]
    steps: dict[int, int] = {}
    while len(steps) < 40:
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, there, str(tmp_path / "kept")], stdout=subprocess.PIPE, text=True
        )
        for number, line in enumerate(_lines(process)):
            step, total = map(int, line.split())
            assert steps.setdefault(step, total) == total
            if number == 14:
                os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert [steps[i] for i in range(40)] == expected


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout
    yield from process.stdout


def test_tars_are_written_to_a_bucket(proxy: Any, tmp_path: Path) -> None:
    with gm.ShardWriter("s3://corpus/streams/written/a-%03d.tar", maxcount=40) as shards:
        for i in range(100):
            shards.write({"__key__": f"{i:04d}", "txt": f"text {i}", "json": {"id": str(i)}})
    for i in range(3):
        (tmp_path / f"{i}.tar").write_bytes(place_at(f"s3://corpus/streams/written/a-{i:03d}.tar").read())
    paths = [str(path) for path in sorted(tmp_path.iterdir())]
    assert [sample["__key__"] for sample in webdataset.WebDataset(paths, shardshuffle=False)] == [
        f"{i:04d}" for i in range(100)
    ]
    made = gm.stream("s3://corpus/streams/written/a-{000..002}.tar").tokenize("byte").pad(16).batch(4, epochs=1)
    assert sum(int((batch["input_ids"][:, 0] == ord("t")).sum()) for batch in made) == 100
