"""manifest.json: what a store holds. It is written last, so its presence means that the store is whole.

It carries a sum of itself, which is checked whenever it is read. One that an older version wrote has none.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Literal, TypedDict, TypeVar, get_args

from gristmill.core.errors import StoreError
from gristmill.core.hashing import fingerprint
from gristmill.core.html import counted, html_table
from gristmill.core.seal import SUM, is_sealed, sealed
from gristmill.core.values import Count, Values, check_kinds, check_there, kinds_of, parse_json, shown
from gristmill.places.address import Address
from gristmill.places.door import address_of, place_at
from gristmill.store.format import DOCS_SUFFIX, DTYPES, beside, is_own_shard
from gristmill.store.sums import Listing, write_sums

Where = TypeVar("Where", bound=Address)
MANIFEST = "manifest.json"
VERSION = 1
SPLITS = ("train", "val")
_Count = Literal["documents_in", "bytes_in", "tokens_in", "documents", "bytes", "tokens"]
FUNNEL_COUNTS: tuple[_Count, ...] = get_args(_Count)
_OPTIONAL = ("compressed_bytes", "compressed_checksum", "ids_checksum", "blocks_checksum")
_NEEDED = ("dtype", "eos", "vocab_size", "tokenizer", "splits", "recipe", "funnel", "versions")
_KINDS = {
    "gristmill_store": int, "dtype": Literal[DTYPES], "eos": Count, "vocab_size": Count, "tokenizer": Mapping[str, str],
    "compression": str, "splits": Mapping[str, Mapping[str, object]], "split": Mapping[str, object],
    "recipe": Mapping[str, object], "funnel": list[Mapping[str, object]], "versions": Mapping[str, str], SUM: str,
}  # fmt: skip


class FunnelRow(TypedDict, total=False):
    """What a step left of a source: of what came in by which reasons, or of a mix how often it takes the source."""

    stage: str
    source: str
    documents_in: int
    bytes_in: int
    tokens_in: int
    documents: int
    bytes: int
    tokens: int
    reasons: dict[str, int]
    times: float


@dataclass(frozen=True)
class ShardEntry:
    """One shard: its `.bin` relative to the manifest, its counts, and xxh3-128 sums of it and of what lies beside it.

    checksum: of the `.sum`, which sums the tokens. rows_checksum: of the values in `.docs.parquet`. blocks_checksum: of
    the head of `.blocks`. compressed_bytes and compressed_checksum: size and sum of a `.bin.zst`. What is empty is not
    in the manifest: older versions had fewer sums.
    """

    path: str
    tokens: int
    documents: int
    checksum: str
    idx_checksum: str
    rows_checksum: str
    compressed_bytes: int = 0
    compressed_checksum: str = ""
    ids_checksum: str = ""
    blocks_checksum: str = ""


@dataclass(frozen=True)
class Manifest:
    """The content of a store; nothing in it depends on time, host, workers or absolute paths.

    `split` says how val was taken where the hashes of documents could not give it its share.
    """

    dtype: str
    eos: int
    vocab_size: int
    tokenizer: dict[str, str]
    splits: dict[str, list[ShardEntry]]
    recipe: Mapping[str, object] = field(default_factory=dict)
    funnel: list[FunnelRow] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    split: Mapping[str, object] = field(default_factory=dict)

    def __repr__(self) -> str:
        splits = (f"{name} {counted(tokens, 'token')} in {counted(documents, 'document')}"
                  for name, _, documents, tokens in self._figures())  # fmt: skip
        return f"Manifest({'; '.join(splits)}; {self.tokenizer.get('name', 'unknown')}, {self.dtype})"

    def _repr_html_(self) -> str:
        return html_table(repr(self), ("split", "shards", "documents", "tokens"), self._figures())

    def _figures(self) -> list[tuple[str, int, int, int]]:
        return [
            (name, len(shards), sum(shard.documents for shard in shards), sum(shard.tokens for shard in shards))
            for name, shards in self.splits.items()
        ]

    @property
    def compression(self) -> str:
        """How the tokens lie: none, zstd, or mixed in a store that was joined of both."""
        kinds = {shard.compressed_bytes > 0 for shards in self.splits.values() for shard in shards}
        return "mixed" if len(kinds) > 1 else "zstd" if kinds == {True} else "none"

    @property
    def fingerprint(self) -> str:
        """32 hex digits that name the whole content."""
        return fingerprint(self.to_dict())

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON, the shards as rows to keep 10,000 of them small."""
        return {
            "gristmill_store": VERSION,
            "dtype": self.dtype,
            "eos": self.eos,
            "vocab_size": self.vocab_size,
            "tokenizer": self.tokenizer,
            **({} if self.compression == "none" else {"compression": self.compression}),
            "splits": {name: _split(shards) for name, shards in self.splits.items()},
            **({"split": self.split} if self.split else {}),
            "recipe": self.recipe,
            "funnel": self.funnel,
            "versions": self.versions,
        }

    def save(self, root: Address, known: Listing | None = None) -> None:
        """Write the sums of files that are not content, then `manifest.json`, which declares the store whole."""
        paths = [shard.path for shards in self.splits.values() for shard in shards]
        write_sums(root, (beside(path, DOCS_SUFFIX) for path in paths if not path.startswith("..")), known)
        place_at(root / MANIFEST).write(sealed(self.to_dict()))


def _split(shards: list[ShardEntry]) -> dict[str, object]:
    return {
        "tokens": sum(shard.tokens for shard in shards),
        "documents": sum(shard.documents for shard in shards),
        "shards": [
            {name: value for name, value in vars(shard).items() if value or name not in _OPTIONAL} for shard in shards
        ],
    }


def find_store(path: Where) -> tuple[Where, tuple[str, ...]] | None:
    """The root of a store and the splits that a folder means: all for the root itself, the one for a split's folder."""
    if place_at(path / MANIFEST).exists():
        return path, SPLITS
    named = path.name in SPLITS and place_at(path.parent / MANIFEST).exists()
    return (path.parent, (path.name,)) if named else None


def read_manifest(root: Address) -> Values:
    """The manifest's values: version, sum and kinds are checked, and that its shards lie where they may."""
    values = _read(root)
    _check_places(root, values)
    return values


def _read(root: Address) -> Values:
    path = root / MANIFEST
    try:
        data = place_at(path).read()
    except FileNotFoundError:
        raise StoreError(
            f"{root} holds no {MANIFEST}: it is no store, or its making was cut short; run it again."
        ) from None
    values: Values = parse_json(data, f"{path} is damaged: it", StoreError)
    version = values.get("gristmill_store") if isinstance(values, dict) else None
    if version != VERSION:
        raise StoreError(
            f"{path} has format version {shown(version)}; this software reads {VERSION}: make the store again."
        )
    unknown = sorted(set(values) - set(_KINDS))
    if unknown or (SUM in values and not is_sealed(data)):
        what = f"it has an unknown key {unknown[0]!r}" if unknown else "its content does not have the sum that it names"
        raise StoreError(f"{path} is damaged: {what}; restore it or make the store again.")
    _check(values, f"{path} is damaged")
    return values


def _check_places(root: Address, values: Values) -> None:
    """Refuse a manifest that names files outside its folder, unless each is a shard that its own store lists alike."""

    @functools.cache
    def listed(part: Address) -> dict[str, Values]:
        return {shard["path"]: shard for split in _read(part)["splits"].values() for shard in split["shards"]}

    for split, shard in ((name, shard) for name, rows in values["splits"].items() for shard in rows["shards"]):
        path = shard["path"]
        if is_own_shard(split, path):
            continue
        if "join" not in values["recipe"] or os.path.isabs(path):
            raise StoreError(
                f"The manifest of {root} names {path!r}, which is no shard in this folder: it is damaged, or somebody "
                "changed it; make the store again."
            )
        _check_part(root, split, shard, listed)


def _check_part(root: Address, split: str, shard: Values, listed: Callable[[Address], dict[str, Values]]) -> None:
    """A shard of another store: its manifest must say the same of it."""
    place = address_of(os.path.normpath(os.path.join(place_at(root).real(), shard["path"])))
    part, name = place.parent.parent, f"{place.parent.name}/{place.name}"
    try:
        there = listed(part).get(name) if is_own_shard(split, name) else None
    except StoreError as error:
        raise StoreError(f"{root} joins {part}, whose shards cannot be trusted: {error}") from error
    if there is None or {**there, "path": ""} != {**shard, "path": ""}:
        raise StoreError(
            f"{root} joins {place}, but {part} has no such shard, or another than when it was joined: join them again."
        )


def _check(values: Values, damaged: str) -> None:
    check_there(values, _NEEDED, f"{damaged}: it", StoreError)
    check_kinds(values, _KINDS, damaged, StoreError)
    check_there(values["tokenizer"], ("name", "fingerprint"), f"{damaged}: its tokenizer", StoreError)
    for row in values["funnel"]:
        check_kinds(row, kinds_of(FunnelRow), f"{damaged}: its funnel", StoreError)
        check_there(row, ("stage", "source", "documents"), f"{damaged}: its funnel", StoreError)
    for name, split in values["splits"].items():
        _check_split(split, f"{damaged}: its split {name!r}")


def _check_split(split: Values, where: str) -> None:
    """Columns are looked at one after the other: there may be 10,000 rows."""
    check_there(split, ("tokens", "documents", "shards"), where, StoreError)
    check_kinds(split, {"tokens": Count, "documents": Count, "shards": list[object]}, where, StoreError)
    kinds, rows = kinds_of(ShardEntry), split["shards"]
    needed = {field.name for field in fields(ShardEntry) if field.default is MISSING}
    if not all(isinstance(row, dict) and needed <= row.keys() <= kinds.keys() for row in rows):
        raise StoreError(f"{where} has a shard without the keys {', '.join(sorted(needed))}.")
    for key, kind in kinds.items():
        wrong = [row[key] for row in rows if key in row and not _FITS[kind](row[key])]
        if wrong:
            raise StoreError(f"{where} has a shard whose {key} is {shown(wrong[0])}.")
    for key in ("tokens", "documents"):
        if split[key] != sum(row[key] for row in rows):
            raise StoreError(f"{where} counts {split[key]:,} {key}, its shards another number.")


_FITS: dict[object, Callable[[object], bool]] = {
    int: lambda value: type(value) is int and 0 <= value < 2**60,
    str: lambda value: type(value) is str and "\0" not in value,
}


def load_manifest(root: Address) -> Manifest:
    """The manifest as an object."""
    values = read_manifest(root)
    splits = {name: [ShardEntry(**shard) for shard in split["shards"]] for name, split in values["splits"].items()}
    return Manifest(**{**{key: values[key] for key in _NEEDED}, "splits": splits}, split=values.get("split", {}))
