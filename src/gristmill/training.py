"""A tokenizer of one's own, learnt from the texts of any source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gristmill.core.arguments import PathLike, as_flag, as_text, as_whole
from gristmill.core.errors import ConfigError
from gristmill.core.progress import Progress, Shown, shown
from gristmill.core.sizes import parse_size
from gristmill.places.door import as_addresses, as_target
from gristmill.sources.base import Format, Mishaps, expand
from gristmill.sources.units import Unit, cut_units, read_unit
from gristmill.tokenize.training import TrainingReport
from gristmill.tokenize.training import train_tokenizer as train


def train_tokenizer(
    inputs: PathLike | Sequence[PathLike],
    out: PathLike,
    *,
    vocab_size: int = 32_000,
    limit: str | int = "1GB",
    text: str = "text",
    overwrite: bool = False,
    progress: Shown = None,
) -> TrainingReport:
    """A byte-level BPE tokenizer from the first `limit` bytes of text in `inputs`, as a tokenizer.json at `out`."""
    layout, place, most = Format(text=as_text("text", text)), as_target("out", out), parse_size(limit, "limit")
    if most < 1:
        raise ConfigError(f"limit must be a size above 0, not {limit!r}.", arguments="limit")
    vocab_size, overwrite = as_whole("vocab_size", vocab_size), as_flag("overwrite", overwrite)
    units = cut_units(expand("text", [str(path) for path in as_addresses("inputs", inputs)]), {"text": layout})
    with shown(progress) as told:
        told.start("reading text to learn from", min(most, sum(unit.size for unit in units)))
        texts = _texts(units, layout, told)
        report = train(texts, place, vocab_size=vocab_size, limit_bytes=most, overwrite=overwrite)
        for note in report.notes:
            told.note(note)
    return report


def _texts(units: Sequence[Unit], layout: Format, progress: Progress) -> Iterator[str]:
    for batch in (batch for unit in units for batch in read_unit(unit, layout, Mishaps("raise"))):
        yield from batch.column("text").to_pylist()
        progress.advance(batch.column("text").nbytes)
