"""WebDataset tars: headers that lie (their checksums mended), cuts, and what PAX and GNU add to them."""

from __future__ import annotations

import io
import itertools
import random
import tarfile
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import numpy as np
from _sources import documents, raise_if, read_in_all_ways

from gristmill.sources import webdataset
from gristmill.sources.base import Format, InputFile, Mishaps, Part
from gristmill.sources.tar import TarReader
from gristmill.sources.tar_samples import COLUMNS, Run
from gristmill.sources.units import read_from
from harness import mutate as change_bytes

CASES = (150, 100_000)


def _tar(format: int, link: str = "é.png", **headers: str) -> bytes:
    out, long = io.BytesIO(), "x" * (90 if format == tarfile.USTAR_FORMAT else 150)
    members = [("d/1.txt", b"one"), ("d/1.json", b'{"id": 1e5, "n": [1]}'), ("d/1.jpg", b"\xff" * 700),
               ("2.json", b'{"text": "two"}'), (long + ".txt", b"drei"), ("é.txt", b"four")]  # fmt: skip
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = len(data), headers
            tar.addfile(member, io.BytesIO(data))
        member = tarfile.TarInfo(link)
        member.type, member.linkname = tarfile.SYMTYPE, "d/1.txt"
        tar.addfile(member)
    return out.getvalue()


def seeds() -> list[bytes]:
    whole = _tar(tarfile.PAX_FORMAT)
    sparse = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s.txt", "GNU.sparse.realsize": "9"}
    told = ({"comment": "c" * 600}, {"size": str(2**62)}, {"size": str(10**12)}, sparse, {"GNU.sparse.map": "0,x"})
    with_headers = [_tar(tarfile.PAX_FORMAT, **headers) for headers in told]
    plain = _tar(tarfile.USTAR_FORMAT)
    linked, holed = _tar(tarfile.USTAR_FORMAT, "link.txt"), plain[:2048] + bytes(1536) + plain[3584:]
    return [whole, _tar(tarfile.GNU_FORMAT), plain, plain * 2, *with_headers, whole[:2000], whole + whole, bytes(1024),
            linked, holed]  # fmt: skip


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    data = bytearray(change_bytes(rng, seeds))
    if rng.random() < 0.3:
        at = rng.randrange(0, max(len(data) - 511, 1), 512)
        data[at + 124 : at + 136] = rng.choice(
            [b"77777777777\0", b"\x80" + bytes(3) + b"\x40" + bytes(7), b"\xff" * 12, b"00000000000 "]
        )
        data[at + 156 : at + 157] = rng.choice([b"0", b"x", b"g", b"L", b"K", b"S", b"1", b"5", b"7", b"\0", b"Z"])
    if rng.random() < 0.1:
        at = rng.randrange(0, max(len(data) - 511, 1), 512)
        hole = slice(at, at + 512 * rng.choice([1, 2, 8]))
        data[hole] = bytes(len(data[hole]))
    if rng.random() < 0.8:
        for at in range(0, len(data) - 511, 512):
            if data[at + 257 : at + 262] == b"ustar":
                data[at + 148 : at + 156] = b" " * 8
                data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
    return bytes(data)


def attempt(data: bytes, folder: Path) -> None:
    rows, skipped = read_in_all_ways(data, folder / "a.tar", Format(fields=["n"]), cuts=())
    if not skipped:
        assert documents(folder / "a.tar", Format(fields=["n"]), Mishaps("raise")) == rows
    whole = _cut(folder / "a.tar", len(data) + 1)
    assert all(_cut(folder / "a.tar", each) == whole for each in (700, 1024)), "another cut has other samples"
    with mock.patch.object(webdataset, "run_ahead", _no_run):
        assert _cut(folder / "a.tar", 1024) == whole, "a walk member by member has other samples"
    raise_if(skipped)


def _no_run(tar: TarReader, number: int, suffixes: Sequence[str], stop: int) -> Run:
    return Run(number, tar.at, suffixes, np.empty(0, np.uint8), np.empty((0, COLUMNS), np.int64))


def _cut(path: Path, each: int) -> tuple[list[object], int, int]:
    """What a stream reads of a tar in parts of `each` bytes, and what was passed over and ignored."""
    mishaps, edges = Mishaps("skip"), [*range(0, max(path.stat().st_size, 1), each), None]
    parts = [Part(InputFile("web", path, path.name), start or 0, stop) for start, stop in itertools.pairwise(edges)]
    batches = [batch for part in parts for batch in read_from(part, None, Format(fields=["n"]), mishaps)]
    return [row for batch in batches for row in batch.to_pylist()], mishaps.skipped, mishaps.ignored.total()
