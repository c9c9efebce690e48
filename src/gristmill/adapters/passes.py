"""A plan in passes, for trainers that count epochs.

loader = PassLoader(plan, keys=("labels",))
for epoch in range(3):
    for batch in loader: ...             # len(loader) batches, or what is left of a pass that was resumed

A pass is as many batches as the plan has. The first is the plan; each later one goes on where the one before ended,
with a new order of every source that begins again. An endless plan is one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Unpack

from gristmill.adapters.parcel import Tensors
from gristmill.adapters.torch import TorchLoader
from gristmill.core.errors import ConfigError
from gristmill.loader.groups import step_after
from gristmill.loader.loader import LoaderOptions
from gristmill.order.plan import Plan


def extended(plan: Plan, batches: int) -> Plan:
    """The plan, gone on until it has this many batches; those that it has already stay as they are."""
    steps = step_after(plan, 0, batches)
    if plan.total_steps is None or steps <= plan.total_steps:
        return plan
    if not plan.options.drop_last:
        raise ConfigError(
            f"A plan with drop_last=False is a single pass of {len(plan):,} batches: leave it out to train on more."
        )
    return plan.with_steps(steps)


class PassLoader(TorchLoader):
    """A `TorchLoader` whose iteration ends with the pass it is in; the next iteration is the next pass.

    The state is the loader's: it also tells in which pass it was taken. `stats` begin anew with each pass.
    """

    def __init__(
        self, plan: Plan, rank: int | None = None, world_size: int | None = None, **options: Unpack[LoaderOptions]
    ) -> None:
        super().__init__(plan, rank, world_size, **options)
        self._pass = plan

    def __len__(self) -> int:
        """Batches of a whole pass; TypeError if the plan is endless."""
        return len(self._pass)

    def __iter__(self) -> Iterator[Tensors]:
        """Batches from `step` to the end of the pass."""
        if self._pass.total_steps is None:
            yield from super().__iter__()
            return
        self._reach(self.served + 1)
        for batch in super().__iter__():
            yield batch
            if self.served % len(self._pass) == 0:
                return

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on where `state` was taken, in whatever pass that was."""
        step = state.get("step") if isinstance(state, Mapping) else None
        if isinstance(step, int) and self._pass.total_steps is not None:
            self._reach(self._pass.skips.served(step))
        super().load_state_dict(state)

    def _reach(self, batches: int) -> None:
        """Let the loader's plan hold the pass in which this many batches end."""
        passes = -(-batches // len(self._pass))
        if len(self.plan) < passes * len(self._pass):
            self.close()
            self.plan = extended(self._pass, passes * len(self._pass))
            self._reset()
            if self._record is not None:
                self._record.keep_plan(self.plan)
