"""Which part of the documents is val: those that the hash of their content chooses, wherever that works.

Where documents are too few or too large for it, val is taken in the same order of hashes until it has its share, and
if whole documents cannot give that, the end of the last one is cut off. What decides is the content of documents, so
that the same ones are held out whatever the number of workers or units; equal texts are always on the same side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.core.arrays import Ints, Mask
from gristmill.core.held_out import val_places
from gristmill.core.html import counted
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.stages.relation import Relation, batches_of, table_writer
from gristmill.stages.tokens import encoded_schema, load_pickled
from gristmill.stages.work import Facts, UnitJob
from gristmill.tokenize.tokenizer import Tokenizer

# A split is as asked if it has from a third to three times its share of the tokens.
FACTOR = 3
# The search for a paragraph's end looks at this many tokens to either side at most.
_REACH = 1 << 16
SPLIT_STEP = "split"
_PARAGRAPH_END = re.compile(r"\n\s*\n")
# A character is 4 bytes at most, so a token that begins one is never far; a text full of U+FFFD is cut where it stands.
_CHARACTER_REACH = 8
Tokens = npt.NDArray[Any]


@dataclass(frozen=True)
class Held:
    """What the recipe asks of the split."""

    fraction: float
    seed: int

    @property
    def exact(self) -> Fraction:
        return Fraction(str(self.fraction))


@dataclass(frozen=True)
class Halved:
    """A document in two: its first `keep` tokens stay in train, the rest is the document `val_id` of val.

    In a mix a document may stand `copies` times; each is cut alike, `id` and `val_id` are those of the first.
    """

    id: str
    val_id: str
    copies: int
    keep: int
    tokens: int
    boundary: str
    content_hash: int
    val_bytes: int

    @property
    def suffix(self) -> str:
        return self.val_id[len(self.id) :]


@dataclass(frozen=True)
class ValSplit:
    """How val is taken where hashes alone cannot: documents up to `bound` in their order, and the end of another."""

    bound: int
    documents: int
    tokens: int
    val_tokens: int
    cut: Halved | None = None

    @staticmethod
    def of(facts: Facts) -> ValSplit:
        """As a job's figures tell it."""
        return ValSplit(**{**facts, "cut": Halved(**facts["cut"]) if facts["cut"] else None})

    @property
    def content(self) -> dict[str, object]:
        """For the manifest."""
        cut = asdict(self.cut) if self.cut else None
        return {"val": "text" if cut else "documents" if self.bound else "none", **({"cut": cut} if cut else {})}

    def note(self, fraction: float) -> str:
        """What a user should know of it."""
        few = f"{counted(self.documents, 'document')} cannot give val its share ({fraction:g}) "
        if self.cut:
            copies = ", and so are those of its copies" if self.cut.copies > 1 else ""
            return (f"{few}by whole documents: the last {self.cut.tokens - self.cut.keep:,} tokens of {self.cut.id!r}, "
                    f"cut off at a {self.cut.boundary}, are in val as {self.cut.val_id!r}{copies}.")  # fmt: skip
        if self.bound:
            return f"{few}by chance alone: documents were held out until val had {self.val_tokens:,} tokens."
        return f"val is empty: a share of {fraction:g} of {counted(self.tokens, 'token')} is too little to cut off."


def stands(train: int, val: int, held: Held) -> bool:
    """Whether these tokens of the split by hash are about the share of each, or there is nothing to split."""
    return not train + val or _as_asked(val, train + val, held.exact)


def _as_asked(val: int, total: int, fraction: Fraction) -> bool:
    shares = ((val, fraction * total), (total - val, (1 - fraction) * total))
    return all(found and wanted / FACTOR <= found <= wanted * FACTOR for found, wanted in shares)


@dataclass(frozen=True, kw_only=True)
class SplitJob(UnitJob):
    """Decides on val for a layout, and writes it anew with these splits to WORK/split/00000000.parquet.

    Memory is 60 bytes a document: this is for few documents, or for large ones.
    """

    layout: Relation
    tokens: Address
    held: Held
    fields: int
    tokenizer: bytes = field(repr=False)
    tokenizer_fingerprint: str

    @property
    def depends(self) -> object:
        return ["split", self.layout.fingerprint, asdict(self.held), self.tokenizer_fingerprint]

    def __call__(self) -> Facts:
        split = take_val(self.layout.files, self.tokens, self.held, load_pickled(self.tokenizer))
        write_split(self.layout.files, split, self.held, self.fields, self.outputs[0])
        return asdict(split)


def take_val(files: Sequence[Address], tokens: Address, held: Held, tokenizer: Tokenizer) -> ValSplit:
    """Decide on val for the documents of a layout, whose tokens lie in the folder `tokens`."""
    ranks = _Ranks.of(files, held.seed)
    total, target = ranks.total, held.exact * ranks.total
    if min(target, total - target) < 1:
        return ValSplit(0, ranks.documents, total, 0)
    best = min((int(taken) for taken in ranks.around(target)), key=lambda taken: (abs(taken - target), taken))
    if _as_asked(best, total, held.exact):
        return ValSplit(ranks.bound(best), ranks.documents, total, best)
    before = int(ranks.around(target)[0])
    bound = ranks.bound(before)
    cut = _cut(files, tokens, ranks.at(before), target - before, tokenizer)
    if cut is None:
        return ValSplit(0, ranks.documents, total, 0)
    return ValSplit(bound, ranks.documents, total, before + cut.copies * (cut.tokens - cut.keep), cut)


@dataclass(frozen=True)
class _Ranks:
    """Texts in the order in which they are held out, equal ones as one: places, and tokens up to and with each."""

    places: npt.NDArray[np.uint64]
    hashes: Ints
    ends: Ints
    documents: int

    @classmethod
    def of(cls, files: Sequence[Address], seed: int) -> _Ranks:
        read = [(batch.column("content_hash").to_numpy(), batch.column("length").to_numpy())
                for batch in batches_of(files, ["content_hash", "length"])]  # fmt: skip
        hashes, lengths = (np.concatenate(column) for column in zip(*read, strict=True))
        places, first, of = np.unique(val_places(hashes, seed), return_index=True, return_inverse=True)
        sums = np.zeros(len(places), np.int64)
        np.add.at(sums, of, lengths)
        return cls(places, hashes[first], np.cumsum(sums), len(hashes))

    @property
    def total(self) -> int:
        return int(self.ends[-1])

    def around(self, target: Fraction) -> tuple[int, int]:
        """The tokens of as many whole texts as do not reach `target`, and of one more."""
        row = int(np.searchsorted(self.ends, float(target)))
        return int(self.ends[row - 1]) if row else 0, int(self.ends[row])

    def bound(self, taken: int) -> int:
        """The place of the first text that is not among those with `taken` tokens."""
        return int(self.places[self._row(taken)]) if taken else 0

    def at(self, taken: int) -> int:
        """That text's hash."""
        return int(self.hashes[self._row(taken)])

    def _row(self, taken: int) -> int:
        return int(np.searchsorted(self.ends, taken, side="right"))


def _cut(
    files: Sequence[Address], folder: Address, content_hash: int, wanted: Fraction, tokenizer: Tokenizer
) -> Halved | None:
    """Cut about `wanted` tokens, the EOS counted, from the end of a text and all its copies; None if it has too few."""
    rows = list(_rows_of(files, content_hash))
    length, first = rows[0]["length"], rows[0]
    if length < 3:
        return None
    val = min(max(round(wanted / len(rows)), 2), length - 1)
    place, width = place_at(folder / f"{first['unit']:08x}.bin"), tokenizer.dtype.itemsize
    text = np.frombuffer(place.read(first["start"] * width, (length - 1) * width), tokenizer.dtype)
    keep, boundary = cut_place(text, length - val, min(val // 2, _REACH), tokenizer)
    val_bytes = min(len(tokenizer.decode(text[keep:]).encode()), first["bytes"])
    suffix = _free_suffix(files, [row["id"] for row in rows])
    return Halved(first["id"], first["id"] + suffix, len(rows), keep, length, boundary, content_hash, val_bytes)


def _rows_of(files: Sequence[Address], content_hash: int) -> Iterator[dict[str, Any]]:
    """The documents of one text. Another text of the same hash, if there were one, would be told by its length."""
    columns, length = ["id", "content_hash", "unit", "start", "length", "bytes"], None
    for batch in batches_of(files, columns):
        own = np.flatnonzero(batch.column("content_hash").to_numpy() == content_hash)
        for row in batch.take(own).to_pylist() if len(own) else ():
            length = length or row["length"]
            if row["length"] == length:
                yield row


def _free_suffix(files: Sequence[Address], ids: Sequence[str]) -> str:
    """What makes the ids of these documents' ends: `#val`, or `#val2` and so on where a document has such an id."""
    number = 1
    while True:
        suffix = f"#val{number if number > 1 else ''}"
        taken = pa.array([name + suffix for name in ids], pa.string())
        if not any(pc.any(pc.is_in(batch.column("id"), taken)).as_py() for batch in batches_of(files, ["id"])):
            return suffix
        number += 1


def write_split(files: Sequence[Address], split: ValSplit, held: Held, fields: int, out: Address) -> None:
    """The same documents in the same order with their new splits, and two rows for one that is cut."""
    schema = encoded_schema(fields).append(pa.field("cut", pa.bool_()))
    with table_writer(out, schema) as writer:
        for batch in batches_of(files):
            val = val_places(batch.column("content_hash").to_numpy(), held.seed) < np.uint64(split.bound)
            writer.write_batch(_divided(batch, val, split.cut, schema))


def _divided(batch: pa.RecordBatch, val: Mask, cut: Halved | None, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a batch with these splits; a row that is cut comes twice, the second time as what is in val.

    Tokens stay where they are: the first part reads one token too many, and the EOS takes its place (`cut`).
    """
    if cut is None:
        columns = {"val": pa.array(val), "cut": pa.array(np.zeros(len(batch), bool))}
    else:
        length = batch.column("length").to_numpy()
        own = (batch.column("content_hash").to_numpy() == cut.content_hash) & (length == cut.tokens)
        rows = np.repeat(np.arange(len(batch)), 1 + own)
        end = np.concatenate([[False], rows[1:] == rows[:-1]]) if len(rows) else np.zeros(0, bool)
        batch, columns = batch.take(pa.array(rows)), _parts(batch.take(pa.array(rows)), own[rows] & ~end, end, cut)
        columns["val"] = pa.array(val[rows] | end)
    made = [columns[name] if name in columns else batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(made, schema, strict=True)], schema=schema
    )


def _parts(batch: pa.RecordBatch, head: Mask, end: Mask, cut: Halved) -> dict[str, pa.Array]:
    """The columns in which the two parts of a document differ from the whole."""
    numbers = {name: batch.column(name).to_numpy() for name in ("start", "length", "bytes")}
    sizes = np.where(head, cut.keep + 1, np.where(end, cut.tokens - cut.keep, numbers["length"]))
    text_bytes = np.where(end, cut.val_bytes, numbers["bytes"] - np.where(head, cut.val_bytes, 0))
    steps, both = batch.column("edits"), pa.array(head | end)
    marked = pc.if_else(pc.equal(steps, ""), SPLIT_STEP, pc.binary_join_element_wise(steps, SPLIT_STEP, ","))
    return {
        "id": pc.if_else(pa.array(end), pc.binary_join_element_wise(batch.column("id"), cut.suffix, ""),
                         batch.column("id")),
        "start": pa.array(numbers["start"] + np.where(end, cut.keep, 0)),
        "length": pa.array(sizes),
        "bytes": pa.array(text_bytes),
        "edits": pc.if_else(both, marked, steps),
        "cut": pa.array(head),
    }  # fmt: skip


def cut_place(tokens: Tokens, wanted: int, reach: int, tokenizer: Tokenizer) -> tuple[int, str]:
    """The first token of the second part, at most `reach` from `wanted`, and at which boundary it stands.

    Both parts hold a token at least; `tokens` come without the EOS.
    """
    wanted = min(max(wanted, 1), len(tokens) - 1)
    low, high = max(wanted - reach, 1), min(wanted + reach, len(tokens) - 1)
    found = (paragraph_ends(tokens[low - 1 : high + 1], tokenizer) + low - 1).tolist()
    ends = [place for place in found if low <= place <= high]
    if ends:
        return min(ends, key=lambda place: (abs(place - wanted), place)), "paragraph"
    nearby = sorted(range(low, high + 1), key=lambda place: (abs(place - wanted), place))[: 2 * _CHARACTER_REACH]
    whole = (place for place in nearby if _between_characters(tokens, place, tokenizer))
    return next(whole, wanted), "token"


def paragraph_ends(tokens: Tokens, tokenizer: Tokenizer) -> npt.NDArray[np.int64]:
    """The tokens before which a blank line ends, where a token begins there."""
    kinds, of = np.unique(tokens, return_inverse=True)
    texts = [tokenizer.decode([token]) for token in kinds.tolist()]
    text = "".join(texts[kind] for kind in of.tolist())
    sizes = np.array([len(text) for text in texts], np.int64)[of]
    starts = np.cumsum(sizes) - sizes
    ends = np.array([found.end() for found in _PARAGRAPH_END.finditer(text)], np.int64)
    return np.flatnonzero(np.isin(starts, ends) & (sizes > 0))


def _between_characters(tokens: Tokens, place: int, tokenizer: Tokenizer) -> bool:
    before = tokenizer.decode(tokens[max(place - _CHARACTER_REACH, 0) : place])
    after = tokenizer.decode(tokens[place : place + _CHARACTER_REACH])
    return not before.endswith("\ufffd") and not after.startswith("\ufffd")
