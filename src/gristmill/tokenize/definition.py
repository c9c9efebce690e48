"""What a tokenizer is, apart from the library that runs it: the content of its `tokenizer.json` and its EOS.

Every tokenizer is brought to this one form. The fingerprint is taken from it, the store keeps it, any process
can rebuild an encoder from it, and `hide_specials` makes of it the version that documents are encoded with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from gristmill.core.errors import ConfigError
from gristmill.core.hashing import fingerprint
from gristmill.core.texts import byte_letters

Json = dict[str, Any]
Reference = Literal["byte", "tiktoken", "tokenizers"]

ENDOFTEXT = "<|endoftext|>"


@dataclass(frozen=True)
class Definition:
    """A tokenizer as data: small to pickle, free of paths, the same on every machine."""

    name: str
    json: str
    eos: int
    reference: Reference
    """The library whose ids are right by definition."""
    pattern: str = ""
    """The regular expression that splits words, where the reference is tiktoken."""

    @property
    def content(self) -> Json:
        """The parsed `tokenizer.json`: parsed anew at each call, so that callers may change it."""
        parsed: Json = json.loads(self.json)
        parsed["model"].setdefault("type", _model_type(parsed["model"]))
        return parsed


def _model_type(model: Json) -> str:
    """The kind of a model in files so old that they do not name it."""
    if "merges" in model:
        return "BPE"
    if isinstance(model["vocab"], list):
        return "Unigram"
    return "WordPiece" if "max_input_chars_per_word" in model else "WordLevel"


def added_token(content: str, id: int) -> Json:
    """A special token as `tokenizer.json` spells it."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": id, "content": content, **flags}


def byte_level(use_regex: bool) -> Json:
    """The step that spells bytes as letters, as pre-tokenizer or decoder; GPT-2's pattern is its own regex."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def bpe_json(vocab: dict[str, int], merges: list[list[str]], specials: dict[str, int], pre_tokenizer: Json) -> str:
    """The `tokenizer.json` of a byte-level BPE.

    The special tokens stand in the vocabulary too: only so does the tokenizers library keep ids with gaps.
    """
    model = {"type": "BPE", "vocab": {**vocab, **specials}, "merges": merges}
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added_token(text, id) for text, id in sorted(specials.items(), key=lambda x: x[1])],
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": byte_level(use_regex=True),
        "model": model,
    }
    return json.dumps(content, ensure_ascii=False)


# What can be asked of a content.


def vocabulary(content: Json) -> dict[str, int]:
    """Token text -> id, special tokens included."""
    vocab = content["model"]["vocab"]
    ids = {piece: id for id, (piece, _) in enumerate(vocab)} if isinstance(vocab, list) else dict(vocab)
    ids.update((token["content"], token["id"]) for token in content.get("added_tokens") or [])
    return ids


def vocab_size(content: Json) -> int:
    """One more than the highest id: what decides how many bytes a token takes."""
    return max(vocabulary(content).values(), default=-1) + 1


def special_texts(content: Json, eos: int) -> list[str]:
    """The texts of the special tokens and of the EOS, which must stay text inside a document."""
    added = content.get("added_tokens") or []
    texts = {token["content"] for token in added if token.get("special") or token["id"] == eos}
    texts.update(text for text, id in vocabulary(content).items() if id == eos)
    return sorted(texts)


def is_lossless(content: Json) -> bool:
    """Whether decoding must give the text back: bytes in, bytes out, nothing normalised between."""
    steps = pre_tokenizer_steps(content)
    byte_level = [step for step in steps if step["type"] == "ByteLevel"]
    plain = {"ByteLevel", "Split", "Digits"}
    return (
        not content.get("normalizer")
        and bool(byte_level)
        and not any(step.get("add_prefix_space", True) for step in byte_level)
        and all(step["type"] in plain and step.get("behavior") != "Removed" for step in steps)
        and (content.get("decoder") or {}).get("type") == "ByteLevel"
        and vocabulary(content).keys() >= set(byte_letters())
        and not any(token.get("lstrip") or token.get("rstrip") for token in content.get("added_tokens") or [])
    )


def content_fingerprint(content: Json, eos: int) -> str:
    """Names what decides the ids: vocabulary, merges, splitting, normalising, EOS; no path, no backend."""
    model = {key: value for key, value in content["model"].items() if value and key != "dropout"}
    model["merges"] = [pair.split(" ") if isinstance(pair, str) else pair for pair in model.get("merges", [])]
    hidden = set(special_texts(content, eos))
    if isinstance(model["vocab"], dict):
        model["vocab"] = {text: id for text, id in model["vocab"].items() if text not in hidden}
    added = [token for token in content.get("added_tokens") or [] if token["content"] not in hidden]
    splitting = [_canonical_step(step) for step in pre_tokenizer_steps(content)]
    normalizing = list(_steps(content.get("normalizer"), "normalizers"))
    parts = {"model": model, "added": added, "pre_tokenizer": splitting, "normalizer": normalizing}
    return fingerprint({**parts, "eos": eos, "vocab_size": vocab_size(content)})


def pre_tokenizer_steps(content: Json) -> list[Json]:
    """How text is cut into words, step by step, with Sequences laid flat."""
    return list(_steps(content.get("pre_tokenizer"), "pretokenizers"))


def normalizer_kinds(content: Json) -> set[str]:
    """The types of the steps by which text is normalised."""
    return {step["type"] for step in _steps(content.get("normalizer"), "normalizers")}


def _steps(stage: Json | None, inner: str) -> Iterator[Json]:
    """The steps of a normalizer or pre-tokenizer, with Sequences laid flat."""
    if not stage:
        return
    if stage["type"] == "Sequence":
        for step in stage[inner]:
            yield from _steps(step, inner)
    else:
        yield stage


def _canonical_step(step: Json) -> Json:
    """A pre-tokenizer step with its defaults written out and what shapes no ids left out."""
    if step["type"] != "ByteLevel":
        return step
    return {
        "type": "ByteLevel",
        "add_prefix_space": step.get("add_prefix_space", True),
        "use_regex": step.get("use_regex", True),
    }


# The version that documents are encoded with.


def hide_specials(content: Json, eos: int) -> Json:
    """`content` changed (in place) so that its model cannot make a special token out of a document's text.

    The added tokens are the backend's part: see `without_specials` and the tokenizers backend. Here go the
    ways through the model: a merge that builds `</s>`, a whole word looked up in the vocabulary, a Unigram
    piece. Also off: templates (BOS), truncation, padding and dropout, which have no place in stored ids.
    """
    content.update(truncation=None, padding=None, post_processor=None)
    model, hidden = content["model"], set(special_texts(content, eos))
    model["dropout"] = None
    if model["type"] == "BPE":
        model["merges"] = [pair for pair in model["merges"] if _joined(pair) not in hidden]
    if model["type"] != "BPE" or model.get("ignore_merges"):
        renamed = _rename_pieces(model, hidden - {_unknown_piece(model)})
        content["added_tokens"] = [t for t in content.get("added_tokens") or [] if t["content"] not in renamed]
    return content


def without_specials(content: Json, eos: int) -> Json:
    """`content` without its special added tokens: for a backend that reads the others' ids from the file."""
    hidden = set(special_texts(content, eos))
    added = content.get("added_tokens") or []
    return {**content, "added_tokens": [token for token in added if token["content"] not in hidden]}


def require_unreachable_eos(content: Json, eos: int, name: str) -> None:
    """Refuse an EOS that ordinary text encodes to: boundaries could not be told from words."""
    texts = {text for text, id in vocabulary(content).items() if id == eos}
    added = {token["content"] for token in content.get("added_tokens") or []}
    model = content["model"]
    if model.get("unk_token") in texts or _unknown_piece(model) in texts:
        _refuse_eos(name, eos, "is also its token for unknown text")
    if model["type"] == "BPE" and not texts & added:
        letters = {text for text in texts if len(text) == 1}
        if letters or any(_joined(pair) in texts for pair in model["merges"]):
            _refuse_eos(name, eos, "is an ordinary token")


def _refuse_eos(name: str, eos: int, why: str) -> None:
    raise ConfigError(f"The tokenizer {name}: the id {eos} {why}, so it cannot mark document ends; give another eos=.")


def _joined(pair: str | list[str]) -> str:
    return pair.replace(" ", "", 1) if isinstance(pair, str) else "".join(pair)


def _unknown_piece(model: Json) -> str | None:
    if model["type"] == "Unigram" and model.get("unk_id") is not None:
        return str(model["vocab"][model["unk_id"]][0])
    unknown: str | None = model.get("unk_token")
    return unknown


def _rename_pieces(model: Json, hidden: set[str]) -> set[str]:
    """Give the hidden pieces names with a NUL at both ends; the names that were changed. Ids stay."""
    vocab = model["vocab"]
    nul = byte_letters()[0] if model["type"] == "BPE" else "\0"
    if isinstance(vocab, list):
        model["vocab"] = [[nul + p + nul if p in hidden else p, score] for p, score in vocab]
        return hidden & {piece for piece, _ in vocab}
    model["vocab"] = {nul + p + nul if p in hidden else p: id for p, id in vocab.items()}
    return hidden & set(vocab)
