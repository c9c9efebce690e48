"""What a plan may be asked for: frozen options, lossless as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

from gristmill.core.arguments import as_choice, as_whole
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.options import as_options, check_fields, from_mapping
from gristmill.core.values import OWN, Within, shown
from gristmill.order.augment import Augmentation, as_augmentations
from gristmill.order.cut import CUTS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Entry = TypeVar("Entry", bound="DataclassInstance")
WEIGHT_UNITS = ("samples", "tokens", "documents")
MODES = ("replace", "loss")
# Steps times rows stay below 2^62, and positions inside a row are int32.
MOST = {"seq_len": 2**31 - 1, "unit": 2**31 - 1, "batch_size": 2**22, "steps": 2**40, "block": 2**24}
Step = Annotated[int, Within(0, MOST["steps"])]


@dataclasses.dataclass(frozen=True)
class Phase:
    """A change that begins at `from_step`; what is None stays as it was.

    `shards` lets a source that grew serve more shards from here on. That, and a change of seq_len that the plan's unit
    cannot hold, starts a new epoch of the sources concerned and must be asked for by `restart`.
    """

    from_step: Step
    weights: Mapping[str, object] | None = None
    seq_len: int | None = None
    batch_size: int | None = None
    shards: Mapping[str, int] | None = None
    restart: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "a phase")
        if self.from_step < 1:
            raise ConfigError(f"A phase begins at step 1 or later, not {self.from_step}: put it into the plan itself.")
        check_positive(seq_len=self.seq_len, batch_size=self.batch_size)


@dataclasses.dataclass(frozen=True)
class Exclude:
    """A document taken out from `from_step` on, without moving any other sample.

    mode "replace": its tokens become EOS and are masked out of the loss; "loss": they are only masked.
    `rewrite_history` lets a checkpoint be loaded although it was made after `from_step` without this exclusion.
    """

    doc: str
    source: str | None = None
    from_step: Step = 0
    mode: str = "replace"
    rewrite_history: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "an exclusion")
        if self.mode not in MODES:
            raise ConfigError(f"Unknown mode {self.mode!r} of an exclusion{did_you_mean(self.mode, MODES)}.")


@dataclasses.dataclass(frozen=True)
class Skip:
    """The steps [from_step, to_step) are passed over: consumed, never served."""

    from_step: Step
    to_step: Step
    rewrite_history: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "a skip")
        if not 0 <= self.from_step < self.to_step:
            raise ConfigError(f"A skip of steps [{self.from_step}, {self.to_step}) is empty or begins below 0.")


@dataclasses.dataclass(frozen=True)
class Locality:
    """A shuffle in two levels, so that what lies together in a file is read once an epoch.

    block: consecutive samples that are read at once, about 1 MiB in all. window: blocks that are mixed at any time; the
    wider, the better the shuffle and the more has to be kept near (window x block samples).
    """

    block: Annotated[int, Within(1, 2**20)] = 256
    window: Annotated[int, Within(1, 2**20)] = 512

    def __post_init__(self) -> None:
        check_fields(self, "locality")


@dataclasses.dataclass(frozen=True)
class PlanOptions:
    """All of a plan that has a default.

    cut: chunk, pack, pad or window. unit: the longest seq_len that the run may have (default: the longest it has now).
    block: slots a mix block, at least 1 / smallest weight. weights_in: what the weights count. max_epochs: one number,
    or one a source. shards: how many shards of a source the plan begins with (default: all). locality: shuffle in two
    levels, for bytes that are far away or compressed (default: over the whole source at once). augment: what is done to
    the documents of a row, in this order: FIM, SpanCorruption, Mask, Noise, functions.
    """

    cut: str = "chunk"
    unit: int | None = None
    block: int | None = None
    weights_in: str = "samples"
    max_epochs: int | Mapping[str, int] | None = None
    shards: Mapping[str, int] | None = None
    phases: Annotated[Sequence[Phase], OWN] = ()
    exclude: Annotated[Sequence[Exclude], OWN] = ()
    skip: Annotated[Sequence[Skip], OWN] = ()
    shuffle: bool = True
    drop_last: bool = True
    locality: Annotated[Locality | None, OWN] = None
    augment: Annotated[Sequence[Augmentation | Callable[..., object]], OWN] = ()

    def __post_init__(self) -> None:
        check_fields(self, "the plan's options")
        as_choice("cut", self.cut, tuple(CUTS))
        check_positive(unit=self.unit, block=self.block)
        if self.weights_in not in WEIGHT_UNITS:
            raise ConfigError(f"Unknown weights_in {self.weights_in!r}{did_you_mean(self.weights_in, WEIGHT_UNITS)}.")
        phases = sorted(_each(self.phases, Phase, "phases"), key=lambda phase: phase.from_step)
        if len({phase.from_step for phase in phases}) < len(phases):
            raise ConfigError("Two phases begin at the same step: join them into one.")
        object.__setattr__(self, "phases", tuple(phases))
        object.__setattr__(self, "exclude", _each(self.exclude, Exclude, "exclude"))
        object.__setattr__(self, "skip", _each(self.skip, Skip, "skip"))
        object.__setattr__(self, "augment", as_augmentations(self.augment))
        if self.locality is not None:
            object.__setattr__(self, "locality", as_options(Locality, self.locality, "locality"))
            if not self.shuffle:
                raise ConfigError(
                    "locality is a way to shuffle, and shuffle=False asks for none: leave out one of them."
                )

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON, without those that are at their default."""
        return without_defaults(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> PlanOptions:
        """The inverse of `to_dict`; unknown keys are errors."""
        return from_mapping(cls, values, "the plan's options")


def check_positive(**values: int | None) -> None:
    """Refuse a size that is not a whole number above 0, by its name."""
    for name, value in values.items():
        if value is not None and as_whole(name, value) > MOST.get(name, 2**60):
            raise ConfigError(f"{name} cannot be above {MOST.get(name, 2**60):,}.", arguments=name)


def without_defaults(options: DataclassInstance) -> dict[str, object]:
    """The fields of a frozen options object that differ from their defaults, nested ones too, as plain values."""
    values = {}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if value != field.default:
            values[field.name] = _plain(value)
    return values


def _plain(value: object) -> object:
    if isinstance(value, Augmentation):
        return {value.name: value.to_dict()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return without_defaults(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, int | str | bool | None) else str(value)


def _each(items: Sequence[object], cls: type[Entry], where: str) -> tuple[Entry, ...]:
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise ConfigError(f"{where} is a list, not {shown(items)}.")
    return tuple(_made(item, cls, where) for item in items)


def _made(item: object, cls: type[Entry], where: str) -> Entry:
    """An entry by its fields, an excluded document by its id, a skip by its (from, to)."""
    if isinstance(item, Mapping):
        return from_mapping(cls, item, where)
    if isinstance(item, str) and cls is Exclude:
        item = Exclude(item)
    elif isinstance(item, tuple | list) and cls is Skip and len(item) in (2, 3):
        item = Skip(*item)
    if not isinstance(item, cls):
        raise ConfigError(f"{where} holds {shown(item)}, which is no {cls.__name__}.")
    return item
