"""Who looks on while a loader serves: the record of the run, and hooks for the metrics of others."""

from __future__ import annotations

from typing import Protocol

from gristmill.core.arguments import PathLike
from gristmill.core.errors import ConfigError
from gristmill.loader.record import Record
from gristmill.order.plan import Plan


class Observer(Protocol):
    """Is told of every batch in the loop itself, so it must not take long."""

    def served(self, step: int, tokens: int, waited: float) -> None:
        """The loop has taken the batch of a step: `tokens` of this rank, after `waited` seconds."""


class Observed:
    """What the loaders of plans and of streams share: `record` and `record_loss`, and `observe` for everybody else."""

    # Not part of a loader's state: a copy in another process serves others, and nobody looks on.
    _observers: tuple[Observer, ...] = ()
    _record: Record | None = None

    def _recorded(self) -> tuple[Plan | None, int, int]:
        """The plan to be kept beside the record, the rank and the world size."""
        raise NotImplementedError

    def observe(self, observer: Observer) -> None:
        """Tell somebody of every batch from now on."""
        self._observers = (*self._observers, observer)

    def record(self, path: PathLike) -> None:
        """Keep a row a step at `path`, such as run/served.parquet, and the plan beside it: `gristmill inspect run`.

        Every rank that calls this keeps its own rows. A run that is resumed goes on with the record that is there.
        """
        if self._record is not None:
            raise ConfigError("This loader is recorded already: one record is enough.")
        plan, rank, world_size = self._recorded()
        self._record = Record(path, plan, rank, world_size)
        self.observe(self._record)

    def record_loss(self, loss: object, step: int | None = None) -> None:
        """The loss of a step, by default of the last one served: a number, or one for each of this rank's rows.

        Tensors may stay on their device: nothing waits for them here.
        """
        if self._record is None:
            raise ConfigError('Nothing is recorded yet: call loader.record("run/served.parquet") first.')
        self._record.loss(loss, step)

    def _tell(self, step: int, tokens: int, waited: float) -> None:
        for observer in self._observers:
            observer.served(step, tokens, waited)
