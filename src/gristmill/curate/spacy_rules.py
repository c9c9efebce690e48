"""spaCy's English tokenizer rules as tables for compiled code, taken from the installed spaCy itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gristmill.core.hashing import hash64

if TYPE_CHECKING:
    from gristmill.core.kernels.slots import Hashes, HashMap

# What a character may do in spaCy's rules: be split off in front or at the end; count as a letter; let a point after
# it be split off; be a capital; stand before or after a point that separates; separate by itself.
PREFIX, SUFFIX, LETTER, BEFORE_LAST_POINT, CAPITAL, BEFORE_POINT, AFTER_POINT, SEPARATOR = (
    1 << bit for bit in range(8)
)

# xxh3 of the patterns that chunk_tokenizer.py was written for, those of spaCy 3.8; with others spaCy is asked for all.
_KNOWN_PATTERNS = 0xA49C223E54026633

# No special case is longer, in characters.
MAX_SPECIAL = 16
# A character by its number, and a character or a range of them, inside a character class.
_NUMBER = re.compile(r"\\(?:u(.{4})|U(.{8}))")
_RANGE = re.compile(r"\\?(.)(?:-\\?(.))?", re.DOTALL)


@dataclass(frozen=True)
class SpacyRules:
    """Tables of one tokenizer; with `known` False they are of no use, as its patterns are others."""

    known: bool
    classes: npt.NDArray[np.uint8]
    # By special case, where its tokens begin: bit k for its character k.
    specials: HashMap
    # Of the special cases that spaCy also looks for among tokens: where those tokens begin.
    phrases: HashMap
    # What is split off after a digit: units and currencies.
    after_digit: Hashes

    @property
    def tables(self) -> tuple[Any, ...]:
        return self.known, self.classes, self.specials, self.phrases, self.after_digit


def spacy_rules(english: Any) -> SpacyRules:
    """The rules of this `spacy.blank('en')`."""
    from spacy.lang import char_classes
    from spacy.symbols import ORTH  # type: ignore[import-not-found]  # compiled, without stubs

    from gristmill.core.kernels.slots import hash_map, hash_set

    tokenizer = english.tokenizer
    rules = {rule: tokens for rule, tokens in tokenizer.rules.items() if not rule.isspace()}
    plain = _without_special_cases(tokenizer)
    phrases = {rule: [token.text for token in plain(rule)] for rule in rules if _has_affix(tokenizer, rule)}
    units = [*char_classes.UNITS.split("|"), *char_classes.CURRENCY.replace("\\", "").split("|"), "+"]
    return SpacyRules(
        _fingerprint(english) == _KNOWN_PATTERNS and max(map(len, rules)) <= MAX_SPECIAL,
        _classes(english.Defaults, char_classes),
        hash_map({rule: _begins([token[ORTH] for token in tokens]) for rule, tokens in rules.items()}),
        hash_map({rule: _begins(tokens) for rule, tokens in phrases.items()}),
        hash_set(units),
    )


def _without_special_cases(own: Any) -> Any:
    """As spaCy itself splits a special case to look for it among tokens."""
    return type(own)(own.vocab, {}, own.prefix_search, own.suffix_search, own.infix_finditer, None, own.url_match)


def _begins(tokens: Sequence[str]) -> int:
    """Bit k for each token that begins at character k."""
    return sum(1 << len("".join(tokens[:place])) for place in range(len(tokens)))


def _fingerprint(english: Any) -> int:
    """Of everything that decides but the special cases and white space."""
    defaults = english.Defaults
    patterns = [*defaults.prefixes, *defaults.suffixes, *defaults.infixes, defaults.url_match.__self__.pattern]
    return hash64("\n".join([*patterns, str(english.tokenizer.token_match)]))


def _has_affix(tokenizer: Any, rule: str) -> bool:
    return bool(tokenizer.find_prefix(rule) or tokenizer.find_infix(rule) or tokenizer.find_suffix(rule))


def _classes(defaults: Any, char_classes: Any) -> npt.NDArray[np.uint8]:
    lower, upper, quotes = char_classes.ALPHA_LOWER, char_classes.ALPHA_UPPER, char_classes.CONCAT_QUOTES
    sets = {
        PREFIX: _single(defaults.prefixes) + char_classes.ICONS,
        SUFFIX: _single(defaults.suffixes) + char_classes.ICONS,
        LETTER: char_classes.ALPHA,
        BEFORE_LAST_POINT: rf"0-9{lower}%²\-\+{char_classes.PUNCT}(?:{quotes})",
        CAPITAL: upper,
        BEFORE_POINT: lower + quotes,
        AFTER_POINT: upper + quotes,
        SEPARATOR: "…" + char_classes.ICONS,
    }
    table = np.zeros(0x110000, np.uint8)
    for mark, characters in sets.items():
        spelt = _NUMBER.sub(lambda found: chr(int(found[1] or found[2], 16)), characters)
        for first, last in _RANGE.findall(spelt):
            table[ord(first) : ord(last or first) + 1] |= np.uint8(mark)
    return table


def _single(patterns: Any) -> str:
    """The patterns that are one character, as the inside of a character class."""
    return "".join(re.escape(pattern[-1]) for pattern in patterns if re.fullmatch(r"\\?.", pattern))
