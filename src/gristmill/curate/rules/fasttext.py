"""Ask a fastText classifier: toxicity, quality, or what else a model file was trained for."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gristmill.core.errors import ConfigError
from gristmill.core.extras import require
from gristmill.core.hashing import hash64
from gristmill.core.options import check_fields, check_order
from gristmill.core.values import Share
from gristmill.curate.base import KEEP, Values, Verdict
from gristmill.curate.documents import Documents
from gristmill.places.door import place_at


@dataclass(frozen=True)
class FastText:
    """Drop what the model file gives `label` a probability over `max_score` or under `min_score`.

    A document is judged whole, as one line: line feeds become blanks. Needs the extra `fasttext` (0.3 MB).
    """

    name: ClassVar[str] = "fasttext"

    model: str
    label: str
    max_score: Share = 1.0
    min_score: Share = 0.0

    def __post_init__(self) -> None:
        check_fields(self, "fasttext")
        check_order(self, "fasttext", ("min_score", "max_score"))
        require("fasttext", "filter fasttext")

    def check(self) -> None:
        """Refuse a file that is no model, and a label that it does not know."""
        _load(self.model, self._label)

    def versions(self) -> dict[str, str]:
        try:
            return {"model": f"{hash64(place_at(self.model).read()):016x}"}
        except OSError as error:
            raise ConfigError(f"filter fasttext: {self.model} cannot be read: {error.strerror}.") from error

    def judge(self, documents: Documents) -> Verdict:
        model = _load(self.model, self._label)
        scores: Values = np.array(
            [self._score(model, documents.string(row)) for row in range(len(documents))], np.float64
        )
        codes = np.select([scores > self.max_score, scores < self.min_score], [0, 1], KEEP).astype(np.int16)
        return Verdict(("fasttext_over", "fasttext_under"), codes, scores)

    @property
    def _label(self) -> str:
        return f"__label__{self.label.removeprefix('__label__')}"

    def _score(self, model: Any, text: str) -> float:
        labels, scores = model.predict(text.replace("\n", " "), k=-1)
        return float(dict(zip(labels, scores, strict=True)).get(self._label, 0.0))


@functools.cache
def _load(path: str, label: str) -> Any:
    """The model, once a process."""
    import fasttext  # type: ignore[import-not-found, import-untyped, unused-ignore]

    try:
        model = fasttext.load_model(path)
    except ValueError as error:
        raise ConfigError(f"filter fasttext: {path} is no fastText model: {error}.") from error
    known = sorted(model.predict("", k=-1)[0])
    if label not in known:
        raise ConfigError(f"filter fasttext: {path} knows no label {label!r}, only {', '.join(known[:20])}.")
    return model
