"""A data set over Arrow files for torch's DataLoader and torchdata's StatefulDataLoader, without importing either.

torch's IterableDataset is an abstract base class, so it can be told of a class that does not inherit from it. That is
done the moment someone asks what this data set is: importing torch takes over a second, opening the data set does not.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from gristmill.arrow.files import ArrowFile, MappedFile, Piece, Row, between_rows, share_rows, shuffle_pieces
from gristmill.arrow.formats import READ
from gristmill.arrow.left import STATE_VERSION, ArrowState, Run, Share, as_arrow_state, cut, runs_of, share_of
from gristmill.arrow.reading import Pass, Place
from gristmill.arrow.steps import Filter, Function, Map, Step, Window
from gristmill.core.arguments import as_choice, as_flag, as_function, as_mapping, as_names, as_whole
from gristmill.core.errors import ConfigError, StateError
from gristmill.core.hashing import fingerprint
from gristmill.core.html import counted

# A change of the rows or of their order, in an epoch, and what a state calls it.
Move = Callable[..., tuple[Piece, ...]]


class ArrowIterableDataset:
    """Rows of Arrow files as dicts; every method but `set_epoch` and the state's gives a new data set.

    Its words mean what those of Hugging Face's IterableDataset do. What is left to read is the state: resuming reads
    nothing of what was before, on any number of ranks, given by `shard(world_size, rank)`, and of worker processes.
    """

    def __init__(self, files: Sequence[ArrowFile], pieces: Sequence[Piece]) -> None:
        self._files, self._pieces = tuple(files), tuple(pieces)
        self._identity = fingerprint([[[file.size, file.rows] for file in files], [vars(piece) for piece in pieces]])
        self._moves: tuple[tuple[str, Move], ...] = ()
        self._steps: tuple[Step, ...] = ()
        self._batch: tuple[int, bool] | None = None
        self._after: tuple[Step, ...] = ()
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
        rows = counted(sum(piece.length for piece in self._pass.pieces), "row")
        words = "".join(f".{word}" for word in self._words)
        return f"ArrowIterableDataset({rows} of {counted(len(self._files), 'file')}){words}"

    @property
    def _words(self) -> list[str]:
        batch = [f"batch({self._batch[0]})"] if self._batch else []
        steps = [step.word for step in self._steps] + batch + [step.word for step in self._after]
        return [word for word, _ in self._moves] + steps

    # Which rows, in which order.

    def shuffle(self, seed: int, rows: bool | None = None) -> ArrowIterableDataset:
        """The files in another order, and with `rows` the rows inside each of them: computed, nothing is buffered.

        Without `rows`, those of a data set that lies in a single file are shuffled: there is nothing else to move.
        """
        seed = as_whole("seed", seed, None)
        rows = len({piece.file for piece in self._pieces}) == 1 if rows is None else as_flag("rows", rows)
        return self._moved(f"shuffle({seed}, rows={rows})", partial(shuffle_pieces, seed=seed, rows=rows))

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
        return self._windowed("take", 0, as_whole("n", n, 0))

    def skip(self, n: int) -> ArrowIterableDataset:
        """All but the first `n` examples; after a filter or a batched map, all up to there are read to pass them."""
        return self._windowed("skip", as_whole("n", n, 0), sys.maxsize)

    def _windowed(self, kind: str, low: int, high: int) -> ArrowIterableDataset:
        count = high if kind == "take" else low
        if self._batch is not None:
            raise ConfigError(f"{kind}({count}) of batches: say {kind}({count * self._batch[0]}) before batch().")
        if self._steps:
            return self._settled()._changed(_steps=(*self._steps, Window(kind, count)))
        return self._moved(f"{kind}({count})", partial(between_rows, low=low, high=high))

    def _moved(self, word: str, move: Move) -> ArrowIterableDataset:
        settled = self._settled()
        return settled._changed(_moves=(*settled._moves, (word, move)))

    def _settled(self) -> ArrowIterableDataset:
        """The same, where the rows of the share are all that there are: what follows is done to these alone."""
        low, high = self._share
        if self._share == Share():
            return self
        move = f"shard({low}, {high})", partial(share_rows, low=low, high=high)
        return self._changed(_moves=(*self._moves, move), _share=Share())

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
        if made.with_indices and (self._batch or not all(step.regular for step in self._steps)):
            raise ConfigError(
                "with_indices=True counts rows, and after filter, take, skip, batch or a batched map only reading them "
                "all would tell how many there are: call that function before these."
            )
        return made

    def _then(self, step: Step) -> ArrowIterableDataset:
        if self._batch is None:
            return self._changed(_steps=(*self._steps, step))
        if step.at_once > 1:
            raise ConfigError("After batch() a function sees a batch at a time: leave out batched=True.")
        return self._changed(_after=(*self._after, step))

    def batch(self, batch_size: int, drop_last_batch: bool = False) -> ArrowIterableDataset:
        """Columns of `batch_size` examples each; the last of each worker may be shorter, unless it is dropped."""
        if self._batch is not None:
            raise ConfigError("The examples are batched already: say batch() once.")
        return self._changed(_batch=(as_whole("batch_size", batch_size), as_flag("drop_last_batch", drop_last_batch)))

    def with_format(self, format: str) -> ArrowIterableDataset:
        """`python` values (the default), `numpy` views of the file for numbers and lists of them, `torch` tensors."""
        return self._changed(_format=as_choice("format", format, tuple(READ)))

    @property
    def column_names(self) -> list[str] | None:
        """The names of the columns; None after a map, which may add others."""
        if any(isinstance(step, Map) for step in (*self._steps, *self._after)):
            return None
        return MappedFile(self._files[self._pieces[0].file]).schema.names if self._pieces else []

    # Reading.

    @property
    def _pass(self) -> Pass:
        """What is read in this epoch."""
        epoch = self._epoch
        if self._kept is None or self._kept[0] != epoch:
            pieces = self._pieces
            for _, move in self._moves:
                pieces = move(pieces, epoch=epoch)
            made = Pass(self._files, pieces, self._steps, self._batch, self._after, self._format)
            self._kept = epoch, made
        return self._kept[1]

    def __len__(self) -> int:
        """Examples of this data set; TypeError where a filter or a batched map decides it."""
        if not all(step.regular for step in (*self._steps, *self._after)):
            raise TypeError(
                "The number of rows after filter or a batched map is known only by reading them all: count them by "
                "sum(1 for _ in dataset), or take the len() of the data set before that step."
            )
        rows = sum(run.stop - run.first for run in cut(self._pass.whole, self._share))
        size, dropped = self._batch or (1, False)
        return rows // size if dropped else -(-rows // size)

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
        return {
            "version": STATE_VERSION,
            "data": self._identity,
            "order": " ".join(self._words),
            "epoch": self._epoch,
            "share": [str(share.low), str(share.high)],
            "left": [list(run) for run in runs if run.first < run.stop],
        }

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


def _worker() -> tuple[int, int, int]:
    """How many worker processes, which one, and a number of their pass, under torch's DataLoader; else 1, 0 and 0."""
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    return (info.num_workers, info.id, info.seed - info.id) if info else (1, 0, 0)
