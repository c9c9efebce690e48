"""A Spark DataFrame as a stream: its rows are the documents, ranges of their keys the units. Nothing is written.

stream = stream_frame(df, id_col="id").filter("length", min_chars=100).tokenize("gpt2").chunk(2048).batch(64, seed=0)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gristmill.core.arguments import PathLike, as_choice, as_names
from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, SourceError
from gristmill.core.texts import Texts, arrow_texts
from gristmill.core.values import Seconds, check_kinds
from gristmill.order.augment import FIM, Augmentation
from gristmill.sources.base import Format
from gristmill.streams.census import Census, FrameUnits, take_census
from gristmill.streams.frame_queries import PATIENCE, Columns, Frame, Session, find_columns
from gristmill.streams.steps import Step
from gristmill.streams.stream import Stream
from gristmill.streams.units import Cut
from gristmill.tokenize.backends import Ids, ended
from gristmill.tokenize.tokenizer import TextColumn, Tokenizer, load_tokenizer


def stream_frame(
    df: Frame | Callable[[], Frame],
    *,
    text_col: str = "text",
    id_col: str | None = None,
    fields: Sequence[str] = (),
    name: str = "data",
    on_error: str = "raise",
    patience: float = PATIENCE,
) -> FrameStream:
    """Documents of a Spark DataFrame, or of a function that opens a session and returns one; it is counted now.

    text_col holds texts, or token ids as array<int>. id_col names rows; without it they go by their content. on_error=
    "skip" passes over rows without a text, and counts them. patience: seconds in which Spark has to answer a query.
    """
    as_choice("on_error", on_error, ("raise", "skip"))
    said = {"text_col": text_col, "id_col": id_col, "name": name, "patience": patience}
    check_kinds(said, {"text_col": str, "id_col": str | None, "name": str, "patience": Seconds}, "stream_frame")
    carried = Format("text", "id", as_names("fields", fields)).fields
    session = Session(df, patience)
    columns = session.ask(lambda frame: find_columns(frame, text_col, id_col, carried))
    return FrameStream((), name, on_error, session=session, columns=columns, census=take_census(session, columns))


@dataclass(frozen=True, kw_only=True)
class FrameStream(Stream):
    """Documents of a DataFrame on their way to rows: a `Stream`, with its words.

    It can be pickled if it was made of a function, and brings its count along: so one rank can count for all.
    """

    session: Session = field(repr=False, compare=False)
    columns: Columns
    census: Census = field(repr=False, compare=False)

    def units(self, lanes: int) -> Cut:
        """Ranges of keys, of about 1 MiB of text each."""
        return FrameUnits(self.name, self.session, self.columns, self.census, lanes)

    def tokenize(self, tokenizer: str | Tokenizer, *, eos: int | str | None = None) -> Stream:
        """Texts to ids, with the EOS after each document; of a column of ids it says the EOS, and which ids there are.

        A document of ids that brings its EOS gets no second one.
        """
        loaded = tokenizer if isinstance(tokenizer, Tokenizer) else load_tokenizer(tokenizer, eos=eos)
        return replace(self, tokenizer=_made_ids(loaded) if self.columns.holds_ids else loaded)

    def augment(self, *augmentations: Augmentation | Callable[..., object]) -> Stream:
        """As for every stream; fill-in-the-middle of token ids has no characters to cut at."""
        if self.columns.holds_ids and any(
            isinstance(each, FIM) and each.level == "character" for each in augmentations
        ):
            raise ConfigError(
                f'The column {self.columns.text!r} holds token ids: say FIM(level="token"), which cuts between them.'
            )
        return super().augment(*augmentations)

    def _then(self, step: Step) -> Stream:
        if self.columns.holds_ids:
            raise ConfigError(
                f"The column {self.columns.text!r} holds token ids, and filter, map, clean and split are for texts: "
                "do it in Spark before."
            )
        return super()._then(step)

    def recipe(self, out: PathLike) -> dict[str, object]:
        """A DataFrame has no recipe."""
        raise ConfigError("A recipe names files, and this stream is of a DataFrame: write it by adapters.spark.")


class MadeIds(Tokenizer):
    """A tokenizer for documents that are token ids already, four bytes each: they are looked at, and handed on."""

    def encode_ended(self, texts: TextColumn | Texts, order: Ints | None = None) -> tuple[Ids, Ints]:
        """Ids end to end, one EOS at the end of each document, and offsets."""
        found = (texts if isinstance(texts, Texts) else arrow_texts(texts)).ordered(order)
        begin, end = int(found.offsets[0]), int(found.offsets[-1])
        ids, offsets = found.data[begin:end].view("<u4"), (found.offsets - begin) // 4
        if len(ids) and int(ids.max()) >= self.vocab_size:
            raise SourceError(
                f"The DataFrame has the token id {int(ids.view('<i4')[ids.argmax()]):,}, and the tokenizer "
                f"{self.name} has {self.vocab_size:,} from 0 on: name the one that made them."
            )
        ends = offsets[1:][np.diff(offsets) > 0] - 1
        kept = np.ones(len(ids), np.bool_)
        kept[ends] = ids[ends] != self.eos
        return ended(ids[kept].astype(self.dtype), np.concatenate([[0], np.cumsum(kept)])[offsets], self.eos)


@functools.lru_cache(maxsize=4)
def _made_ids(tokenizer: Tokenizer) -> MadeIds:
    made = MadeIds.__new__(MadeIds)
    made.__dict__.update(tokenizer.__getstate__())
    return made
