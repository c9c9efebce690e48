"""The tokenizer that a store keeps beside its tokens: ids of a text as `prepare` makes them, and back."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gristmill.core.arguments import refuse
from gristmill.core.errors import ConfigError, StoreError
from gristmill.places.door import place_at
from gristmill.store.sums import check_listed, read_sums

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def load_kept(path: str | None, store: str) -> Tokenizer:
    """The tokenizer as the `tokenizers` library has it; special tokens in a text stay text, as in documents."""
    if path is None or not place_at(path).exists():
        raise ConfigError(f"{store} has no tokenizer.json beside it: its tokens can be neither decoded nor made.")
    check_listed(path, os.path.basename(path), read_sums(os.path.dirname(path)))
    try:
        return _parsed(place_at(path).read())
    except Exception as error:  # the library raises nothing narrower
        raise StoreError(f"{path} cannot be read ({error}): restore it.") from error


@functools.lru_cache(maxsize=1)
def _parsed(content: bytes) -> Tokenizer:
    """The splits of a store have one tokenizer, which takes 0.2 s to parse."""
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_str(content.decode("utf-8"))
    loaded.encode_special_tokens = True
    return loaded


def as_ids(name: str, value: npt.ArrayLike) -> npt.NDArray[Any]:
    """Token ids: a number, a list or an array of them."""
    try:
        ids = np.asarray(value).ravel()
    except ValueError:  # lists of different lengths
        ids = np.array([object()])
    if ids.size and (ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= 1 << 32):
        raise refuse(name, "token ids: whole numbers of 0 or more", value)
    return ids


def encode(tokenizer: Tokenizer, text: str, eos: int | None, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The ids of a text, without EOS."""
    ids = np.array(tokenizer.encode(text, add_special_tokens=False).ids, dtype=dtype)
    if eos is not None and (ids == eos).any():
        raise ConfigError("The text spells the token that ends documents: encode what is before and after it.")
    return ids
