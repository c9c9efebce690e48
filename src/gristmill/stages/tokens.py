"""The last pass over texts: what is left of a unit to token ids; of what was dropped, the tokens are counted."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill.core.arrays import Ints
from gristmill.core.hashing import derive_key, keyed_array
from gristmill.core.held_out import is_val
from gristmill.curate.dedup.drops import UnitDrops, drop
from gristmill.curate.ledger import Ledger, Passed
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.stages.relation import Drops, batches_of, pass_writers, without
from gristmill.stages.work import Facts, TextsJob
from gristmill.tokenize.tokenizer import Tokenizer, encode_batch

TOKENIZE = "tokenize"
# Shuffle keys are numbers of 62 bits, so that two of them can be added.
SHUFFLE_KEYS = 1 << 62


@dataclass(frozen=True)
class Encoding:
    """The tokenizer, pickled for the workers, and what splits and orders its documents.

    Each job brings those bytes (about 2 MB) along: a worker takes them from its parent and from no file, and uses
    them once, since loading and checking the tokenizer anew would take it seconds.
    """

    tokenizer: bytes = field(repr=False)
    fingerprint: str
    val_fraction: float
    seed: int
    steps: Sequence[str]

    @property
    def content(self) -> object:
        return [self.fingerprint, self.val_fraction, self.seed, list(self.steps)]


@dataclass(frozen=True, kw_only=True)
class TokensJob(TextsJob):
    """Writes WORK/tokens/NUMBER.bin (ids end to end) and NUMBER.parquet (a row each document of it)."""

    suffixes: ClassVar[Sequence[str]] = (".parquet", ".dropped.parquet", ".bin")
    dropped: tuple[Address, ...]
    drops: tuple[Drops, ...]
    fields: tuple[str, ...]
    encoding: Encoding

    @property
    def depends(self) -> object:
        return ["tokens-2", self.upstream, [drops.table.fingerprint for drops in self.drops], self.encoding.content]

    def __call__(self) -> Facts:
        ledger = Ledger()
        splits = {"train": Counter[str](), "val": Counter[str]()}
        tokenizer = load_pickled(self.encoding.tokenizer)
        schema = encoded_schema(len(self.fields))
        drops = [drops.of_unit(self.number) for drops in self.drops]
        with place_at(self.outputs[2]).writing() as tokens, pass_writers(self.outputs, schema) as (rows, dropped):
            start = 0
            for batch in batches_of(self.texts):
                encoded = _encode(batch, drops, tokenizer, ledger)
                rows.write_batch(self._rows(encoded, start, splits, schema))
                tokens.write(np.ascontiguousarray(encoded.tokens).data)
                start += len(encoded.tokens)
                for table in encoded.passed.dropped:
                    dropped.write_table(table)
        lost = _count_dropped((*self.dropped, self.outputs[1]), tokenizer)
        return {**ledger.facts, "splits": splits, "tokens_dropped": lost}

    def _rows(
        self, encoded: _Encoded, start: int, splits: dict[str, Counter[str]], schema: pa.Schema
    ) -> pa.RecordBatch:
        """The rows of a batch; which split each goes to, and its place if the store is shuffled."""
        batch = encoded.passed.kept
        held_out = is_val(batch.column("content_hash").to_numpy(), self.encoding.val_fraction, self.encoding.seed)
        sizes = batch.column("bytes").to_numpy()
        for split, rows in (("train", ~held_out), ("val", held_out)):
            found = {"documents": rows.sum(), "bytes": sizes[rows].sum(), "tokens": encoded.lengths[rows].sum()}
            splits[split].update({name: int(count) for name, count in found.items()})
        columns = {
            "edits": _names(batch.column("edits").to_numpy(), self.encoding.steps),
            "start": pa.array(start + np.cumsum(encoded.lengths) - encoded.lengths),
            "length": pa.array(encoded.lengths),
            "unit": pa.array(np.full(len(batch), self.number)),
            "val": pa.array(held_out),
            "shuffle": pa.array(_keys(batch.column("doc").to_numpy(), derive_key(self.encoding.seed, "shuffle"))),
            **{field_name(i): batch.column(name) for i, name in enumerate(self.fields)},
        }
        made = [columns[name] if name in columns else batch.column(name) for name in schema.names]
        return pa.RecordBatch.from_arrays(made, schema=schema)


class _Encoded(NamedTuple):
    """Documents that have tokens, with them."""

    passed: Passed
    tokens: npt.NDArray[Any]
    lengths: Ints


def _encode(batch: pa.RecordBatch, drops: Sequence[UnitDrops], tokenizer: Tokenizer, ledger: Ledger) -> _Encoded:
    """Tokens of the documents that no wide rule dropped; those without any go too."""
    left = without(batch, np.concatenate([np.zeros(0, np.int64), *(rule.docs for rule in drops)]))
    column = encode_batch(left, tokenizer).column("tokens")
    lengths = np.diff(column.offsets.to_numpy())
    silent = UnitDrops(TOKENIZE, "no_tokens", left.column("doc").to_numpy()[lengths == 0])
    return _Encoded(drop(batch, [*drops, silent], ledger), column.flatten().to_numpy(), lengths[lengths > 0])


# The last tokenizer of this process, by its pickle: where no others work, its encoder is built once, not twice (0.4 s).
_loaded: dict[bytes, Tokenizer] = {}


def pickled(tokenizer: Tokenizer) -> bytes:
    """A tokenizer as jobs carry it, the same bytes each time; jobs in this process get it back as it is."""
    known = next((data for data, held in _loaded.items() if held is tokenizer), None)
    if known is None:
        _remember(known := pickle.dumps(tokenizer), tokenizer)
    return known


def load_ahead(data: bytes) -> None:
    """Build a worker's encoder (0.4 s) before there is anything to encode."""
    load_pickled(data).encode_batch(["a"])


def load_pickled(data: bytes) -> Tokenizer:
    """The worker's tokenizer, built once a process."""
    if data not in _loaded:
        _remember(data, pickle.loads(data))
    return _loaded[data]


def _remember(data: bytes, tokenizer: Tokenizer) -> None:
    _loaded.clear()
    _loaded[data] = tokenizer


def _count_dropped(files: Sequence[Address], tokenizer: Tokenizer) -> dict[str, int]:
    """Tokens of the documents that each rule dropped, EOS included, as their texts stood when they left."""
    counts: Counter[str] = Counter()
    for batch in batches_of(files, ["rule", "text"]):
        batch = batch.filter(batch.column("text").is_valid())  # what could not be read has none
        if len(batch):
            lengths = np.diff(encode_batch(batch, tokenizer).column("tokens").offsets.to_numpy())
            rules = batch.column("rule").to_numpy(zero_copy_only=False)
            for rule in dict.fromkeys(rules):
                counts[rule] += int(lengths[rules == rule].sum())
    return dict(counts)


def field_name(i: int) -> str:
    """What a carried field is called on its way to a shard: engines quote names that users chose in different ways."""
    return f"field_{i}"


def encoded_schema(fields: int) -> pa.Schema:
    """A row each document with tokens: what goes to `.docs.parquet`, and where its tokens lie until then."""
    numbers = ("bytes", "content_hash", "unit", "start", "length", "shuffle")
    names = [("doc", pa.int64()), *((name, pa.string()) for name in ("id", "source", "path")), ("row", pa.int64()),
             *((name, pa.int64()) for name in numbers), ("edits", pa.string()), ("val", pa.bool_())]  # fmt: skip
    return pa.schema([*names, *((field_name(i), pa.string()) for i in range(fields))])


def _keys(docs: Ints, key: int) -> Ints:
    """A number each document: sorting by it shuffles."""
    return (keyed_array(docs, key) % np.uint64(SHUFFLE_KEYS)).view(np.int64)


def _names(edits: Ints, steps: Sequence[str]) -> pa.Array:
    """The steps that edited each document, joined by commas."""
    marks, places = np.unique(edits, return_inverse=True)
    names = [",".join(step for bit, step in enumerate(steps) if mark >> bit & 1) for mark in marks.tolist()]
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(names, pa.string())).cast(
        pa.string()
    )
