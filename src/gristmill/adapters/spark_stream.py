"""Spark: train straight from a DataFrame of texts, or of token ids; nothing is written.

loader = SparkStreamLoader(df, "gpt2", seq_len=2048, batch_size=64, rank=0, world_size=8)
for batch in loader: ...
loader.state_dict(); loader.load_state_dict(gm.merge_states(states))

    stream_frame        the same as a stream, with filters, pack and pad, for gm.mix and for the loaders of torch,
                        Hugging Face and OLMo-core
    clustered           a DataFrame sorted by the key that it is asked by, for a table that is read part by part
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from gristmill.core.arguments import as_choice
from gristmill.core.options import as_options
from gristmill.core.values import Seconds
from gristmill.loader.loader import StreamOptions
from gristmill.streams.cuts import CUTS
from gristmill.streams.frame_queries import PATIENCE, clustered
from gristmill.streams.frames import FrameStream, stream_frame
from gristmill.streams.loader import StreamLoader

__all__ = ["FrameOptions", "FrameStream", "SparkStreamLoader", "clustered", "stream_frame"]


@dataclass(frozen=True)
class FrameOptions:
    """Which columns are read (token ids if text_col is array<int>), how rows are cut, and the order.

    epochs None goes on for ever. hold: ranges of keys that a row of the batch reads together; more are fewer queries
    for more memory. patience: seconds in which Spark has to answer a query.
    """

    text_col: str = "text"
    id_col: str | None = None
    cut: str = "chunk"
    shuffle: bool = True
    epochs: int | None = None
    hold: int = 1
    on_error: str = "raise"
    patience: Seconds = PATIENCE


class SparkStreamLoader(StreamLoader):
    """The batches of one rank from a Spark DataFrame, or from a function that opens a session and returns one.

    A batch is `batch_size` rows of `seq_len` tokens over all ranks, in an order of (seed, epoch) that neither the
    DataFrame's partitions nor the number of ranks change. `loader` are options of `StreamLoader`: keys, threads.

    Memory: this process holds two turns of each of its rows, a turn being about 1 MiB of text times hold (512 KiB for
    128 rows, 256 KiB for 256 and more), and the answer to one query, at most 256 MiB; the driver has that answer too,
    where it is not this process. Executors scan and filter, and hold what one partition adds to an answer. The count at
    the start is a million rows of five numbers at most.
    """

    def __init__(
        self,
        df: Any | Callable[[], Any],
        tokenizer: Any,
        seq_len: int,
        batch_size: int,
        *,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        options: FrameOptions | Mapping[str, object] | None = None,
        **loader: Unpack[StreamOptions],
    ) -> None:
        said = as_options(FrameOptions, options or {}, "options")
        as_choice("cut", said.cut, tuple(CUTS))
        stream = stream_frame(df, text_col=said.text_col, id_col=said.id_col, on_error=said.on_error,
                              patience=said.patience)  # fmt: skip
        cut = getattr(stream.tokenize(tokenizer), said.cut)(seq_len)
        batches = cut.batch(batch_size, seed=seed, shuffle=said.shuffle, epochs=said.epochs, hold=said.hold)
        super().__init__(batches, rank, world_size, **loader)

    def __repr__(self) -> str:
        return f"SparkStreamLoader(at step {self.step:,}, rank {self.rank} of {self.world_size})"

    @property
    def rank_batch_size(self) -> int:
        """Tokens of a batch of this rank, as OLMo-core counts them."""
        return len(self._rows) * self.stream.first.seq_len
