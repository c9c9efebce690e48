"""Uploads that a killed process left at a real S3 server: seen, given up by the next run, and nobody else's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from obstore import exceptions

import gristmill as gm
from gristmill.places import multipart
from gristmill.places.base import Unfinished
from gristmill.places.door import place_at
from gristmill.places.remote import Remote

ROOT = "s3://corpus"
MIB = 1 << 20


def begun(path: str) -> None:
    """An upload that is begun, as a process that is killed then would have."""
    code = (
        "import os, obstore\nfrom gristmill.places.clients import asked\n"
        f"obstore.open_writer(asked({path!r}, {ROOT!r}, lambda store: store), {path.removeprefix(ROOT + '/')!r},"
        f" buffer_size={5 * MIB}).write(bytes({6 * MIB}))\nos._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def names(path: str) -> list[str]:
    return sorted(each.path.removeprefix(f"{path}/") for each in place_at(path).unfinished())


@pytest.fixture
def folder(proxy: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    """A prefix of its own, of which nothing stays."""
    path = f"{ROOT}/unfinished/{abs(hash(request.node.name))}"
    yield path
    proxy.begin()
    for upload in place_at(f"{ROOT}/unfinished").unfinished():
        place_at(upload.path).give_up(upload)


def test_uploads_below_an_address_are_listed_and_given_up_one_by_one(folder: str) -> None:
    here = [f"{folder}/train/a+b c.bin", f"{folder}/d.bin"]
    for path in (*here, f"{folder}-of-others/e.bin"):
        begun(path)
    found = {each.path: each for each in place_at(folder).unfinished()}
    assert sorted(found) == sorted(here) and all(each.began.startswith("20") for each in found.values())
    place_at(here[0]).give_up(found[here[0]])
    place_at(here[0]).give_up(found[here[0]])  # which is not there any more
    assert names(folder) == ["d.bin"] and names(f"{folder}-of-others") == ["e.bin"]


def test_a_listing_of_many_pages_is_read_to_its_end(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (
        "<L xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><IsTruncated>{more}</IsTruncated><NextKeyMarker>{key}"
        "</NextKeyMarker><NextUploadIdMarker>n</NextUploadIdMarker><Upload><Key>a/{key}</Key><UploadId>1</UploadId>"
        "<Initiated>2026</Initiated></Upload></L>"
    )
    pages = [page.format(more="true", key="x"), page.format(more="true", key="y"), page.format(more="false", key="z")]
    queries = []

    def answered(path: str, root: str, method: str, key: str, query: dict[str, str]) -> bytes:
        queries.append(query.get("key-marker"))
        return pages[len(queries) - 1].encode()

    with monkeypatch.context() as patch:
        patch.setattr(multipart, "_answered", answered)
        found = list(multipart.unfinished("s3://corpus/a", ROOT, "a"))
    assert [each.path for each in found] == [f"s3://corpus/a/{name}" for name in "xyz"] and queries == [None, "x", "y"]


@pytest.mark.parametrize("fault", ["500", "503", "cut", "half", "expired"])
def test_a_listing_that_fails_is_asked_for_again(folder: str, proxy: Any, fault: str) -> None:
    begun(f"{folder}/a.bin")
    proxy.begin(lambda number, method: fault if number == 0 else None)
    assert names(folder) == ["a.bin"] and len(proxy.requests) == 2


def test_servers_that_list_none_and_people_who_may_not_are_told_in_a_sentence_without_a_key(
    folder: str, proxy: Any
) -> None:
    begun(f"{folder}/a.bin")
    for fault, words in (("501", "501"), ("403", "refuses these credentials")):
        proxy.begin(lambda number, method, fault=fault: fault)
        with pytest.raises(OSError) as told:
            place_at(folder).unfinished()
        assert words in str(told.value)
        said = repr(told.value) + repr(told.value.__context__) + repr(told.value.__cause__)
        assert "Signature" not in said and "the-key" not in said


def test_where_nothing_is_signed_nothing_is_asked(folder: str, proxy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRISTMILL_STORAGE", json.dumps({ROOT: {"anonymous": True}}))
    assert names(folder) == [] and proxy.requests == []
    assert Remote("gs://bucket/folder").unfinished() == [] and place_at("/tmp").unfinished() == ()


def test_a_bucket_that_is_a_host_of_its_own_is_asked_there(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fetched(address: str, method: str, timeout: float) -> bytes:
        asked.append(address)
        return b"<L/>"

    with monkeypatch.context() as patch:
        patch.setattr(multipart, "_fetched", fetched)
        patch.setenv("AWS_SESSION_TOKEN", "a-token")
        patch.delenv("AWS_ENDPOINT_URL")
        place_at("s3://bucket/a b").unfinished()
        place_at("s3://bucket/a/b").give_up(Unfinished("s3://bucket/a/b", "", "an+id"))
        patch.setenv("AWS_ENDPOINT_URL", "https://bucket.host.example")
        patch.setenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true")
        place_at("s3://bucket/a").unfinished()
    plain, given_up, hosted = (address.partition("&X-Amz")[0] for address in asked)
    assert plain == "https://s3.us-east-1.amazonaws.com/bucket?uploads=&prefix=a%20b&x-id=/"
    assert given_up == "https://s3.us-east-1.amazonaws.com/bucket/a/b?uploadId=an%2Bid&x-id=/"
    assert hosted == "https://bucket.host.example/?uploads=&prefix=a&x-id=/"
    assert all("X-Amz-Security-Token=a-token" in address and "X-Amz-Signature=" in address for address in asked)


# Runs.

RECIPE = {"sources": [{"name": "web", "paths": ["{raw}"]}], "tokenizer": "byte", "store": {"val_fraction": 0}}
Prepare = Callable[[], "subprocess.Popen[str]"]


@pytest.fixture
def prepare(folder: str, tmp_path: Path) -> Prepare:
    """A run whose one shard has some parts, with work that stays on this machine."""
    rows = (json.dumps({"id": str(i), "text": f"{i:07d} " * 40_000}) + "\n" for i in range(80))
    (tmp_path / "a.jsonl").write_text("".join(rows))
    recipe = json.dumps({**RECIPE, "out": folder}).replace("{raw}", str(tmp_path / "a.jsonl"))
    (tmp_path / "recipe.yaml").write_text(recipe)
    options = ["--recipe", str(tmp_path / "recipe.yaml"), "--workers", "1", "--work", str(tmp_path / "work")]
    return lambda: subprocess.Popen(
        [sys.executable, "-m", "gristmill", "prepare", *options],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def test_a_prepare_that_is_killed_while_it_sends_leaves_an_upload_that_the_next_run_gives_up(
    prepare: Prepare, folder: str, proxy: Any, tmp_path: Path
) -> None:
    shard = f"{folder}/train/shard-00000.bin"
    proxy.begin(lambda number, method: "503" if _is_part(proxy.requests[-1], shard) else None)
    first = prepare()
    until = time.monotonic() + 120
    while not names(folder):
        assert first.poll() is None and time.monotonic() < until, first.communicate()
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    proxy.begin()
    begun(f"{folder}/notes.txt")  # of somebody else
    assert names(folder) == ["notes.txt", "train/shard-00000.bin"] and not place_at(shard).exists()
    with pytest.raises(gm.StoreError, match="no manifest"):
        gm.open(folder)
    second = prepare()
    _, said = second.communicate()
    assert second.returncode == 0, said
    assert "Gave up an upload that a run left unfinished: train/shard-00000.bin." in said
    found = gm.verify(folder)
    assert found.whole and names(folder) == ["notes.txt"] == list(found.unfinished)
    gm.prepare({**json.loads((tmp_path / "recipe.yaml").read_text()), "out": str(tmp_path / "here")})
    for path in sorted((tmp_path / "here" / "train").glob("shard-*")):
        assert place_at(f"{folder}/train/{path.name}").read() == path.read_bytes()


def _is_part(request: str, shard: str) -> bool:
    return request == f"PUT /{shard.removeprefix('s3://')}"


def test_a_run_that_may_not_list_uploads_says_so_and_goes_on(
    folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("text " * 1000)
    recipe: Any = {"out": folder, "sources": [{"name": "a", "paths": [str(tmp_path / "a.txt")]}], "tokenizer": "byte"}
    gm.prepare(recipe)
    notes: list[str] = []

    class Told:
        def start(self, what: str, total: int, unit: str = "bytes") -> None: ...
        def advance(self, amount: int) -> None: ...
        def note(self, text: str) -> None:
            notes.append(text)

    def refused(*request: object) -> bytes:
        raise exceptions.GenericError("status code: 403 Forbidden: AccessDenied")

    with monkeypatch.context() as patch:
        patch.setattr(multipart, "_fetched", refused)
        gm.prepare(recipe, overwrite=True, progress=Told())
        assert gm.verify(folder).unfinished == {}
    assert any("cannot be seen (the server refuses these credentials)" in note for note in notes), notes
