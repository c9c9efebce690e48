"""WebDataset tars: headers that lie (their checksums mended), cuts, and what PAX and GNU add to them."""

from __future__ import annotations

import io
import random
import tarfile
from collections.abc import Sequence
from pathlib import Path

from _sources import documents, raise_if, read_in_all_ways

from gristmill.sources.base import Format, Mishaps
from harness import mutate as change_bytes

CASES = (600, 100_000)


def _tar(format: int, **headers: str) -> bytes:
    out = io.BytesIO()
    members = [("d/1.txt", b"one"), ("d/1.json", b'{"id": 1e5, "n": [1]}'), ("d/1.jpg", b"\xff" * 700),
               ("2.json", b'{"text": "two"}'), ("x" * 150 + ".txt", b"drei"), ("é.txt", b"four")]  # fmt: skip
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = len(data), headers
            tar.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "d/1.txt"
        tar.addfile(link)
    return out.getvalue()


def seeds() -> list[bytes]:
    whole = _tar(tarfile.PAX_FORMAT)
    sparse = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s.txt", "GNU.sparse.realsize": "9"}
    told = ({"comment": "c" * 600}, {"size": str(2**62)}, {"size": str(10**12)}, sparse, {"GNU.sparse.map": "0,x"})
    with_headers = [_tar(tarfile.PAX_FORMAT, **headers) for headers in told]
    return [whole, _tar(tarfile.GNU_FORMAT), *with_headers, whole[:2000], whole + whole, bytes(1024)]


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    data = bytearray(change_bytes(rng, seeds))
    if rng.random() < 0.3:
        at = rng.randrange(0, max(len(data) - 511, 1), 512)
        data[at + 124 : at + 136] = rng.choice(
            [b"77777777777\0", b"\x80" + bytes(3) + b"\x40" + bytes(7), b"\xff" * 12, b"00000000000 "]
        )
        data[at + 156 : at + 157] = rng.choice([b"0", b"x", b"g", b"L", b"K", b"S", b"1", b"5", b"7", b"\0", b"Z"])
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
    raise_if(skipped)
