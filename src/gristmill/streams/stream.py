"""A stream: which files, what is done to their documents, how they become rows. Each word gives another stream.

stream = gm.stream("raw/*.jsonl").filter("length", min_chars=100).tokenize("gpt2").pack(2048).batch(64, seed=0)
for batch in stream: ...
loader = stream.loader(rank=0, world_size=8)
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, NoReturn, Unpack

from gristmill.core.arguments import PathLike, as_choice, as_flag, as_function, as_names, as_whole, refuse
from gristmill.core.cached import cached_property
from gristmill.core.errors import ConfigError
from gristmill.core.hashing import derive_key, fingerprint
from gristmill.core.held_out import LEAST_FRACTION
from gristmill.core.options import content, from_mapping
from gristmill.core.values import Seed, check_kinds, fits, spelt
from gristmill.curate.clean import CleanOptions
from gristmill.curate.rules import make_rule
from gristmill.order.augment import Augmentation
from gristmill.order.mix import Mix, block_size
from gristmill.order.options import Locality
from gristmill.order.plan import Plan
from gristmill.places.door import as_target
from gristmill.sources.base import Format, InputFile
from gristmill.store.reader import Store
from gristmill.streams.augment import (
    ALONE,
    AugmentedRows,
    Rearranger,
    asks,
    check_alike,
    for_stream,
    rate_of,
    rearranger,
)
from gristmill.streams.hints import NO_BATCHES, batches_lack, stream_lacks
from gristmill.streams.lanes import Walk
from gristmill.streams.steps import Clean, Filter, Function, Map, Split, Step, recipe_of
from gristmill.streams.stores import check_store
from gristmill.streams.units import Cut, SourceFiles, Units
from gristmill.tokenize.tokenizer import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    from gristmill.loader.fill import Batch
    from gristmill.loader.loader import StreamOptions
    from gristmill.order.trace import TraceRow
    from gristmill.streams.loader import StreamLoader

# What changes bytes or order of a stream without being one of its words.
_VERSION = 1


def stream(
    paths: PathLike | Sequence[PathLike],
    *,
    text: str = "text",
    id: str = "id",
    fields: Sequence[str] = (),
    documents: str = "file",
    format: str | None = None,
    encoding: str = "utf-8",
    name: str = "data",
    on_error: str = "raise",
) -> Stream:
    """Documents of files, folders or patterns (`*`, braces, `::`), read when they are needed; nothing is written.

    The words are those of a recipe's source. on_error="skip" passes over what cannot be read, and counts it.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not isinstance(given, Sequence) or not given or not all(isinstance(path, str | os.PathLike) for path in given):
        raise refuse("paths", "a path, a pattern or a list of them", paths)
    as_choice("on_error", on_error, ("raise", "skip"))
    said = {"text": text, "id": id, "documents": documents, "format": format, "encoding": encoding, "name": name}
    check_kinds(said, {**dict.fromkeys(said, str), "format": str | None}, "stream")
    layout = Format(text, id, as_names("fields", fields), documents, format, encoding)
    return Stream((SourceFiles(tuple(os.fspath(path) for path in given), layout),), name, on_error)


@dataclass(frozen=True, repr=False)
class Stream:
    """Documents on their way to rows. It is data, never changed: each word gives another stream."""

    sources: tuple[SourceFiles, ...]
    name: str = "data"
    on_error: str = "raise"
    steps: tuple[Step, ...] = ()
    tokenizer: Tokenizer | None = field(default=None, repr=False)
    cut: str | None = None
    seq_len: int = 0
    augmentations: tuple[Augmentation, ...] = ()

    def __repr__(self) -> str:
        words = [step.name for step in self.steps]
        words += [f"tokenize {self.tokenizer.name}"] if self.tokenizer else []
        words += [each.name for each in self.augmentations]
        words += [f"{self.cut} {self.seq_len:,}"] if self.cut else []
        return f"Stream({', '.join([self.name, *words])})"

    if not TYPE_CHECKING:  # to which every name would be one that it has

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(stream_lacks(name), name=name, obj=self)

    def __iter__(self) -> NoReturn:
        raise ConfigError(NO_BATCHES)

    def files(self) -> list[InputFile]:
        """The files that there are now, in order."""
        return [file for source in self.sources for file in source.listed(self.name)]

    @property
    def formats(self) -> dict[str, Format]:
        """How the files of each source are read."""
        return {source.name or self.name: source.format for source in self.sources}

    def units(self, lanes: int) -> Cut:
        """What the documents are cut into for so many lanes; asking lists the files."""
        return Units(self.files(), self.formats, lanes)

    def clean(self, **options: object) -> Stream:
        """Normalise texts, with the options of a recipe's `clean`."""
        return self._then(Clean(from_mapping(CleanOptions, options, "clean")))

    def filter(self, rule: str | Callable[..., object], *, batch: bool = False, **options: object) -> Stream:
        """Keep what a rule keeps: one of a recipe's filters by name with its options, or a function of your own.

        A function gets a document (a dict of id, source, path, text and carried fields) and returns True, False or a
        reason as text; with batch=True it gets an Arrow record batch and returns a boolean for each row.
        """
        as_flag("batch", batch)
        if isinstance(rule, str):
            return self._then(Filter(make_rule(rule, options | ({"batch": True} if batch else {}))))
        if not callable(rule):
            raise refuse("rule", "the name of a filter or a function", rule)
        if options:
            raise ConfigError(f"filter takes options for rules by name; {', '.join(options)} is for none.")
        return self._then(Filter(Function(rule, batch)))

    def map(self, function: Callable[..., object], *, batch: bool = False) -> Stream:
        """Other texts: the function gets a document (a dict) and returns its text, a dict with it, or None to drop it.

        With batch=True it gets an Arrow record batch and returns one, or an array of its texts.
        """
        return self._then(Map(Function(as_function("function", function), as_flag("batch", batch))))

    def split(self, val_fraction: float, *, seed: int = 0) -> tuple[Stream, Stream]:
        """Two streams, for training and for validation: the hash of a text says which of them its document is in.

        They are the two that a recipe with this `val_fraction` and `seed` makes; equal texts are in one of them.
        """
        share = float(val_fraction) if isinstance(val_fraction, Real) else 0.0  # NumPy's numbers are such, too
        if not LEAST_FRACTION <= share < 1:
            raise refuse("val_fraction", "a share above 0 and below 1", val_fraction)
        if not fits(number := as_whole("seed", seed, None), Seed):
            raise refuse("seed", spelt(Seed), seed)
        return self._then(Split(share, number, val=False)), self._then(Split(share, number, val=True))

    def _then(self, step: Step) -> Stream:
        if self.cut is not None:
            raise ConfigError(f"Steps on texts come before {self.cut}(): put filter, map, clean and split there.")
        if self._split is not None:
            raise ConfigError("split() is the last step on texts: what all others make of a text decides its part.")
        return replace(self, steps=(*self.steps, step))

    @property
    def _split(self) -> Split | None:
        """How its documents were split, if they were."""
        return next((step for step in self.steps if isinstance(step, Split)), None)

    def tokenize(self, tokenizer: str | Tokenizer, *, eos: int | str | None = None) -> Stream:
        """Texts to ids, with the EOS after each document: `gpt2`, a `tokenizer.json`, ... as in a recipe."""
        loaded = tokenizer if isinstance(tokenizer, Tokenizer) else load_tokenizer(tokenizer, eos=eos)
        return replace(self, tokenizer=loaded)

    def augment(self, *augmentations: Augmentation | Callable[..., object]) -> Stream:
        """Rearrange, hide or blur tokens, in this order: FIM, SpanCorruption, Mask, Noise, functions f(tokens, rng).

        They come after those that the stream has. Documents are rearranged before they become rows, so that nothing is
        lost; a function may change their length.
        """
        earlier = (replace(each, rate=rate_of(each)) for each in self.augmentations)
        return replace(self, augmentations=for_stream((*earlier, *augmentations), self.encoder))

    @property
    def encoder(self) -> Tokenizer:
        """The tokenizer, which a stream that is cut has."""
        if self.tokenizer is None:
            raise ConfigError('This stream has no tokenizer yet: say tokenize("gpt2") or another one.')
        return self.tokenizer

    def chunk(self, seq_len: int) -> Stream:
        """Rows of `seq_len` tokens of one endless text after the other."""
        return self._cut("chunk", seq_len)

    def pack(self, seq_len: int) -> Stream:
        """Rows of whole documents side by side; what is longer than a row is cut into windows."""
        return self._cut("pack", seq_len)

    def pad(self, seq_len: int) -> Stream:
        """A document a row, cut off at `seq_len` or padded."""
        return self._cut("pad", seq_len)

    def _cut(self, name: str, seq_len: int) -> Stream:
        if self.tokenizer is None:
            raise ConfigError(f'Say tokenize("gpt2") or another tokenizer before {name}({seq_len}).')
        return replace(self, cut=name, seq_len=as_whole("seq_len", seq_len))

    def recipe(self, out: PathLike) -> dict[str, object]:
        """The recipe of the store of this stream's documents, as `gm.prepare` takes it; functions of yours have none.

        Nothing is removed from it that the stream has: no duplicates, and no documents for val but by `split`.
        """
        (clean, rules), split = recipe_of(self.steps), self._split
        if self.augmentations:
            raise ConfigError("A store has plain tokens: take the recipe before augment(), and augment in the plan.")
        sources = [{"name": source.name or self.name, "paths": list(source.paths), **vars(source.format)}
                   for source in self.sources]  # fmt: skip
        return {"out": os.fspath(as_target("out", out)), "sources": sources, "clean": clean, "filters": rules,
                "dedup": [], "tokenizer": self.encoder.name, "eos": self.encoder.eos, "on_error": self.on_error,
                "seed": split.seed if split else 0,
                "store": {"val_fraction": split.val_fraction if split else 0.0}}  # fmt: skip

    def batch(
        self, batch_size: int, *, seed: int = 0, shuffle: bool = True, epochs: int | None = None, hold: int = 1
    ) -> Batches:
        """The global batches: `batch_size` rows each, whatever the number of ranks.

        shuffle: units in an order of each epoch's own, and documents among those read together, which are the units of
        one lane, up to `hold` of an epoch at a time: memory grows with it. epochs: end after so many; None goes on for
        ever.
        """
        return Batches((self,), (Fraction(1),), as_whole("batch_size", batch_size), as_whole("seed", seed, None),
                       as_flag("shuffle", shuffle), None if epochs is None else as_whole("epochs", epochs),
                       as_whole("hold", hold))  # fmt: skip


@dataclass(frozen=True, repr=False)
class Batches:
    """The global batches of streams and stores, whose weights are in this order; `loader` gives those of a rank,
    iterating all of them."""

    streams: tuple[Stream, ...]
    weights: tuple[Fraction, ...]
    batch_size: int
    seed: int = 0
    shuffle: bool = True
    epochs: int | None = None
    hold: int = 1
    stores: tuple[tuple[str, Store], ...] = ()
    augment: tuple[Augmentation, ...] = ()
    locality: Locality | None = None

    def __post_init__(self) -> None:
        first = self.streams[0]
        for stream in self.streams:
            if stream.cut is None:
                raise ConfigError(
                    "Say how rows are made before batch(): chunk(seq_len), pack(seq_len) or pad(seq_len)."
                )
            for what in ("cut", "seq_len"):
                if getattr(stream, what) != getattr(first, what):
                    raise ConfigError(f"Streams of one mix are cut alike: {what} differs in {stream.name!r}.")
            if stream.encoder.fingerprint != first.encoder.fingerprint:
                raise ConfigError(f"Streams of one mix have one tokenizer: that of {stream.name!r} is another.")
        for name, store in self.stores:
            check_store(name, store, first.encoder)
        stored = self.plan.augmentations if self.augment and self.plan else ()
        check_alike(
            [*((each.name, each.augmentations) for each in self.streams), *((name, stored) for name, _ in self.stores)]
        )

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in ("units", "parts", "plan")}

    def __repr__(self) -> str:
        sources = ", ".join([*map(repr, self.streams), *(f"store {name}" for name, _ in self.stores)])
        return f"Batches({self.batch_size:,} rows of {sources}; seed {self.seed})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(batches_lack(name, hasattr(Stream, name)), name=name, obj=self)

    @property
    def names(self) -> tuple[str, ...]:
        """The sources' names; `sample_ids` count them in this order."""
        return *(stream.name for stream in self.streams), *(name for name, _ in self.stores)

    @property
    def first(self) -> Stream:
        """One for all, where they are alike: cut, sequence length, tokenizer."""
        return self.streams[0]

    @cached_property
    def units(self) -> tuple[Cut, ...]:
        """What each stream is cut into; asking lists its files."""
        return tuple(each.units(self.batch_size) for each in self.streams)

    def walk(self, k: int) -> Walk:
        """The way of the lanes through the units of stream k."""
        key = derive_key(self.seed, "stream", self.streams[k].name) if self.shuffle else None
        return Walk(len(self.units[k]), self.batch_size, key, self.epochs, self.hold)

    def rearranger(self, k: int) -> Rearranger | None:
        """What is done to the documents of stream k before they are rows."""
        stream = self.streams[k]
        key = derive_key(self.seed, "augment", stream.name, "documents")
        return rearranger(stream.augmentations, stream.encoder, key, stream.seq_len)

    def augmented(self, lanes: range) -> AugmentedRows | None:
        """What is done to the filled rows of these lanes."""
        return AugmentedRows(self.streams, self.seed, lanes) if asks(self.streams) else None

    @cached_property
    def mix(self) -> Mix:
        """Which stream each row of the run is of."""
        return Mix(self.weights, block_size(self.weights, None), derive_key(self.seed, "mix"))

    @cached_property
    def plan(self) -> Plan | None:
        """The order of the stores, one row a step; None where there are none."""
        options = {"cut": self.first.cut, "shuffle": self.shuffle, "augment": self.augment, "locality": self.locality}
        made = functools.partial(Plan, dict(self.stores), seq_len=self.first.seq_len, batch_size=1, options=options)
        return made(seed=self.seed) if self.stores else None

    @cached_property
    def parts(self) -> dict[str, object]:
        """What the batches depend on, by name: 8 hex digits of what is long."""
        long: dict[str, object] = {
            "files": [units.fingerprint for units in self.units],
            "format": [
                [[content(format) for format in stream.formats.values()], stream.on_error] for stream in self.streams
            ],
            "steps": [[step.content for step in stream.steps] for stream in self.streams],
            "tokenizer": self.first.encoder.fingerprint,
            "mix": [[name, str(weight)] for name, weight in zip(self.names, self.weights, strict=True)],
        }
        if self.plan is not None:
            long["stores"] = self.plan.fingerprint
        if any(stream.augmentations for stream in self.streams):
            long["augment"] = [[each.content((ALONE,)) for each in stream.augmentations] for stream in self.streams]
        plain = {"cut": self.first.cut, "seq_len": self.first.seq_len, "version": _VERSION}
        order = {name: getattr(self, name) for name in ("batch_size", "seed", "shuffle", "epochs", "hold")}
        if self.hold > 1:  # states from before units of two epochs were kept apart know another order
            order["hold"] = [self.hold, "of an epoch"]
        return {**{name: fingerprint(value)[:8] for name, value in long.items()}, **plain, **order}

    @property
    def fingerprint(self) -> str:
        """Names all that decides the batches, free of paths."""
        return fingerprint(self.parts)

    def loader(self, rank: int = 0, world_size: int = 1, **options: Unpack[StreamOptions]) -> StreamLoader:
        """The batches of one rank: iteration, state_dict, load_state_dict and stats as a Loader has them."""
        from gristmill.streams.loader import StreamLoader

        return StreamLoader(self, rank, world_size, **options)

    def trace(self, step: int, state: Mapping[str, object] | None = None) -> list[TraceRow]:
        """Which documents, and which of their tokens, each row of a step holds.

        state: one of all lanes that was kept at that step or before, from which on batches are made again; without
        one, from the first on. Tokens are counted as they are served, after `augment` has rearranged them.
        """
        from gristmill.streams.trace import trace

        return trace(self, as_whole("step", step, 0), state)

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.loader())
