"""What is done to the documents of a stream before they are tokens: cleaning, rules, and functions of the user's.

Each step sees a batch, judges every document by itself, and tells the ledger what it dropped and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa

from gristmill.core.arrays import Mask
from gristmill.core.cached import cached_property
from gristmill.core.errors import ConfigError, SourceError
from gristmill.core.functions import called, source_digest
from gristmill.core.held_out import is_val
from gristmill.core.options import content
from gristmill.core.values import shown
from gristmill.curate.base import KEEP, Rule, Verdict
from gristmill.curate.chain import CLEAN, EMPTY
from gristmill.curate.clean import CleanOptions, clean
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import Ledger, add_counts, content_hashes
from gristmill.curate.rules import content as rule_content
from gristmill.curate.rules.function import Asked, named_batch

# Columns that a function of the user's does not see.
_HIDDEN = ("doc", "row", "edits")


class Step(Protocol):
    """A step of a stream."""

    @property
    def name(self) -> str:
        """What the account calls it, unless another step has that name."""

    @property
    def content(self) -> object:
        """What its answers depend on, as a JSON value, for the stream's fingerprint."""

    def run(self, documents: Documents, ledger: Ledger, name: str) -> Documents:
        """What it leaves of documents, counted under this name."""


@dataclass(frozen=True)
class Clean:
    """Normalise texts as the `clean` of a recipe does."""

    name: ClassVar[str] = CLEAN

    options: CleanOptions

    @property
    def content(self) -> object:
        return [CLEAN, content(self.options)]

    def run(self, documents: Documents, ledger: Ledger, name: str) -> Documents:
        cleaned = clean(documents, self.options)
        add_counts(ledger.edits, cleaned.counts)
        ledger.count(name, cleaned.documents)
        return cleaned.documents


@dataclass(frozen=True)
class Filter:
    """Keep what a rule keeps."""

    rule: Rule

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def content(self) -> object:
        return ["filter", self.rule.content if isinstance(self.rule, Function) else rule_content(self.rule)]

    def run(self, documents: Documents, ledger: Ledger, name: str) -> Documents:
        if not len(documents):
            ledger.count(name, documents)  # so that the account has all steps in their order
            return documents
        return ledger.settle(name, documents, self.rule.judge(documents))


@dataclass(frozen=True)
class Function:
    """A function of the user's: what it is called, the file that it is in, and what its code is known by."""

    name: ClassVar[str] = "function"

    function: Callable[..., object]
    batch: bool

    @cached_property
    def _asked(self) -> Asked:
        code = getattr(self.function, "__code__", None)
        return Asked(self.function, called(self.function), code.co_filename if code else "its file", self.batch)

    @property
    def content(self) -> object:
        """Its name and its source; what it calls and closes over is not seen."""
        return [self._asked.name, self.batch, source_digest(self.function)]

    def judge(self, documents: Documents) -> Verdict:
        """As a rule: True keeps a document, False or a reason drops it."""
        return self._asked.judge(documents.with_batch(_visible(documents.batch)))


@dataclass(frozen=True)
class Map:
    """Other texts, as a function of the user's gives them: for a document its text or a dict with it, None to drop it.

    With `batch` it is called with an Arrow record batch and gives an array of texts, or a batch with a column `text`.
    """

    function: Function

    @property
    def name(self) -> str:
        return self.function._asked.name

    @property
    def content(self) -> object:
        return ["map", self.function.content]

    def run(self, documents: Documents, ledger: Ledger, name: str) -> Documents:
        if not len(documents):
            ledger.count(name, documents)  # so that the account has all steps in their order
            return documents
        texts = self._of_batch(documents) if self.function.batch else self._of_each(documents)
        gone = np.where(texts.is_null().to_numpy(zero_copy_only=False), 0, KEEP).astype(np.int16)
        column = documents.batch.schema.get_field_index("text")
        changed = Documents(documents.batch.set_column(column, "text", texts.fill_null("")))
        return ledger.settle(name, documents, Verdict(("map",), gone, documents=changed))

    def _of_each(self, documents: Documents) -> pa.Array:
        batch = _visible(documents.batch)
        texts = [self._text(row, batch.schema.names) for row in batch.to_pylist()]
        try:
            return pa.array(texts, pa.large_string())
        except UnicodeEncodeError:
            row = next(
                row for row, text in enumerate(texts) if text and text.encode("utf-8", "ignore").decode() != text
            )
            id = documents.batch.column("id")[row].as_py()
            raise SourceError(f"The text that {self.name} returned for document {id!r} is no valid Unicode.") from None

    def _text(self, document: dict[str, object], names: Sequence[str]) -> str | None:
        id = document["id"]
        answer = self.function._asked.call(document, f"document {id!r}")
        text = answer.get("text", answer) if isinstance(answer, Mapping) else answer
        if text is not None and not isinstance(text, str):
            raise ConfigError(
                f"{self.name} returned {shown(answer)} for document {id!r}: return its text, a dict with 'text', or "
                "None to drop it."
            )
        if isinstance(answer, Mapping):
            self._refuse_others(answer, names, f"document {id!r}")
        return text

    def _refuse_others(self, answer: Iterable[object], names: Sequence[str], what: str) -> None:
        """A map makes texts: other columns than those that documents have would be lost."""
        if (other := next((each for each in answer if each not in names), None)) is not None:
            raise ConfigError(
                f"{self.name} returned {shown(other)} for {what}, which has {', '.join(names)} alone: a map makes "
                "texts, and what goes with them is said by fields= of gm.stream."
            )

    def _of_batch(self, documents: Documents) -> pa.Array:
        answer = self.function._asked.call(_visible(documents.batch), named_batch(documents))
        found = answer
        if isinstance(answer, pa.RecordBatch | pa.Table) and "text" in answer.schema.names:
            self._refuse_others(answer.schema.names, _visible(documents.batch).schema.names, named_batch(documents))
            found = answer.column("text")
        found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        if not isinstance(found, pa.Array) or len(found) != len(documents) or not _is_text(found.type):
            raise ConfigError(
                f"{self.name} returned {shown(type(answer).__name__)} for {named_batch(documents)}: return an Arrow "
                f"array of {len(documents)} texts, or a record batch with as many in its column 'text'."
            )
        return found.cast(pa.large_string())


@dataclass(frozen=True)
class Split:
    """Keep the documents of train, or those that are held out for val: the hash of a text says which, as in a store."""

    name: ClassVar[str] = "split"

    val_fraction: float
    seed: int
    val: bool

    @property
    def content(self) -> object:
        return [self.name, self.val_fraction, self.seed, self.val]

    def run(self, documents: Documents, ledger: Ledger, name: str) -> Documents:
        if not len(documents):
            ledger.count(name, documents)  # so that the account has all steps in their order
            return documents
        held_out = is_val(content_hashes(documents), self.val_fraction, self.seed)
        codes = np.where(held_out == self.val, KEEP, 0).astype(np.int16)
        return ledger.settle(name, documents, Verdict(("train" if self.val else "val",), codes))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _visible(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch without the columns that are ours."""
    return batch.select([name for name in batch.schema.names if name not in _HIDDEN])


def recipe_of(steps: Sequence[Step]) -> tuple[CleanOptions | None, list[Rule]]:
    """Steps as the `clean` and the `filters` of a recipe, which has one order and no functions but those of files.

    How it splits its documents is said elsewhere in it.
    """
    steps = [step for step in steps if not isinstance(step, Split)]
    clean = steps[0].options if steps and isinstance(steps[0], Clean) else None
    rules: list[Rule] = []
    for step in steps[1:] if clean else steps:
        if not isinstance(step, Filter) or isinstance(step.rule, Function):
            raise ConfigError(
                "A recipe cleans once, first, and has no functions: keep one in a file and say "
                'filter("function", path="mine.py", function="keep"), which both can.'
            )
        rules.append(step.rule)
    return clean, rules


def drop_empty(documents: Documents, ledger: Ledger) -> Documents:
    """Documents with a text: an empty one has no tokens, and would be an EOS alone."""
    return drop(EMPTY, documents.offsets[1:] == documents.offsets[:-1], documents, ledger, EMPTY)


def drop(step: str, gone: Mask, documents: Documents, ledger: Ledger, reason: str) -> Documents:
    """Documents without those that are `gone`, of which there are hardly ever any."""
    if not np.count_nonzero(gone):  # which is one call, and `any` five
        return ledger.pass_all(step, documents)
    return ledger.settle(step, documents, Verdict((reason,), np.where(gone, 0, KEEP).astype(np.int16)))
