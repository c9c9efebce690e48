"""Augmentation: what is done to the tokens of documents on their way into rows, as frozen options.

    FIM              the middle of a document goes to its end, so that a model learns to fill it in
    SpanCorruption   spans of a document are left out, and asked for after it, as T5 does
    Mask             tokens are hidden and asked for where they were, as BERT does
    Noise            tokens of the inputs are replaced by others; labels stay
    a function       f(tokens, rng) gives the tokens of a document anew

All of it is drawn from a key of (seed, source, epoch, sample): what a row becomes is a pure function of the plan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Protocol, Self

from gristmill.core.arguments import as_choice
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.functions import called, function_at, path_of, source_digest
from gristmill.core.options import check_fields, from_mapping
from gristmill.core.values import OWN, Share, Within, fits, shown

# A token by its id, or by its spelling in the tokenizer of the sources.
Token = Annotated[int, Within(0, 2**31 - 1)] | str
# For all sources, or by their names: those that are not named are left alone.
Rate = Share | Mapping[str, Share]
VocabSize = Annotated[int, Within(2, 2**31)] | None
LEVELS = ("token", "character")


class Vocabulary(Protocol):
    """What augmentations ask of a store or a tokenizer."""

    @property
    def eos(self) -> int | None: ...
    @property
    def vocab_size(self) -> int | None: ...
    def token_id(self, token: str) -> int | None: ...


Vocabularies = Mapping[str, Vocabulary]


@dataclass(frozen=True)
class Augmentation:
    """What all of them have: a name in JSON, keys that batches must have for them, and whether they come last.

    `rate` is the share of documents (of tokens: Mask and Noise) that are changed; by sources, if it is a mapping.
    """

    name: ClassVar[str]
    targets: ClassVar[tuple[str, ...]] = ()
    last: ClassVar[bool] = False

    rate: Rate = 1.0

    def __post_init__(self) -> None:
        check_fields(self, type(self).__name__)

    def known_by(self, vocabularies: Vocabularies) -> Self:
        """The same with ids in the place of spellings, and the rate of each source by its name."""
        return replace(self, rate=_rates(self, tuple(vocabularies)), **self._ids(vocabularies))

    def _ids(self, vocabularies: Vocabularies) -> Mapping[str, object]:
        return {}

    @property
    def special(self) -> tuple[Token, ...]:
        """Tokens of its own."""
        return ()

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON, without those that are at their default."""
        fields = {each.name: each.default for each in dataclasses.fields(self)}
        return {name: getattr(self, name) for name in fields if getattr(self, name) != fields[name]}

    def content(self, names: Sequence[str]) -> list[object]:
        """What these sources' tokens depend on, as a JSON value; of one that is `known_by` their vocabularies."""
        rates = self.rate if isinstance(self.rate, Mapping) else {}
        return [self.name, {**dataclasses.asdict(self), "rate": {name: float(rates[name]) for name in names}}]


@dataclass(frozen=True)
class FIM(Augmentation):
    """Fill-in-the-middle: prefix, suffix, middle (PSM), or for the share `spm_rate` suffix, prefix, middle (SPM).

    Both cuts are anywhere in the document. level: where they may be, between any two tokens or any two characters; the
    latter in streams only, which have the text.
    """

    name = "fim"

    rate: Rate = 0.5
    spm_rate: Share = 0.5
    level: str = "token"
    prefix: Token = "<|fim_prefix|>"
    middle: Token = "<|fim_middle|>"
    suffix: Token = "<|fim_suffix|>"

    def __post_init__(self) -> None:
        super().__post_init__()
        as_choice("level", self.level, LEVELS)

    @property
    def special(self) -> tuple[Token, ...]:
        return self.prefix, self.middle, self.suffix

    def _ids(self, vocabularies: Vocabularies) -> Mapping[str, object]:
        return dict(zip(("prefix", "middle", "suffix"), _token_ids(self, vocabularies), strict=True))


@dataclass(frozen=True)
class SpanCorruption(Augmentation):
    """Spans of about `mean_length` tokens, in all the share `density` of a document, each replaced by a sentinel.

    After what is left come the sentinels again, each with the tokens of its span: these alone are targets. A document
    has as many spans as there are sentinels at most; longer ones, then.
    """

    name, targets, last = "span_corruption", ("loss_mask",), True

    density: Annotated[float, Within(0.01, 0.9)] = 0.15
    mean_length: Annotated[float, Within(1, 1000)] = 3.0
    sentinels: Annotated[Sequence[Token], OWN] = tuple(f"<extra_id_{i}>" for i in range(100))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not fits(self.sentinels, Sequence[Token]) or not self.sentinels:
            raise ConfigError(f"SpanCorruption: sentinels is a list of tokens, not {shown(self.sentinels)}.")
        object.__setattr__(self, "sentinels", tuple(self.sentinels))

    @property
    def special(self) -> tuple[Token, ...]:
        return tuple(self.sentinels)

    def _ids(self, vocabularies: Vocabularies) -> Mapping[str, object]:
        return {"sentinels": _token_ids(self, vocabularies)}


@dataclass(frozen=True)
class Mask(Augmentation):
    """The share `rate` of tokens is asked for: labels have them where they are, and -100 everywhere else.

    Of these, the share `masked` becomes `token` in the inputs, `random` any token, and the rest stays.
    """

    name, targets, last = "mask", ("labels", "loss_mask"), True

    rate: Rate = 0.15
    token: Token = "[MASK]"
    masked: Share = 0.8
    random: Share = 0.1
    vocab_size: VocabSize = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.masked + self.random > 1 + 1e-9:
            raise ConfigError(
                f"Mask: masked ({self.masked}) and random ({self.random}) are shares, together at most 1."
            )

    @property
    def special(self) -> tuple[Token, ...]:
        return (self.token,)

    def _ids(self, vocabularies: Vocabularies) -> Mapping[str, object]:
        return {"token": _token_ids(self, vocabularies)[0], "vocab_size": _vocab_size(self, vocabularies)}


@dataclass(frozen=True)
class Noise(Augmentation):
    """The share `rate` of the inputs' tokens becomes any token; labels are what they would have been."""

    name, targets, last = "noise", ("labels",), True

    rate: Rate = 0.1
    vocab_size: VocabSize = None

    def _ids(self, vocabularies: Vocabularies) -> Mapping[str, object]:
        return {"vocab_size": _vocab_size(self, vocabularies)}


@dataclass(frozen=True, kw_only=True)
class Own(Augmentation):
    """A function of the user's: f(tokens, rng) of a document's tokens, as an int64 array, and a numpy Generator."""

    name = "function"

    function: Annotated[Callable[..., object], OWN]

    def to_dict(self) -> dict[str, object]:
        return {"path": path_of(self.function), "source": source_digest(self.function)}

    def content(self, names: Sequence[str]) -> list[object]:
        return [self.name, called(self.function), source_digest(self.function)]


_BY_NAME: dict[str, type[Augmentation]] = {each.name: each for each in (FIM, SpanCorruption, Mask, Noise)}


def as_augmentations(given: object) -> tuple[Augmentation, ...]:
    """The augmentations of a list: functions are taken as they are, and those of a plan's JSON by their names."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ConfigError(f"augment is a list, such as [gm.FIM(rate=0.5)], not {shown(given)}.", arguments="augment")
    made = tuple(map(_made, given))
    for each in made[:-1]:
        if each.last:
            raise ConfigError(
                f"augment: {type(each).__name__} decides what is asked for, so it comes last, and one such alone."
            )
    return made


def _made(item: object) -> Augmentation:
    if isinstance(item, Augmentation):
        return item
    if isinstance(item, Mapping) and len(item) == 1:
        [(name, options)] = item.items()
        if name == Own.name:
            return _own(options)
        if name not in _BY_NAME:
            raise ConfigError(f"augment: there is no {name!r}{did_you_mean(str(name), _BY_NAME)}.", arguments="augment")
        return from_mapping(_BY_NAME[name], options, name)
    if callable(item) and not isinstance(item, type):
        return Own(function=item)
    wanted = ", ".join(cls.__name__ for cls in _BY_NAME.values())
    raise ConfigError(f"augment holds {shown(item)}, which is none of {wanted}, and no function.", arguments="augment")


def _own(options: object) -> Own:
    """A function by its path, if it still is what it was."""
    if not isinstance(options, Mapping) or options.keys() != {"path", "source"}:
        raise ConfigError(f"augment: a function is kept by its path and source, not {shown(options)}.")
    made = Own(function=function_at(str(options["path"])))
    if made.to_dict()["source"] != options["source"]:
        raise ConfigError(
            f"The function {options['path']} is not what it was when the plan was made: bring it back, or make another "
            "plan with it."
        )
    return made


def known(augmentations: Sequence[Augmentation], vocabularies: Vocabularies) -> tuple[Augmentation, ...]:
    """All of them with ids, if the sources agree on these, and on the EOS that ends their documents."""
    if not augmentations:
        return ()
    found = {vocabulary.eos for vocabulary in vocabularies.values()}
    if None in found or len(found) > 1:
        raise ConfigError(
            f"Augmentation needs one EOS for all sources, they have {found}: open foreign files with eos=."
        )
    made = tuple(each.known_by(vocabularies) for each in augmentations)
    ids = [token for each in made for token in each.special]
    if len({*ids, *found}) < len(ids) + 1:
        raise ConfigError(f"augment: its tokens have the ids {shown(ids)}: each is another one, and none is EOS.")
    return made


def asks_in_place(augmentations: Sequence[Augmentation]) -> bool:
    """Whether labels are for the tokens where they stand, and not for those that follow."""
    return any(isinstance(each, Mask) for each in augmentations)


def _rates(augmentation: Augmentation, names: Sequence[str]) -> dict[str, float]:
    rate = augmentation.rate
    if not isinstance(rate, Mapping):
        return dict.fromkeys(names, float(rate))
    for name in rate:
        if name not in names:
            where = f"The rate of {type(augmentation).__name__}"
            raise ConfigError(f"{where} names an unknown source {name!r}{did_you_mean(name, names)}.")
    return {name: float(rate.get(name, 0.0)) for name in names}


def _token_ids(augmentation: Augmentation, vocabularies: Vocabularies) -> tuple[int, ...]:
    return tuple(_token_id(augmentation, token, vocabularies) for token in augmentation.special)


def _token_id(augmentation: Augmentation, token: Token, vocabularies: Vocabularies) -> int:
    """The id of a token, which is the same in all sources."""
    who = type(augmentation).__name__
    if not isinstance(token, str):
        return token
    found = {name: vocabulary.token_id(token) for name, vocabulary in vocabularies.items()}
    for name, id in found.items():
        if id is None:
            raise ConfigError(
                f"{who}: the tokenizer of source {name!r} has no token {token!r}: name one that it has, or give an id "
                "that your model has room for."
            )
    if len(set(found.values())) > 1:
        raise ConfigError(
            f"{type(augmentation).__name__}: the token {token!r} has other ids in other sources: {found}."
        )
    return next(id for id in found.values() if id is not None)


def _vocab_size(augmentation: Mask | Noise, vocabularies: Vocabularies) -> int:
    """How many ids random tokens are drawn from: as it was said, or what all sources have."""
    if augmentation.vocab_size is not None:
        return augmentation.vocab_size
    sizes = [vocabulary.vocab_size for vocabulary in vocabularies.values()]
    if None in sizes:
        raise ConfigError(f"{type(augmentation).__name__} draws random tokens: say how many there are by vocab_size=.")
    return min(size for size in sizes if size is not None)
