"""spaCy's English tokenizer rules, taken from the installed spaCy itself and kept: it is imported once a machine."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gristmill.core.arrays import Bytes, Hashes
from gristmill.core.extras import extra
from gristmill.core.hashing import hash64
from gristmill.core.kept import keep, read_kept
from gristmill.core.kernels.slots import HashMap, hash_map, hash_set
from gristmill.curate.words import kept_rules_name

# What a character may do in spaCy's rules: be split off in front or at the end; count as a letter; let a point after
# it be split off; be a capital; stand before or after a point that separates; separate by itself.
PREFIX, SUFFIX, LETTER, BEFORE_LAST_POINT, CAPITAL, BEFORE_POINT, AFTER_POINT, SEPARATOR = (
    1 << bit for bit in range(8)
)

PATTERNS = ("prefix", "suffix", "infix", "url")
# xxh3 of the patterns that chunk_tokenizer.py was written for, those of spaCy 3.8; with others spaCy is asked for all.
_KNOWN_PATTERNS = 0xA49C223E54026633

# No special case is longer, in characters.
MAX_SPECIAL = 16
# A character by its number, and a character or a range of them, inside a character class.
_NUMBER = re.compile(r"\\(?:u(.{4})|U(.{8}))")
_RANGE = re.compile(r"\\?(.)(?:-\\?(.))?", re.DOTALL)


@dataclass(frozen=True)
class SpacyRules:
    """What an installed spaCy does with English, in plain values; where `known` is False, by patterns of its own."""

    known: bool
    # Prefix, suffix, infix and url: regular expressions as spaCy uses them.
    patterns: dict[str, str]
    # Special cases, each with its tokens.
    rules: dict[str, list[str]]
    # Those that spaCy also looks for among tokens, each with the tokens that it is without being special.
    phrases: dict[str, list[str]]
    # What is split off after a digit: units and currencies.
    units: list[str]
    # By what a character may do (PREFIX, ...), the inside of a class of characters.
    classes: dict[str, str]
    # The characters that end a sentence.
    ends: list[str]

    @property
    def tables(self) -> tuple[bool, Bytes, HashMap, HashMap, Hashes]:
        """For compiled code: `known`, the classes of characters, where the tokens of rules and phrases begin, units."""
        specials, phrases = (
            hash_map({text: _begins(tokens) for text, tokens in cases.items()}) for cases in (self.rules, self.phrases)
        )
        return self.known, _class_table(self.classes), specials, phrases, hash_set(self.units)


@cache
def spacy_rules() -> SpacyRules:
    """The rules of the installed spaCy: read from it once a machine and version, which takes seconds, and kept."""
    with extra("spacy", "The word splitter 'spacy'"):
        name = kept_rules_name()
    source = Path(__file__)
    if (kept := read_kept(source, name)) is not None:
        return SpacyRules(**json.loads(bytes(kept)))
    made = read_rules(load_english())
    keep(source, name, json.dumps(vars(made)).encode())
    return made


def load_english() -> Any:
    """spaCy's English tokenizer with a sentencizer; importing spaCy takes seconds."""
    with extra("spacy", "The word splitter 'spacy'"), _without_torch():
        import spacy
    english = spacy.blank("en")
    english.add_pipe("sentencizer")
    # What spaCy notes of each new word (its shape, whether it is a number) takes half of its time and is not used.
    english.vocab.lex_attr_getters.clear()  # type: ignore[attr-defined]
    return english


@contextlib.contextmanager
def _without_torch() -> Iterator[None]:
    """Keep spaCy from importing torch, which its tokenizer does not need: 3.5 s of its 5.

    Only in a worker process, where nobody else could want spaCy's models.
    """
    hidden = multiprocessing.parent_process() is not None and "torch" not in sys.modules
    if hidden:
        sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules["torch"]


def read_rules(english: Any) -> SpacyRules:
    """The rules of this `spacy.blank('en')` with a sentencizer."""
    from spacy.lang import char_classes
    from spacy.symbols import ORTH  # type: ignore[import-not-found]  # compiled, without stubs

    tokenizer = english.tokenizer
    special = {rule: tokens for rule, tokens in tokenizer.rules.items() if not rule.isspace()}
    rules = {rule: [token[ORTH] for token in tokens] for rule, tokens in special.items()}
    searches = (tokenizer.prefix_search, tokenizer.suffix_search, tokenizer.infix_finditer, tokenizer.url_match)
    affixes = (tokenizer.find_prefix, tokenizer.find_infix, tokenizer.find_suffix)
    # As spaCy itself splits a special case to look for it among tokens.
    plain = type(tokenizer)(tokenizer.vocab, {}, *searches[:3], None, tokenizer.url_match)
    return SpacyRules(
        known=_fingerprint(english) == _KNOWN_PATTERNS and max(map(len, rules)) <= MAX_SPECIAL,
        patterns=dict(zip(PATTERNS, (search.__self__.pattern for search in searches), strict=True)),
        rules=rules,
        phrases={rule: [token.text for token in plain(rule)] for rule in rules if any(find(rule) for find in affixes)},
        units=[*char_classes.UNITS.split("|"), *char_classes.CURRENCY.replace("\\", "").split("|"), "+"],
        classes=_classes(english.Defaults, char_classes),
        ends=sorted(english.get_pipe("sentencizer").punct_chars),
    )


def _begins(tokens: Sequence[str]) -> int:
    """Bit k for each token that begins at character k."""
    return sum(1 << len("".join(tokens[:place])) for place in range(len(tokens)))


def _fingerprint(english: Any) -> int:
    """Of everything that decides but the special cases and white space."""
    defaults = english.Defaults
    patterns = [*defaults.prefixes, *defaults.suffixes, *defaults.infixes, defaults.url_match.__self__.pattern]
    return hash64("\n".join([*patterns, str(english.tokenizer.token_match)]))


def _classes(defaults: Any, char_classes: ModuleType) -> dict[str, str]:
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
    return {str(mark): characters for mark, characters in sets.items()}


def _class_table(classes: dict[str, str]) -> Bytes:
    """What each character may do, as bits."""
    table = np.zeros(0x110000, np.uint8)
    for mark, characters in classes.items():
        spelt = _NUMBER.sub(lambda found: chr(int(found[1] or found[2], 16)), characters)
        for first, last in _RANGE.findall(spelt):
            table[ord(first) : ord(last or first) + 1] |= np.uint8(int(mark))
    return table


def _single(patterns: Iterable[str]) -> str:
    """The patterns that are one character, as the inside of a character class."""
    return "".join(re.escape(pattern[-1]) for pattern in patterns if re.fullmatch(r"\\?.", pattern))
