"""What export, import and join share: links in place of copies, places that are refused, and `join` itself."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gristmill.core.arguments import as_flag
from gristmill.core.errors import ConfigError, StoreError
from gristmill.places.address import Address
from gristmill.places.door import absolute, as_address, as_addresses, as_target, place_at
from gristmill.store.folder import StoreFolder
from gristmill.store.manifest import FUNNEL_COUNTS, SPLITS, FunnelRow, Manifest, ShardEntry, find_store, load_manifest
from gristmill.store.opening import TOKENIZER, PathLike


def link(source: PathLike, target: Address) -> bool:
    """Let `target` be the same bytes as `source`; whether that took no copy of them."""
    real = place_at(source).real()
    if os.path.join(place_at(target.parent).real(), target.name) == real:
        raise ConfigError(f"{target} would be a link to itself: choose another folder.")
    try:
        return place_at(target).link(place_at(real))
    except FileNotFoundError as error:
        raise StoreError(f"{real} is missing: bring it back or make the store again.") from error


def store_splits(path: PathLike) -> tuple[Address, tuple[str, ...]]:
    """The root of a store and the splits that `path` means: both for the root itself, else the one."""
    if found := find_store(absolute(as_address("path", path))):
        return found
    raise ConfigError(f"{path} is no store made by Gristmill: give its folder; foreign files are imported first.")


def refuse_inside(root: Address, folder: Address) -> None:
    """Keep what is written to `folder` out of the store that is read."""
    real = Path(place_at(folder).real())
    if Path(place_at(root).real()) in (real, *real.parents):
        raise ConfigError(f"{folder} lies inside the store {root}: choose another folder to write to.")


@dataclass(frozen=True)
class _Joined:
    """One of the stores that are joined."""

    root: Address
    splits: tuple[str, ...]
    manifest: Manifest

    def entries(self, split: str, out: Path) -> list[ShardEntry]:
        """The shards of a split, their paths as seen from `out`."""
        shards = self.manifest.splits.get(split, []) if split in self.splits else []
        here = Path(place_at(self.root).real())
        return [ShardEntry(**{**vars(s), "path": Path(os.path.relpath(here / s.path, out)).as_posix()}) for s in shards]


def join(paths: Sequence[PathLike], out: PathLike, *, overwrite: bool = False) -> Manifest:
    """A store whose manifest points at the shards of several: no token is copied, so the shards must stay in place."""
    root, overwrite = as_target("out", out), as_flag("overwrite", overwrite)
    roots = [store_splits(path) for path in as_addresses("paths", paths, "a store or a list of stores")]
    parts = [_Joined(*each, load_manifest(each[0])) for each in roots]
    if not parts:
        raise ConfigError("An empty list of stores cannot be joined.")
    for part in parts:
        _check_alike(parts[0], part)
        refuse_inside(part.root, root)
        if type(place_at(part.root)) is not type(place_at(root)):
            raise ConfigError(
                f"{root} would point at shards in {part.root}, which is not reached from there: join stores where they "
                "lie, all on this machine or all in object storage."
            )
    manifest = _joined(parts, Path(place_at(root).real()))
    with StoreFolder(root, "join").filling(overwrite) as making:
        kept = [part.root / TOKENIZER for part in parts if place_at(part.root / TOKENIZER).exists()]
        if kept:
            place_at(root / TOKENIZER).write(place_at(kept[0]).read())
        making.finish(manifest)
    return manifest


def _check_alike(first: _Joined, other: _Joined) -> None:
    """Refuse what would make token ids mean two things in one store."""
    for what in ("dtype", "eos", "vocab_size", "tokenizer"):
        # A tokenizer is known by its fingerprint: the same one may have been loaded under two names.
        mine, its = (part.manifest.tokenizer.get("fingerprint") if what == "tokenizer" else getattr(part.manifest, what)
                     for part in (first, other))  # fmt: skip
        if mine != its:
            raise ConfigError(f"{other.root} has {what} {its}, {first.root} has {mine}: they cannot be one store.")


def _joined(parts: list[_Joined], out: Path) -> Manifest:
    splits = {split: [entry for part in parts for entry in part.entries(split, out)] for split in SPLITS}
    for split, entries in splits.items():
        path, count = Counter(entry.path for entry in entries).most_common(1)[0] if entries else ("", 0)
        if count > 1:
            raise ConfigError(f"{path} would be in {split} {count} times: give each store once.")
    first = parts[0].manifest
    return Manifest(
        dtype=first.dtype,
        eos=first.eos,
        vocab_size=first.vocab_size,
        tokenizer=first.tokenizer,
        splits=splits,
        recipe={"join": [part.manifest.fingerprint for part in parts]},
        funnel=_summed([row for part in parts for row in part.manifest.funnel]),
        versions=_versions([part.manifest.versions for part in parts]),
    )


def _summed(rows: list[FunnelRow]) -> list[FunnelRow]:
    """Funnel rows of the same stage and source as one, counts added, in the order of their first."""
    totals: dict[tuple[str, str], FunnelRow] = {}
    for row in rows:
        stage, source = row["stage"], row["source"]
        total = totals.setdefault((stage, source), {"stage": stage, "source": source})
        for unit in FUNNEL_COUNTS:
            if unit in row:
                total[unit] = total.get(unit, 0) + row[unit]
        if "reasons" in row:
            total["reasons"] = dict(Counter(total.get("reasons", {})) + Counter(row["reasons"]))
    return list(totals.values())


def _versions(parts: list[dict[str, str]]) -> dict[str, str]:
    """Every version that shaped some of the bytes."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: ", ".join(dict.fromkeys(part[name] for part in parts if name in part)) for name in names}
