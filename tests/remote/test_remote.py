"""Stores and sources in a bucket of a real S3 server: read like those on disk, and a fault is retried or told."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.cli import main
from gristmill.places import door, errands, storage
from gristmill.places.base import Range
from gristmill.places.remote import Remote

Upload = Callable[[Path, str], str]


@pytest.fixture(scope="module", params=["none", "zstd"])
def stored(
    tmp_path_factory: pytest.TempPathFactory, make_store: Any, upload: Upload, request: pytest.FixtureRequest
) -> tuple[Path, str]:
    """A store on disk and in the bucket, plain and compressed."""
    root = tmp_path_factory.mktemp("stores") / request.param
    documents = [[(7 * i + j) % 1000 for j in range(3000)] for i in range(150)]
    make_store(root, documents, tokens_per_shard=150_000, compression=request.param)
    gm.index(gm.open(root), seq_len=64)
    return root, upload(root, f"stores/{request.param}")


def batches(path: Path | str, cut: str = "chunk", **options: Any) -> Iterator[Any]:
    plan = gm.Plan(gm.open(path), seq_len=64, batch_size=8, steps=60, options={"cut": cut, **options})
    return iter(gm.Loader(plan, keys=("labels", "doc_ids"), threads=2))


@pytest.mark.parametrize("options", [{"cut": cut} for cut in ("chunk", "pack", "pad", "window")] + [
    {"locality": {"block": 16, "window": 8}}
])  # fmt: skip
def test_batches_from_a_bucket_equal_those_from_disk(stored: tuple[Path, str], proxy: Any, options: Any) -> None:
    here, there = stored
    for expected, found in zip(batches(here, **options), batches(there, **options), strict=True):
        assert all(np.array_equal(expected[key], found[key]) for key in expected)


def test_documents_that_were_packed_near_each_other_are_fetched_about_once_an_epoch(
    tmp_path: Path, make_store: Any, upload: Upload, proxy: Any
) -> None:
    rng = np.random.default_rng(2)
    documents = [[int(i) % 1000] * int(length) for i, length in enumerate(rng.integers(20, 900, 4000))]
    here = make_store(tmp_path / "near", documents, tokens_per_shard=10**7)
    gm.index(gm.open(here), 512, range_documents=128)
    there = upload(here, "near-packed")
    near = {"cut": "pack", "locality": {"block": 256, "window": 2}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaders = [gm.Loader(gm.Plan(gm.open(path), seq_len=512, batch_size=8, options=near)) for path in (here, there)]
    with pytest.warns(UserWarning, match=r"from far apart, .* in a request a document\. .*--range-documents 256"):
        gm.Loader(gm.Plan(gm.open(there), seq_len=512, batch_size=8, options={"cut": "pack"}), threads=0)
    served = 0
    for expected, found in zip(*loaders, strict=True):
        assert np.array_equal(expected["input_ids"], found["input_ids"])
        served += 2 * found["input_ids"].size
    assert loaders[1].stats()["fetched_bytes"] < 1.5 * served


def test_a_store_in_a_bucket_is_verified_and_asked(stored: tuple[Path, str], proxy: Any) -> None:
    here, there = (gm.open(path) for path in stored)
    assert gm.verify(stored[1]).whole
    assert there.fingerprint == here.fingerprint and there.locate(["train-7"]) == here.locate(["train-7"])
    plans = [gm.Plan(store, seq_len=64, batch_size=8) for store in (here, there)]
    assert plans[0].trace(3) == plans[1].trace(3) and plans[0].find("train-7") == plans[1].find("train-7")


@pytest.mark.parametrize("fault", ["503", "500", "429", "cut", "half"])
def test_what_may_pass_is_asked_for_again(stored: tuple[Path, str], proxy: Any, fault: str) -> None:
    proxy.begin(lambda number, method: fault if number % 3 == 1 else None)
    found = list(batches(stored[1]))
    proxy.begin()
    assert all(np.array_equal(a["input_ids"], b["input_ids"]) for a, b in zip(batches(stored[0]), found, strict=True))


def test_opening_costs_the_same_few_requests_whatever_the_number_of_shards(
    tmp_path: Path, make_store: Any, upload: Upload, proxy: Any
) -> None:
    documents, asked = [[i % 1000] * 500 for i in range(120)], []
    for tokens_per_shard in (60_000, 1000):
        name = f"opened-{tokens_per_shard}"
        there = upload(make_store(tmp_path / name, documents, tokens_per_shard=tokens_per_shard), name)
        proxy.begin()
        shards = gm.open(there).num_shards
        asked.append(sum("/stores/" not in each for each in proxy.requests))  # where other tests may still read ahead
    assert shards > 50 and asked[0] == asked[1] <= 4


def test_a_bit_that_flips_on_the_wire_is_an_error_that_names_the_shard(stored: tuple[Path, str], proxy: Any) -> None:
    loader = batches(stored[1])
    proxy.begin(lambda number, method: "flip")
    with pytest.raises(gm.StoreError, match=r"s3://corpus/.*shard-0000\d"):
        next(loader)


def test_what_cannot_pass_fails_at_once_in_one_sentence(proxy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(gm.GristmillError, match=r"s3://corpus/nothing does not exist"):
        gm.open("s3://corpus/nothing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    proxy.begin()
    with pytest.raises(gm.GristmillError, match="refuses") as told:
        gm.open("s3://corpus/stores/none")
    assert len(proxy.requests) <= 2
    assert (
        os.environ["AWS_ACCESS_KEY_ID"] not in str(told.value)
        and "another" not in str(told.value)
        and "\n" not in str(told.value)
    )


@pytest.mark.parametrize("given", ["raw", "raw/*.gz", "raw/{0..3}.jsonl.gz", "raw/**/?.jsonl.gz"])
def test_text_in_a_bucket_makes_the_same_store(tmp_path: Path, upload: Upload, proxy: Any, given: str) -> None:
    for i in range(4):
        rows = (json.dumps({"id": f"{i}-{j}", "text": f"text {i} {j} " * 20}) for j in range(40))
        path = tmp_path / "raw" / f"{i}.jsonl.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress("\n".join(rows).encode()))
    where = upload(tmp_path / "raw", "raw").removesuffix("raw")

    def made(out: str, inputs: str) -> Any:
        source: Any = {"name": "web", "paths": [inputs]}
        return gm.prepare({"out": str(tmp_path / out), "sources": [source], "tokenizer": "byte"}).splits

    assert made("there", where + given) == made("here", str(tmp_path / "raw"))


def test_files_behind_http_are_read(tmp_path: Path, upload: Upload, server: Any) -> None:
    rows = "".join(json.dumps({"id": f"{j}", "text": f"text {j} " * 20}) + "\n" for j in range(40))
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "a.jsonl").write_text(rows)
    upload(tmp_path / "web", "http")
    there = f"http://127.0.0.1:{server.http}/buckets/corpus/http/a.jsonl"
    made = [gm.prepare({"out": str(tmp_path / name), "sources": [{"name": "web", "paths": [p]}], "tokenizer": "byte"})
            for name, p in (("there", there), ("here", str(tmp_path / "web" / "a.jsonl")))]  # fmt: skip
    assert made[0].splits == made[1].splits
    with pytest.raises(gm.GristmillError, match=r"names no file"):
        gm.prepare({"out": str(tmp_path / "o"), "sources": [{"name": "web", "paths": [there + "x"]}]})


def test_a_whole_store_behind_http_is_opened_by_its_manifest(stored: tuple[Path, str], server: Any, proxy: Any) -> None:
    there = f"http://127.0.0.1:{server.http}/buckets/corpus/{stored[1].removeprefix('s3://corpus/')}"
    for cut in ("chunk", "pack"):
        for expected, found in zip(batches(stored[0], cut), batches(there + "/train", cut), strict=True):
            assert all(np.array_equal(expected[key], found[key]) for key in expected)
    assert gm.verify(there).whole and gm.open(there).document(7).id == gm.open(stored[0]).document(7).id
    assert main(["inspect", there, "--json"]) == 0
    with pytest.raises(gm.GristmillError, match="does not exist"):
        gm.open(f"{there}/nothing")


def test_ranges_come_in_order_and_end_with_the_object(stored: tuple[Path, str], proxy: Any) -> None:
    name = next(path.name for path in sorted((stored[0] / "train").iterdir()) if ".bin" in path.name)
    data = (stored[0] / "train" / name).read_bytes()
    wanted = [Range(f"{stored[1]}/train/{name}", start, 100) for start in (500, 0, len(data) - 30)]
    assert [bytes(part) for part in Remote.fetch(wanted)] == [data[each.start : each.start + 100] for each in wanted]


def test_a_forked_process_has_another_that_asks_for_it(stored: tuple[Path, str], proxy: Any) -> None:
    here, there = (gm.open(path) for path in stored)
    expected = here.tokens(100, 900).tolist()
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        told = ["failed"]
        try:
            whole = gm.open(stored[1]).tokens(100, 900).tolist() == there.tokens(100, 900).tolist() == expected
            names = "shard-00000.idx" in door.place_at(f"{stored[1]}/train").names()
            memory = bytearray(9)
            names = names and door.place_at(f"{stored[1]}/manifest.json").read_into(1, memoryview(memory))[0] == 9
            names = names and memory == (stored[0] / "manifest.json").read_bytes()[1:10]
            told = [str(whole and names), str(errands.errands()._process.pid)]
            gm.open(f"{stored[1]}/nothing")
        except gm.GristmillError as error:
            told.append(str(error))
        finally:
            os.write(write, "|".join(told).encode())
            os._exit(0)
    os.waitpid(pid, 0)
    whole, helper, error = os.read(read, 10_000).decode().split("|")
    assert whole == "True" and "nothing does not exist" in error
    until = time.monotonic() + 60
    while Path(f"/proc/{helper}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{helper}").exists()


@pytest.mark.parametrize("cached", [False, True])
def test_workers_that_a_framework_forks_serve_the_batches_of_the_store_on_disk(
    stored: tuple[Path, str], proxy: Any, cached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.utils.data import DataLoader

    from gristmill.adapters.torch import BatchDataset

    monkeypatch.setenv(storage.VARIABLE, "")
    if cached:
        gm.storage("s3://corpus", cache=str(tmp_path / "cache"), cache_bytes="1MB")
    near = {"locality": {"block": 1024, "window": 2}}
    plans = [gm.Plan(gm.open(path), seq_len=64, batch_size=8, steps=40, options=near) for path in stored]
    served = DataLoader(
        BatchDataset(plans[1], keys="labels"), batch_size=None, num_workers=2, multiprocessing_context="fork"
    )
    found = list(served)
    expected = list(gm.Loader(plans[0], keys="labels"))
    assert len(found) == len(expected) == 40
    for mine, its in zip(expected, found, strict=True):
        assert all(np.array_equal(mine[key], its[key].numpy()) for key in ("input_ids", "labels"))


def test_local_paths_import_nothing_of_it(stored: tuple[Path, str]) -> None:
    found = "[name for name in sys.modules if 'obstore' in name or 'places.remote' in name]"
    code = f"import sys, gristmill as gm; gm.open({str(stored[0])!r}); print({found})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
