"""What gigatoken reads in a `tokenizer.json` and then does not do.

It refuses what it does not know, with these exceptions, found by comparing it (0.10.0) with the tokenizers
library on some forty small variations of one file. A start-up sample might miss them: so they are named here.
"""

from __future__ import annotations

from gristmill.tokenize.definition import Json, pre_tokenizer_steps


def unsupported(content: Json) -> str | None:
    """The part of this tokenizer that gigatoken would pass over in silence; None where all is well."""
    model = content["model"]
    for affix in ("end_of_word_suffix", "continuing_subword_prefix"):
        if model.get(affix):
            return affix
    if not model.get("byte_fallback") and not _cuts_like_gigatoken(pre_tokenizer_steps(content)):
        return "pre_tokenizer"
    return _unsupported_added_token(content)


def _cuts_like_gigatoken(steps: list[Json]) -> bool:
    """One ByteLevel with its own pattern, or Splits and then a ByteLevel that only maps bytes."""
    if not steps or steps[-1]["type"] != "ByteLevel":
        return False
    *splits, last = steps
    if not splits:
        return bool(last.get("use_regex", True))
    plain = not last.get("use_regex", True) and not last.get("add_prefix_space", True)
    return plain and all(_keeps_everything(step) for step in splits)


def _keeps_everything(step: Json) -> bool:
    kept = (("Isolated", False), ("Removed", True))
    return step["type"] == "Split" and (step.get("behavior"), step.get("invert", False)) in kept


def _unsupported_added_token(content: Json) -> str | None:
    for token in content.get("added_tokens") or []:
        flags = ["single_word", "lstrip", "rstrip"] + ["normalized"] * bool(content.get("normalizer"))
        for flag in flags:
            if token.get(flag):
                return f"{flag} of the added token {token['content']!r}"
    return None
