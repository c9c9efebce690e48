"""A plan's phases resolved into segments: stretches of steps with one mix, one length, one batch size.

Each source has a cursor (epoch, index) that carries over from segment to segment. Where seq_len changes, each source
moves on to its next block of units; where it restarts, to its next epoch; what it leaves unread is kept for the report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gristmill.core.arrays import Ints
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.hashing import derive_key
from gristmill.order.cut import CUTS
from gristmill.order.epochs import UNITS_PER_BLOCK, EpochOrder
from gristmill.order.mix import Mix, block_size, exact_weights
from gristmill.order.options import Phase, PlanOptions
from gristmill.order.source import Source


@dataclass(frozen=True)
class Lane:
    """One source inside a segment: its epochs' order, its cursor on entering, and what that entry left unread."""

    order: EpochOrder
    shards: int
    epoch: int
    index: int
    unread_tokens: int = 0

    def position(self, given: int) -> tuple[int, int]:
        """(epoch, index) after `given` samples of this segment."""
        more, index = divmod(self.index + given, self.order.samples)
        return self.epoch + more, index


@dataclass(frozen=True)
class Segment:
    """The steps [from_step, to_step) with one mix, sequence length and batch size; to_step None is endless."""

    from_step: int
    to_step: int | None
    batch_size: int
    seq_len: int
    unit: int
    mix: Mix
    lanes: tuple[Lane, ...]

    def given(self, step: int) -> Ints:
        """Samples that each source has given in this segment before `step`."""
        return self.mix.given((step - self.from_step) * self.batch_size)

    def samples(self, step: int, count: int) -> Ints:
        """(count * batch_size, 3): source, epoch and sample of every row of `count` steps."""
        first = (step - self.from_step) * self.batch_size
        source, ordinal = self.mix.labels(np.arange(first, first + count * self.batch_size))
        out = np.empty((len(source), 3), dtype=np.int64)
        out[:, 0] = source
        for k, lane in enumerate(self.lanes):
            here = slice(None) if len(self.lanes) == 1 else np.flatnonzero(source == k)
            self._take(lane, ordinal[here], out, here)
        return out

    def _take(self, lane: Lane, ordinals: Ints, out: Ints, rows: slice | Ints) -> None:
        """Write epoch and sample of a lane's consecutive ordinals into `rows`: one permutation an epoch."""
        at, end = 0, len(ordinals)
        epochs, samples = np.empty(end, dtype=np.int64), np.empty(end, dtype=np.int64)
        while at < end:
            epoch, index = lane.position(int(ordinals[at]))
            stop = min(end, at + lane.order.samples - index)
            epochs[at:stop] = epoch
            samples[at:stop] = lane.order.samples_at(epoch, np.arange(index, index + stop - at))
            at = stop
        out[rows, 1], out[rows, 2] = epochs, samples

    def steps_of(self, source: int, epoch: int, index: Ints, until: int) -> Ints:
        """(found, 3): step and row of the epoch's places `index` of a source, as far as this segment serves them.

        The third column tells which of the places it is.
        """
        end = until if self.to_step is None else min(until, self.to_step)
        lane = self.lanes[source]
        ordinals = (epoch - lane.epoch) * lane.order.samples + index - lane.index
        served = np.flatnonzero((ordinals >= 0) & (ordinals < self.given(max(end, self.from_step))[source]))
        step, row = np.divmod(self.mix.slots_of(source, ordinals[served]), self.batch_size)
        return np.stack([step + self.from_step, row, served], axis=1)


@dataclass(frozen=True)
class Setting:
    """What is in force at a step, before it is resolved: the plan's first values or a phase's."""

    from_step: int
    weights: Mapping[str, object] | None
    seq_len: int
    batch_size: int
    shards: Mapping[str, int]
    unit: int
    restart: bool


def settings(
    sources: tuple[Source, ...],
    weights: Mapping[str, object] | None,
    seq_len: int,
    batch_size: int,
    options: PlanOptions,
) -> list[Setting]:
    """The plan's first setting and one more a phase, with everything that carries over filled in."""
    shards = {source.name: source.store.num_shards for source in sources} | _known(options.shards, sources, "shards")
    lengths = [seq_len, *(phase.seq_len for phase in options.phases if phase.seq_len and not phase.restart)]
    unit = options.unit or max(lengths)
    made = [Setting(0, weights, seq_len, batch_size, shards, _divided(unit, seq_len, 0), False)]
    for phase in options.phases:
        made.append(_next_setting(made[-1], phase, sources, options.cut))
    return made


def check_all_weighed(sources: tuple[Source, ...], made: Sequence[Setting]) -> None:
    """Refuse a source that no weights speak of; one that begins later has its first weight in a phase."""
    named = {name for setting in made for name in setting.weights or ()}
    for source in sources if made[0].weights is not None else ():
        if source.name not in named:
            raise ConfigError(
                f"The weights say nothing of source {source.name!r}: give it one, 0 to leave it out for now."
            )


def _next_setting(last: Setting, phase: Phase, sources: tuple[Source, ...], cut: str) -> Setting:
    seq_len = phase.seq_len or last.seq_len
    grown = _known(phase.shards, sources, f"the phase at step {phase.from_step}")
    unit = max(last.unit, seq_len) if phase.restart else last.unit
    if not phase.restart:
        _check_needs_no_restart(last, phase, seq_len, cut, bool(grown))
    return Setting(
        from_step=phase.from_step,
        weights=phase.weights if phase.weights is not None else last.weights,
        seq_len=seq_len,
        batch_size=phase.batch_size or last.batch_size,
        shards={**last.shards, **grown},
        unit=_divided(unit, seq_len, phase.from_step),
        restart=phase.restart,
    )


def _check_needs_no_restart(last: Setting, phase: Phase, seq_len: int, cut: str, grown: bool) -> None:
    if seq_len != last.seq_len and not CUTS[cut].divides:
        reason = f"a change of seq_len under cut={cut!r}"
    elif seq_len > last.unit:
        reason = f"seq_len {seq_len} above the plan's unit {last.unit}"
    elif grown:
        reason = "more shards"
    else:
        return
    raise ConfigError(
        f"The phase at step {phase.from_step} needs a new epoch of its sources ({reason}): say restart=True in it."
    )


def _divided(unit: int, seq_len: int, step: int) -> int:
    if unit % seq_len:
        raise ConfigError(
            f"seq_len {seq_len} at step {step} does not divide the plan's unit {unit}: change one of them."
        )
    return unit


def _known(shards: Mapping[str, int] | None, sources: tuple[Source, ...], where: str) -> dict[str, int]:
    """The shard counts of `shards`, checked against what the stores hold."""
    held = {source.name: source.store.num_shards for source in sources}
    for name, count in (shards or {}).items():
        if name not in held:
            raise ConfigError(f"Unknown source {name!r} in {where}{did_you_mean(name, held)}.")
        if not 1 <= count <= held[name]:
            raise ConfigError(f"{where} asks for {count} shards of {name!r}, which has {held[name]}.")
    return dict(shards or {})


def resolve(
    sources: tuple[Source, ...], wanted: list[Setting], seed: int, steps: int | None, options: PlanOptions
) -> tuple[Segment, ...]:
    """The segments of a plan. Phases that begin at or after its last step are refused."""
    segments: list[Segment] = []
    for i, setting in enumerate(wanted):
        to_step = wanted[i + 1].from_step if i + 1 < len(wanted) else steps
        if to_step is not None and to_step <= setting.from_step:
            raise ConfigError(f"A phase begins at step {setting.from_step}, but the plan ends at {to_step}.")
        lanes = tuple(_lane(k, source, setting, segments) for k, source in enumerate(sources))
        weights = _weights(sources, setting, lanes, options)
        mix = Mix(weights, block_size(weights, options.block), derive_key(seed, "mix", setting.from_step))
        segments.append(
            Segment(setting.from_step, to_step, setting.batch_size, setting.seq_len, setting.unit, mix, lanes)
        )
    return tuple(segments)


def _lane(k: int, source: Source, setting: Setting, before: list[Segment]) -> Lane:
    shards = setting.shards[source.name]
    order = source.order(shards, setting.seq_len, setting.unit)
    if not before:
        return Lane(order, shards, 0, 0)
    last = before[-1]
    old = last.lanes[k]
    epoch, index = old.position(int(last.given(setting.from_step)[k]))
    if setting.restart and (order != old.order):
        moved = old.order.samples if index else 0
    elif setting.seq_len != last.seq_len:
        size = UNITS_PER_BLOCK * old.order.parts  # on to where a block of units begins, or to the epoch's end
        moved = min(-(-index // size) * size, old.order.samples)
    else:
        return Lane(order, shards, epoch, index)
    unread = (moved - index) * last.seq_len
    epoch, units = (epoch + 1, 0) if moved == old.order.samples else (epoch, moved // old.order.parts)
    return Lane(order, shards, epoch, units * order.parts, unread)


def _weights(
    sources: tuple[Source, ...], setting: Setting, lanes: tuple[Lane, ...], options: PlanOptions
) -> tuple[Fraction, ...]:
    """Shares of the samples: as given, converted from tokens or documents, or by size where none were given."""
    if setting.weights is None:
        total = sum(lane.order.samples for lane in lanes)
        return tuple(Fraction(lane.order.samples, total) for lane in lanes)
    where = f"the phase at step {setting.from_step}" if setting.from_step else "the plan"
    asked = exact_weights(setting.weights, tuple(source.name for source in sources), where)
    if options.weights_in == "samples":
        return asked
    shares = [
        weight / _density(source, lane, setting.seq_len, options.weights_in) if weight else Fraction(0)
        for weight, source, lane in zip(asked, sources, lanes, strict=True)
    ]
    return tuple(share / sum(shares) for share in shares)


def _density(source: Source, lane: Lane, seq_len: int, unit: str) -> Fraction:
    """Tokens or documents that a sample holds on average, exactly."""
    figures = (lane.order.samples, lane.shards, seq_len)
    if unit == "documents":
        return source.cut.documents(*figures)
    return Fraction(source.cut.tokens(*figures), lane.order.samples)
