"""What both sides do: rules with the same limits in the same order, under names that both understand."""

from __future__ import annotations

from typing import Any

FAMILIES = ("gopher_quality", "gopher_repetition", "c4", "fineweb")
# The order and the options of the pipeline that made FineWeb: lines need not end in punctuation.
CHAIN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gopher_repetition", {}),
    ("gopher_quality", {}),
    ("c4", {"skip": ["terminal"]}),
    ("fineweb", {}),
)
# Signatures of 128 permutations, Gristmill's default, and of 112, datatrove's.
SIGNATURES = {"minhash 16x8": (16, 8), "minhash 14x8": (14, 8)}
NGRAM = 5
CASES = (*FAMILIES, "chain", *SIGNATURES, "tokenise")
# MinHash by other libraries, 128 permutations.
LIBRARIES = ("minhash datasketch", "minhash rensa")
