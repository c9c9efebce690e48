"""A data set over Arrow files for torch's DataLoader and torchdata's StatefulDataLoader, without importing either.

torch's IterableDataset is an abstract base class, so it can be told of a class that does not inherit from it. That is
done the moment someone asks what this data set is: importing torch takes over a second, opening the data set does not.
"""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gristmill.arrow.chain import Chain, Link, Shuffle, Stretch, Window, planned, unit_of
from gristmill.arrow.files import ArrowFile, MappedFile, Piece, Row
from gristmill.arrow.formats import READ
from gristmill.arrow.left import STATE_VERSION, ArrowState, Run, Share, as_arrow_state, cut, runs_of, sealed, share_of
from gristmill.arrow.reading import Applied, Batched, Pass, Place
from gristmill.arrow.steps import Filter, Function, Map, Step
from gristmill.core.arguments import as_choice, as_flag, as_function, as_mapping, as_names, as_whole
from gristmill.core.errors import ConfigError, StateError
from gristmill.core.hashing import fingerprint
from gristmill.core.html import counted

# Rows that may have to be mapped together, for batches of several sizes to be as long as asked for.
_MOST_TOGETHER = 100_000


class ArrowIterableDataset:
    """Rows of Arrow files as dicts; every method but `set_epoch` and the state's gives a new data set.

    Its words mean what those of Hugging Face's IterableDataset do. What is left to read is the state: resuming reads
    nothing of what was before, on any number of ranks, given by `shard(world_size, rank)`, and of worker processes.
    """

    def __init__(self, files: Sequence[ArrowFile], pieces: Sequence[Piece]) -> None:
        self._files, self._pieces = tuple(files), tuple(pieces)
        self._identity = fingerprint([[[file.size, file.rows] for file in files], [vars(piece) for piece in pieces]])
        self._chain: Chain = ()
        self._batch: Batched | None = None
        self._after: tuple[Applied, ...] = ()
        self._format, self._share = "python", Share()
        # The epoch, and the pass of a DataLoader that went on from a loaded state: shared with its workers.
        self._shared: Any = [0, 0]
        self._restart()

    def _restart(self) -> None:
        self._loaded: tuple[Share, tuple[Run, ...]] | None = None
        self._reading: tuple[Share, tuple[Run, ...]] | None = None
        self._place: Place = (0, 0, 0)
        self._kept: tuple[int, Pass] | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class; isinstance asks for it, and by then torch must know it, and share what its workers share."""
        base = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", None)
        if base is not None:
            base.register(type(self))
            if isinstance(self._shared, list):
                self._shared = sys.modules["torch"].tensor(self._shared).share_memory_()
        return type(self)

    def _changed(self, **attributes: object) -> ArrowIterableDataset:
        new = copy.copy(self)
        vars(new).update(attributes)
        new._shared = [self._epoch, 0]
        new._restart()
        return new

    def __repr__(self) -> str:
        # What only reading would find is not looked for.
        known = itertools.takewhile(lambda link: not (isinstance(link, Window) and link.found), self._chain)
        read = planned(self._files, self._pieces, tuple(known), self._epoch)
        rows = counted(sum(piece.length for piece in read.pieces), "row")
        words = "".join(f".{word}" for word in self._words)
        return f"ArrowIterableDataset({rows} of {counted(len(self._files), 'file')}){words}"

    @property
    def _words(self) -> list[str]:
        batch = [f"batch({self._batch.size})"] if self._batch else []
        together = unit_of(self._chain)
        by = [f"by {together}"] if together > max([1, *map(_batch_size, self._chain)]) else []
        return [link.word for link in self._chain] + by + batch + [applied.word for applied in self._after]

    # Which rows, in which order.

    def shuffle(self, seed: int, rows: bool | None = None) -> ArrowIterableDataset:
        """The files in another order, and with `rows` the rows inside each of them: computed, nothing is buffered.

        Without `rows`, those of a data set that lies in a single file are shuffled: there is nothing else to move.
        After a batched function its batches are moved, and the examples inside each of them; after batch() nothing is.
        """
        seed = as_whole("seed", seed, None)
        if self._batch is not None:
            raise ConfigError("shuffle moves examples, and these are batches: call shuffle before batch().")
        in_batches = any(map(_batch_size, self._chain))
        alone = in_batches or len({piece.file for piece in self._pieces}) == 1
        return self._linked(Shuffle(seed, alone if rows is None else as_flag("rows", rows)))

    def shard(self, num_shards: int, index: int) -> ArrowIterableDataset:
        """One of `num_shards` shares of the rows, as long as each other to one row, whatever the number of files.

        Where a batched function sees several rows together, to so many. States of all shards make one of the whole.
        """
        num_shards, index = as_whole("num_shards", num_shards, None), as_whole("index", index, None)
        if num_shards < 1 or not 0 <= index < num_shards:
            raise ConfigError(f"shard({num_shards}, {index}) asks for no shard: index counts from 0 below num_shards.")
        return self._changed(_share=self._share.part(num_shards, index))

    def take(self, n: int) -> ArrowIterableDataset:
        """The first `n` examples; after a filter or a batched map, all up to there are read to find them."""
        return self._windowed("take", as_whole("n", n, 0))

    def skip(self, n: int) -> ArrowIterableDataset:
        """All but the first `n` examples; after a filter or a batched map, all up to there are read to pass them."""
        return self._windowed("skip", as_whole("n", n, 0))

    def _windowed(self, kind: str, count: int) -> ArrowIterableDataset:
        if self._batch is not None:
            raise ConfigError(f"{kind}({count}) of batches: say {kind}({count * self._batch.size}) before batch().")
        return self._linked(Window(kind, count, late=self._has_functions, found=not self._regular))

    def _linked(self, link: Link) -> ArrowIterableDataset:
        settled = self._settled()
        return settled._changed(_chain=(*settled._chain, link))

    def _settled(self) -> ArrowIterableDataset:
        """The same, where the examples of the share are all that there are: what follows is done to these alone."""
        if self._share == Share():
            return self
        return self._changed(_chain=(*self._chain, Stretch(*self._share)), _share=Share())

    @property
    def _has_functions(self) -> bool:
        """Whether a function sees examples before batch()."""
        return any(isinstance(link, Applied) for link in self._chain)

    @property
    def _regular(self) -> bool:
        """Whether there are as many examples as rows, before batch()."""
        return all(link.step.regular for link in self._chain if isinstance(link, Applied))

    def set_epoch(self, epoch: int) -> None:
        """Let shuffles be those of this epoch, each in an order of its own, and begin at its start."""
        self._restart()
        self._shared[0], self._shared[1] = as_whole("epoch", epoch, 0), 0

    @property
    def _epoch(self) -> int:
        return int(self._shared[0])

    # What is done to them.

    def map(
        self,
        function: Callable[..., Mapping[str, object]],
        batched: bool = False,
        batch_size: int = 1000,
        remove_columns: str | Sequence[str] = (),
        with_indices: bool = False,
        fn_kwargs: Mapping[str, object] | None = None,
    ) -> ArrowIterableDataset:
        """Rows with what the function returns merged in, one by one or as columns of at most `batch_size` rows.

        An index is the place of a row in the order of this data set. Batches are the same whoever reads them; after a
        resume the one under way is mapped again.
        """
        called = self._function(function, batched, batch_size, with_indices, fn_kwargs)
        return self._then(Map(called, frozenset(as_names("remove_columns", remove_columns))))

    def filter(
        self,
        function: Callable[..., object],
        batched: bool = False,
        batch_size: int = 1000,
        with_indices: bool = False,
        fn_kwargs: Mapping[str, object] | None = None,
    ) -> ArrowIterableDataset:
        """Only the rows for which the function says yes; with `batched` it says so of each of at most `batch_size`."""
        return self._then(Filter(self._function(function, batched, batch_size, with_indices, fn_kwargs)))

    def _function(self, function: Any, batched: object, size: object, indices: object, kwargs: Any) -> Function:
        named = as_mapping("fn_kwargs", {} if kwargs is None else kwargs, "a mapping of names to values")
        at_once = as_whole("batch_size", size)
        made = Function(as_function("function", function), at_once if as_flag("batched", batched) else None,
                        as_flag("with_indices", indices), named)  # fmt: skip
        if made.with_indices and (self._batch or not self._regular):
            raise ConfigError(
                "with_indices=True counts rows, and after filter, batch or a batched map only reading them all would "
                "tell how many there are: call that function before these."
            )
        return made

    def _then(self, step: Step) -> ArrowIterableDataset:
        applied = Applied(step, self._format)
        if self._batch is None:
            # Who counts rows counts those of a share alone; others see the same of them, whoever has the share.
            made = self._linked(applied) if step.with_indices else self._changed(_chain=(*self._chain, applied))
            if (together := unit_of(made._chain)) > _MOST_TOGETHER:
                raise ConfigError(
                    f"Batches of these sizes end together only every {together:,} rows, which would be mapped at once: "
                    "let one batch_size be a multiple of the other."
                )
            return made
        if step.batch_size is not None:
            raise ConfigError("After batch() a function sees a batch at a time: leave out batched=True.")
        return self._changed(_after=(*self._after, applied))

    def batch(self, batch_size: int, drop_last_batch: bool = False) -> ArrowIterableDataset:
        """Columns of `batch_size` examples each; the last of each worker may be shorter, unless it is dropped."""
        if self._batch is not None:
            raise ConfigError("The examples are batched already: say batch() once.")
        size, drop_last = as_whole("batch_size", batch_size), as_flag("drop_last_batch", drop_last_batch)
        return self._changed(_batch=Batched(size, drop_last, self._format))

    def with_format(self, format: str) -> ArrowIterableDataset:
        """`python` values (the default), `numpy` views of the file for numbers and lists of them, `torch` tensors.

        It is that of the examples given, and of what functions see that are added after it.
        """
        return self._changed(_format=as_choice("format", format, tuple(READ)))

    @property
    def column_names(self) -> list[str] | None:
        """The names of the columns; None after a map, which may add others."""
        links = (*self._chain, *self._after)
        if any(isinstance(link, Applied) and isinstance(link.step, Map) for link in links):
            return None
        return MappedFile(self._files[self._pieces[0].file]).schema.names if self._pieces else []

    # Reading.

    @property
    def _pass(self) -> Pass:
        """What is read in this epoch."""
        epoch = self._epoch
        if self._kept is None or self._kept[0] != epoch:
            read = planned(self._files, self._pieces, self._chain, epoch)
            self._kept = epoch, replace(read, batch=self._batched, after=self._after, format=self._format)
        return self._kept[1]

    @property
    def _batched(self) -> Batched | None:
        """The batches; what no function has seen is not put into a format before something looks at it."""
        if self._batch is None or self._batch.format == "python" or self._has_functions:
            return self._batch
        return replace(self._batch, format=self._after[0].format if self._after else self._format)

    def __len__(self) -> int:
        """Examples of this data set; TypeError where a filter or a batched map decides it."""
        if not self._regular or not all(applied.step.regular for applied in self._after):
            raise TypeError(
                "The number of rows after filter or a batched map is known only by reading them all: count them by "
                "sum(1 for _ in dataset), or take the len() of the data set before that step."
            )
        rows = sum(run.stop - run.first for run in cut(self._pass.whole, self._share))
        if self._batch is None:
            return rows
        return rows // self._batch.size if self._batch.drop_last else -(-rows // self._batch.size)

    def __iter__(self) -> Iterator[Row]:
        """Examples from the loaded state on, once; else from the start."""
        self._reading = _, runs = self._begun()
        self._loaded, self._place = None, (0, runs[0].first, runs[0].given) if runs else (0, 0, 0)
        return self._given(self._pass, runs)

    def _given(self, read: Pass, runs: tuple[Run, ...]) -> Iterator[Row]:
        """Each example, with the place after it noted beforehand: whoever holds one may ask for the state."""
        for example, place in read.given(runs):
            self._place = place
            yield example
        self._place = (len(runs), 0, 0)

    def _begun(self) -> tuple[Share, tuple[Run, ...]]:
        """The share that is this worker's of this rank, and what is left of it."""
        workers, worker, begun = _worker()
        share = self._share.part(workers, worker)
        if self._loaded is None or int(self._shared[1]) not in (0, begun):
            return share, cut(self._pass.whole, share)
        self._shared[1] = begun
        whole, runs = self._loaded
        return share, cut(runs, share.inside(_covering(whole, share)))

    # State.

    def state_dict(self) -> ArrowState:
        """What is left after the last example given: of this rank's share, and in a worker process of its own."""
        share, runs = self._reading or self._begun()
        if self._reading:
            number, unit, given = self._place
            runs = tuple(Run(unit, run.stop, given) if i == 0 else run for i, run in enumerate(runs[number:]))
        return sealed({
            "version": STATE_VERSION,
            "data": self._identity,
            "order": " ".join(self._words),
            "epoch": self._epoch,
            "share": [str(share.low), str(share.high)],
            "left": [list(run) for run in runs if run.first < run.stop],
        })  # fmt: skip

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Let the next pass begin where `state` was taken, in its epoch; nothing is read for it."""
        found = as_arrow_state(state)
        if found["data"] != self._identity:
            raise StateError("The state belongs to other Arrow files: their number, sizes or rows differ.")
        if found["order"] != (own := " ".join(self._words)):
            raise StateError(
                f"The state belongs to the order {found['order']!r}, this data set has {own!r}: "
                "shuffle, shard, map and batch it the same way."
            )
        loaded = share_of(found), runs_of(found)
        _covering(loaded[0], self._share.part(*_worker()[:2]))
        self.set_epoch(found["epoch"])
        self._loaded = loaded


def _covering(whole: Share, share: Share) -> Share:
    """The share that a state is of, if it has all of `share`."""
    if not whole.covers(share):
        raise StateError(
            f"This state is of the data set from {whole.low} to {whole.high}, and {share.low} to {share.high} is to be "
            "read: load the states of all ranks by gm.merge_states([...])."
        )
    return whole


def _batch_size(link: Link) -> int:
    """How many rows a batched function sees together; 0 of anything else."""
    return (link.step.batch_size or 0) if isinstance(link, Applied) else 0


def _worker() -> tuple[int, int, int]:
    """How many worker processes, which one, and a number of their pass, under torch's DataLoader; else 1, 0 and 0."""
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    return (info.num_workers, info.id, info.seed - info.id) if info else (1, 0, 0)
