"""A plan: which stores, which mix, how sequences are cut, the seed. All that decides what a step holds.

plan = Plan(sources={"web": web, "code": code}, weights={"web": 0.7, "code": 0.3}, seq_len=2048, batch_size=64)
plan.samples(48_211)    # int64 (64, 3): source, epoch, sample of each row
plan.trace(48_211)      # the documents behind them
plan.find("doc-id")     # the steps in which a document is seen
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from gristmill.core.arguments import PathLike, as_kind, as_mapping, as_names, as_text, as_whole, refuse
from gristmill.core.arrays import Ints
from gristmill.core.cached import cached_property
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.hashing import fingerprint, hash64
from gristmill.core.html import html_table
from gristmill.core.options import as_options
from gristmill.order import trace as tracing
from gristmill.order.augment import FIM, as_augmentations, known
from gristmill.order.cut import CUTS
from gristmill.order.exclusions import resolve_exclusions
from gristmill.order.forecast import Forecast, forecast
from gristmill.order.mix import weight_text
from gristmill.order.options import MOST, Exclude, PlanOptions, Skip, check_positive
from gristmill.order.phases import Segment, check_all_weighed, resolve, settings
from gristmill.order.plan_json import Pin, PlanValues, read_plan, write_plan
from gristmill.order.skips import Skips
from gristmill.order.source import Source
from gristmill.order.tokens import Sources, Tokens, opened
from gristmill.places.door import as_target, place_at

if TYPE_CHECKING:
    from gristmill.simulate.options import SimulateOptions
    from gristmill.simulate.simulation import Simulation

# Raised with any change of which samples a step holds: checkpoints of another order are then refused by name.
ORDER_VERSION = 1
_SHOWN_NAMES = 4


class Plan:
    """Frozen data from which every batch of a run follows; its fingerprint knows no paths.

    sources: opened stores, or what `gristmill.open` takes, by names that are part of the order; a single one may go
    without a name and is called `data`. options: PlanOptions, or a dict of them. batch_size counts the sequences of the
    global batch. Without weights, sources are mixed by their size. With `steps` the plan ends there; without, a single
    source means one pass and a mix is endless.
    """

    def __init__(
        self,
        sources: Sources,
        weights: Mapping[str, object] | None = None,
        *,
        seq_len: int,
        batch_size: int,
        seed: int = 0,
        steps: int | None = None,
        options: PlanOptions | Mapping[str, object] | None = None,
    ) -> None:
        options = as_options(PlanOptions, options)
        seq_len, batch_size = as_whole("seq_len", seq_len), as_whole("batch_size", batch_size)
        seed, steps = as_whole("seed", seed, None), None if steps is None else as_whole("steps", steps)
        check_positive(seq_len=seq_len, batch_size=batch_size, steps=steps)
        if weights is not None:
            weights = as_mapping("weights", weights, "a mapping of the sources' names to their shares")
        self.seq_len, self.batch_size, self.seed, self.steps, self.options = seq_len, batch_size, seed, steps, options
        self.weights = None if weights is None else {name: str(value) for name, value in weights.items()}
        self.cut, stores = CUTS[options.cut], opened(sources).items()
        self.sources = tuple(
            Source(name, self.cut(store), seed, options.shuffle, options.locality) for name, store in stores
        )
        wanted = settings(self.sources, weights, seq_len, batch_size, options)
        segments = resolve(self.sources, wanted, seed, steps, options)
        check_all_weighed(self.sources, wanted)
        self.total_steps = steps if steps is not None else _one_pass(segments, options)
        self.segments = (*segments[:-1], dataclasses.replace(segments[-1], to_step=self.total_steps))
        self.skips = Skips(options.skip)
        self.exclusions = resolve_exclusions(options.exclude, self.sources)
        self.augmentations = known(as_augmentations(options.augment), {each.name: each.store for each in self.sources})
        self._starts = [segment.from_step for segment in self.segments]
        _check_ends(self)

    def __len__(self) -> int:
        """Steps that are served: all but the skipped ones."""
        if self.total_steps is None:
            raise TypeError("this plan is endless: give it steps=")
        return self.skips.served(self.total_steps)

    def _repr_html_(self) -> str:
        """The sources' tokens, and their shares from each step on at which something changes."""
        spans = [f"from step {part.from_step:,}: {part.seq_len:,} x {part.batch_size:,}" for part in self.segments]
        shares = zip(*(part.mix.weights for part in self.segments), strict=True)
        rows = [
            (source.name, source.store.tokens_in(source.store.num_shards), *(f"{float(share):.1%}" for share in row))
            for source, row in zip(self.sources, shares, strict=True)
        ]
        return html_table(repr(self), ("source", "tokens", *spans), rows)

    def __repr__(self) -> str:
        names = ", ".join(self.names[:_SHOWN_NAMES])
        if len(self.names) > _SHOWN_NAMES:
            names += f" and {len(self.names) - _SHOWN_NAMES:,} more"
        end = "endless" if self.total_steps is None else f"{self.total_steps:,} steps"
        return f"Plan({names}; {self.options.cut} {self.seq_len} x {self.batch_size}, seed {self.seed}, {end})"

    def with_steps(self, steps: int) -> Plan:
        """The same plan, ended after `steps`: where both have a step, they have the same batch."""
        return self._made_again(steps, self.options)

    def without(self, *, steps: Sequence[int] = (), documents: Sequence[str] = (), from_step: int = 0) -> Plan:
        """The same plan, which skips `steps`, and leaves documents out from `from_step` on; no other sample moves.

        Checkpoints up to the first of these steps, and up to `from_step`, go on with it.
        """
        if not isinstance(steps, Sequence) or isinstance(steps, str):
            raise refuse("steps", "a list of steps", steps)
        skipped = [Skip(step, step + 1) for step in sorted(as_whole("steps", step, 0) for step in steps)]
        from_step = as_whole("from_step", from_step, 0)
        out = [Exclude(each, from_step=from_step) for each in as_names("documents", documents, "ids of documents")]
        options = dataclasses.replace(
            self.options, skip=(*self.options.skip, *skipped), exclude=(*self.options.exclude, *out)
        )
        return self._made_again(self.steps, options)

    def _made_again(self, steps: int | None, options: PlanOptions) -> Plan:
        return Plan(
            {source.name: source.store for source in self.sources},
            self.weights,
            seq_len=self.seq_len,
            batch_size=self.batch_size,
            seed=self.seed,
            steps=steps,
            options=options,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The sources' names; `sample_ids` count them in this order."""
        return tuple(source.name for source in self.sources)

    def segment(self, step: int) -> Segment:
        """The segment that holds a step; an error where the plan has no such step."""
        step = as_whole("step", step, None)
        if not 0 <= step < (MOST["steps"] if self.total_steps is None else self.total_steps):
            end = "on" if self.total_steps is None else f"to {self.total_steps - 1:,}"
            raise ConfigError(f"Step {step:,} is outside the plan, which has steps from 0 {end}.")
        return self.segments[bisect.bisect_right(self._starts, step) - 1]

    def samples(self, step: int) -> Ints:
        """int64 (rows, 3): source, epoch and sample of each row of a step's global batch."""
        self.check_served(step)
        return self.samples_of_steps(step, 1)

    def samples_of_steps(self, step: int, count: int) -> Ints:
        """The rows of `count` steps of one segment at once; skipped steps are computed too."""
        segment = self.segment(step)
        samples = segment.samples(step, count)
        if self._pass_is_short and step + count == self.total_steps:
            samples = samples[samples[:, 1] == segment.lanes[0].epoch]
        return samples

    @property
    def _pass_is_short(self) -> bool:
        """Whether the last batch may be short: one pass, nothing dropped."""
        return not self.options.drop_last and self.steps is None

    def check_served(self, step: int) -> None:
        """Refuse a step that the plan skips."""
        step = as_whole("step", step, None)
        if self.skips.covers(step):
            raise ConfigError(f"Step {step:,} is skipped by this plan: it has no batch.")

    def tokens_before(self, step: int) -> int:
        """Tokens in the batches served before `step`, padding included, skipped steps not."""
        total = 0
        for segment in self.segments:
            end = step if segment.to_step is None else min(step, segment.to_step)
            if end > segment.from_step:
                steps = self.skips.served(end) - self.skips.served(segment.from_step)
                total += steps * segment.batch_size * segment.seq_len
        return total

    def trace(self, step: int) -> list[tracing.TraceRow]:
        """Which documents, and which of their tokens, each row of a step holds."""
        return tracing.trace(self, step)

    def find(self, doc_id: str, until: int | None = None) -> list[tracing.Seen]:
        """The steps before `until` (default: the plan's end) in which a document is seen, by inverting the order."""
        doc_id = as_text("doc_id", doc_id, "the id of a document")
        until = None if until is None else as_whole("until", until, 0)
        return tracing.find(self, doc_id, until)

    def forecast(self, step: int | None = None) -> Forecast:
        """Samples, epochs and the exact mix after `step` steps (default: the plan's end), and when sources run out."""
        step = None if step is None else as_whole("step", step, 0)
        return forecast(self, step)

    def simulate(self, options: SimulateOptions | Mapping[str, object] | None = None) -> Simulation:
        """What a node of a run fetches, keeps and waits for if the stores lie in a bucket; options by name, or a dict.

        plan.simulate({"bandwidth": "10Gbit/s", "latency": "30ms", "step_time": "400ms", "ranks": 8, "nodes": 4})
        """
        from gristmill.simulate.simulation import simulate  # which knows of loaders: a plan by itself does not

        return simulate(self, options)

    def digest(self, step: int) -> str:
        """16 hex digits of the sample ids of one step, sources by name; '' for a step that is not served."""
        if step < 0 or self.skips.covers(step):
            return ""
        samples = self.samples(step)
        names = np.array([hash64(name) for name in self.names], dtype=np.uint64)
        return f"{hash64(names[samples[:, 0]].tobytes() + samples[:, 1:].tobytes()):016x}"

    def prefix(self, step: int) -> dict[str, object]:
        """All that decides the steps before `step`, by named parts; equal parts mean equal batches."""
        if step == 0:
            return {}
        segments = [segment for segment in self.segments if segment.from_step < step]
        # Of each segment the sources that have a weight in it.
        rows = [zip(self.sources, segment.lanes, segment.mix.weights, strict=True) for segment in segments]
        used = [[row for row in each if row[2]] for each in rows]
        locality = self.options.locality
        names = sorted({source.name for each in used for source, _, _ in each})
        return {
            **({"augment": [each.content(names) for each in self.augmentations]} if self.augmentations else {}),
            **({"locality": [locality.block, locality.window]} if locality else {}),
            "order": ORDER_VERSION,
            "seed": self.seed,
            "cut": self.options.cut,
            "shuffle": self.options.shuffle,
            "seq_len": [segment.seq_len for segment in segments],
            "batch_size": [segment.batch_size for segment in segments],
            "phase starts": [segment.from_step for segment in segments],
            "unit": [segment.unit for segment in segments],
            "block": [segment.mix.block for segment in segments],
            "weights": [[[source.name, weight_text(weight)] for source, _, weight in each] for each in used],
            "sources": [[[source.name, source.cut.content(lane.shards, segment.seq_len)] for source, lane, _ in each]
                        for segment, each in zip(segments, used, strict=True)],
            "cursors": [[[source.name, lane.order.units, lane.order.parts, lane.epoch, lane.index]
                         for source, lane, _ in each] for each in used],
            "exclude": self.exclusions.before(step),
            "skip": self.skips.before(step),
        }  # fmt: skip

    def prefix_fingerprint(self, step: int) -> str:
        """32 hex digits that name the plan restricted to the steps before `step`."""
        return fingerprint(self.prefix(step))

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits that name the whole plan, free of paths."""
        last = self.segments[-1].from_step + 1
        excludes, skips = self.options.exclude, self.options.skip
        whole = max([last, *(item.from_step + 1 for item in excludes), *(item.to_step for item in skips)])
        changes = [repr(item) for item in (*excludes, *skips)]
        return fingerprint([self.prefix(whole), self.total_steps, self.options.drop_last, changes])

    def to_json(self) -> str:
        """The plan as text; each source's path, shards and counts are pinned in it, and a sum of all but the paths."""
        shards = self.options.shards or {}
        pins = {
            source.name: _pin(source.store, shards.get(source.name, source.store.num_shards)) for source in self.sources
        }
        values: PlanValues = {
            "sources": pins,
            "weights": self.weights,
            "seq_len": self.seq_len,
            "batch_size": self.batch_size,
            "seed": self.seed,
            "steps": self.steps,
            "options": self.options.to_dict(),
        }
        return write_plan(values)

    def save(self, path: PathLike) -> None:
        """Write the plan to a file, atomically."""
        place_at(as_target("path", path)).write(self.to_json())

    @classmethod
    def from_json(cls, text: str, sources: Sources) -> Plan:
        """The plan that `to_json` wrote, over `sources`; a store that grew since serves its pinned shards."""
        values, sources = read_plan(as_text("text", text, "the JSON of a plan")), opened(sources)
        pins = values["sources"]
        options = PlanOptions.from_dict(values.get("options", {}))
        for name in (*pins, *sources):
            if name not in sources or name not in pins:
                raise ConfigError(f"The plan's sources are {', '.join(pins)}; given were {', '.join(sources)}.")
        _check_pins(pins, sources)
        pinned = {name: pin["shards"] for name, pin in pins.items() if pin["shards"] < sources[name].num_shards}
        if pinned and options.shards is None:
            options = dataclasses.replace(options, shards=pinned)
        return cls(
            {name: sources[name] for name in pins},
            values.get("weights"),
            seq_len=values["seq_len"],
            batch_size=values["batch_size"],
            seed=values.get("seed", 0),
            steps=values.get("steps"),
            options=options,
        )


def as_plan(name: str, value: object) -> Plan:
    """A plan that is made already."""
    return as_kind(name, value, Plan, "a Plan: gm.Plan(...), or gm.load_plan(path) for a file")


def _pin(store: Tokens, shards: int) -> Pin:
    figures = {"shards": shards, "tokens": store.tokens_in(shards), "fingerprint": store.fingerprint_of(shards)}
    return cast(Pin, {**store.location(), **figures})


def _check_pins(pins: Mapping[str, Pin], sources: Mapping[str, Tokens]) -> None:
    """Refuse a store whose pinned shards are not the ones the plan was made with."""
    for name, pin in pins.items():
        store = sources[name]
        if store.num_shards < pin["shards"]:
            raise ConfigError(f"Source {name!r} has {store.num_shards} shards, the plan pins {pin['shards']}.")
        if store.fingerprint_of(pin["shards"]) != pin["fingerprint"]:
            raise ConfigError(
                f"Source {name!r} ({store.describe()}) is not the store of the plan: its content differs."
            )


def _one_pass(segments: tuple[Segment, ...], options: PlanOptions) -> int | None:
    """The steps of one pass over a single source; None, endless, for a mix."""
    last = segments[-1]
    if len(last.lanes) > 1:
        return None
    left = last.lanes[0].order.samples - last.lanes[0].index
    batches = left // last.batch_size if options.drop_last else -(-left // last.batch_size)
    if batches < 1:
        raise ConfigError(
            f"The source has {left:,} samples left at step {last.from_step}, fewer than a batch of {last.batch_size}: "
            "lower batch_size, give steps= to repeat it, or drop_last=False."
        )
    return last.from_step + batches


def _check_ends(plan: Plan) -> None:
    """All that would only show late in a run: sources that run out, options that cannot hold together."""
    if not plan.options.drop_last and (plan.steps is not None or len(plan.sources) > 1):
        raise ConfigError("drop_last=False means one pass over a single source: leave out steps and other sources.")
    allowed = _max_epochs(plan)
    if allowed and plan.total_steps is None:
        raise ConfigError("max_epochs needs steps=: an endless plan repeats every source for ever.")
    for each in plan.augmentations:
        if isinstance(each, FIM) and each.level != "token":
            raise ConfigError(
                'A store holds tokens: say FIM(level="token") in a plan, or use a stream, which has the text.'
            )
    for name, limit in allowed.items():
        tracing.check_epochs(plan, name, limit)


def _max_epochs(plan: Plan) -> dict[str, int]:
    limits = plan.options.max_epochs
    if limits is None:
        return {}
    if isinstance(limits, int):
        limits = dict.fromkeys(plan.names, limits)
    for name, limit in limits.items():
        if name not in plan.names:
            raise ConfigError(f"max_epochs names an unknown source {name!r}{did_you_mean(name, plan.names)}.")
        check_positive(max_epochs=limit)
    return dict(limits)
