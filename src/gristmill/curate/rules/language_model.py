"""The language model that ships inside the `py3langid` wheel, run by our own compiled kernel.

It knows 139 languages and `zxx`, "not a language" (numbers, markup, identifiers), by 100,053 byte n-grams. Unpacking
the wheel's takes 1 s, so what comes of it is kept, and read in a twentieth of that; it fills 75 MB a process. Answers
are those of py3langid with `norm_probs=True` on the same bytes.
"""

from __future__ import annotations

import functools
import pickle
import unicodedata
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Bytes, Ints
from gristmill.core.kept import keep, read_kept
from gristmill.core.version import version_of

# The model's own codes where ISO 639-1 has one.
RENAMED = {"gug": "gn", "kik": "ki", "fuv": "ff", "uzs": "uz"}

NO_LANGUAGE = "zxx"
MAX_SAMPLE = 1 << 16
# Arrays of the kept model begin at multiples of this.
_LINE = 64

Labels = npt.NDArray[np.int32]
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """Names by label, the automaton (moves, rows, features) and Bayes' tables (table, prior, logs, labels)."""

    languages: tuple[str, ...]
    automaton: tuple[Any, ...]
    bayes: tuple[Any, ...]


def versions() -> dict[str, str]:
    """What the answers depend on: the wheel that carries the model."""
    return {"py3langid": version_of("py3langid")}


def kept_model_name() -> str:
    """The name under which the unpacked model is kept."""
    return f"{__name__}.{version_of('py3langid')}"


@functools.cache
def load() -> Model:
    """The model, once a process."""
    source, name = Path(__file__), kept_model_name()
    if (found := read_kept(source, name)) is not None:
        return _loaded(found)
    made = _unpacked()
    keep(source, name, _dumped(made))
    return made


def _dumped(model: Model) -> bytes:
    """A model for disk: its pickle, and behind it the bytes of its arrays, which need not be copied out again."""
    arrays: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(model, pickle.HIGHEST_PROTOCOL, buffer_callback=arrays.append)
    held = [bytes(array.raw()) for array in arrays]
    head = pickle.dumps((pickled, [len(data) for data in held]))
    return b"".join(part + bytes(-len(part) % _LINE) for part in (len(head).to_bytes(_LINE, "little"), head, *held))


def _loaded(content: memoryview) -> Model:
    """What `_dumped` gave: of our own making, and whole."""
    size = int.from_bytes(content[:_LINE], "little")
    pickled, sizes = pickle.loads(content[_LINE : _LINE + size])
    ends = accumulate(length + -length % _LINE for length in (_LINE, size, *sizes))
    arrays = [content[start : start + length] for start, length in zip(islice(ends, 1, None), sizes, strict=False)]
    model: Model = pickle.loads(pickled, buffers=arrays)
    return model


def _unpacked() -> Model:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped, unused-ignore]

    raw = LanguageIdentifier.from_model_file(MODEL_FILE)
    names = [RENAMED.get(name, name) for name in raw.nb_classes]
    languages = tuple(dict.fromkeys(names))
    labels = np.array([languages.index(name) for name in names], np.int32)
    automaton = (_int32(raw.tk_nextmove), _int32(raw.tk_row) << 8, _int32(raw.tk_output))
    # Half-precision logarithms between -16 and -2 are multiples of 1/512: 16-bit integers hold them exactly.
    table = np.ascontiguousarray(raw.nb_ptc.astype(np.float32) * 512, np.int16)
    # log(1 + n) for each count that a sample can have, in the table's unit; rounded, since C libraries differ.
    logs = np.round(np.log1p(np.arange(2 * MAX_SAMPLE)) * (1 << 16)) / (1 << 16) / 512
    return Model(languages, automaton, (table, raw.nb_pc.astype(np.float32), logs.astype(np.float32), labels))


def _int32(values: Any) -> npt.NDArray[np.int32]:
    return np.ascontiguousarray(np.asarray(values), np.int32)


def identify(data: Bytes, offsets: Ints, limit: int) -> tuple[Labels, Scores]:
    """The place of each text's language in `Model.languages` (-1: none), and its score from 0 to 1.

    A text is judged on at most `limit` bytes, in composed form (NFC), and in small letters if it has none.
    """
    from gristmill.curate.rules import language_kernels as kernels

    samples, ends = _sample(data, offsets, limit)
    unusual = np.zeros(len(ends) - 1, np.bool_)
    kernels.find_unusual(samples, ends, unusual)
    labels, scores = _identify(samples, ends)
    for row in np.flatnonzero(unusual).tolist():
        raw = samples[ends[row] : ends[row + 1]].tobytes()
        if (usual := _as_the_model_knows(raw)) != raw:
            once = np.frombuffer(bytearray(usual), np.uint8)
            labels[row : row + 1], scores[row : row + 1] = _identify(once, np.array([0, len(once)], np.int64))
    return labels, scores


def _sample(data: Bytes, offsets: Ints, limit: int) -> tuple[Bytes, Ints]:
    from gristmill.curate.rules import language_kernels as kernels

    room = int(np.minimum(np.diff(offsets), limit + 4 * kernels.PIECES).sum())
    samples, ends = np.empty(room, np.uint8), np.zeros(len(offsets), np.int64)
    kernels.sample(data, offsets, limit, samples, ends)
    return samples, ends


def _identify(samples: Bytes, ends: Ints) -> tuple[Labels, Scores]:
    from gristmill.curate.rules import language_kernels as kernels

    model = load()
    labels, scores = np.empty(len(ends) - 1, np.int32), np.empty(len(ends) - 1, np.float64)
    kernels.identify(samples, ends, model.automaton, model.bayes, labels, scores)
    return labels, scores


def _as_the_model_knows(raw: bytes) -> bytes:
    """Composed, and in small letters where all are capitals."""
    text = raw.decode()
    return unicodedata.normalize("NFC", text.lower() if text.isupper() else text).encode()
