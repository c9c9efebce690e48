"""Tokens that other systems made, as a store of our own with the tokenizer that made them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gristmill.core.arguments import PathLike, as_text, as_whole
from gristmill.core.progress import Shown, shown
from gristmill.store.importing import ImportReport, Paths, import_store
from gristmill.tokenize.tokenizer import load_tokenizer


def import_tokens(
    paths: Paths | Mapping[str, Paths],
    out: PathLike,
    tokenizer: str,
    *,
    eos: int | None = None,
    dtype: str | None = None,
    boundaries: str = "auto",
    split: str = "train",
    overwrite: bool = False,
    progress: Shown = None,
) -> ImportReport:
    """Other systems' token files to a store at `out`, one shard a file, with the tokenizer that made them beside it.

    A mapping of `train` and `val` to files gives both splits at once. Documents are found by the files' own index, or
    by EOS where they have none; boundaries="eos" is always by EOS.
    """
    eos = None if eos is None else as_whole("eos", eos, 0)
    loaded = load_tokenizer(as_text("tokenizer", tokenizer, "the tokenizer that made the tokens"), eos=eos)
    named = {"name": Path(loaded.name).name, "fingerprint": loaded.fingerprint}
    with shown(progress) as told:
        if loaded.note:
            told.note(loaded.note)
        return import_store(
            paths, out, eos=loaded.eos, vocab_size=loaded.vocab_size, dtype=dtype, tokenizer=named, split=split,
            tokenizer_json=loaded.to_json(), boundaries=boundaries, overwrite=overwrite, progress=told,
        )  # fmt: skip
