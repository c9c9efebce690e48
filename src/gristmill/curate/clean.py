"""Cleaning: each text in one spelling (Unicode, line ends, blanks), without control characters or personal data."""

from __future__ import annotations

import importlib.metadata
import platform
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import cast

import numpy as np
import numpy.typing as npt

from gristmill.core.arrays import Ints, Mask
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.extras import require
from gristmill.core.texts import Texts, differing, from_strings
from gristmill.curate.clean_table import CHANGES, REMOVED, REPLACED, CleanTable, Form, make_pairs, make_table
from gristmill.curate.documents import Documents
from gristmill.curate.redact import Variant, check_redaction, redact

_FORMS: dict[str, Form | None] = {"nfc": "NFC", "nfkc": "NFKC", "none": None}

Changed = dict[str, Mask]


@dataclass(frozen=True)
class CleanOptions:
    """The steps of cleaning, in the order in which they run; all together leave clean text as it is.

    ftfy: repair text that was decoded by the wrong codec ("schÃ¶n"), line by line, until nothing is left to repair.
        ftfy's other services (HTML entities, straight quotes, ligatures, widths) would change good text: they are off.
    line_ends: CR LF, CR, VT, FF, NEL, U+2028 and U+2029 become one LF.
    control: remove C0, DEL and C1 (tab and line ends apart), byte order marks and the 66 noncharacters. Joiners,
        directional marks, zero-width spaces, soft hyphens and private characters mean something to some and stay.
    unicode: nfc, nfkc or none.
    whitespace: strip blanks (tabs and all of Unicode's space separators) before line ends, and blanks and line ends
        at the end of a document. Indentation, runs of blanks and empty lines inside of a text stay.
    redact: email, ip, phone; or with other placeholders {email: "<EMAIL>"}. See `redact`.
    redact_variant: `datatrove` finds what datatrove's PIIFormatter finds (no phone numbers, no IPv6).
    """

    unicode: str = "nfc"
    control: bool = True
    whitespace: bool = True
    line_ends: bool = True
    ftfy: bool = False
    redact: Sequence[str] | Mapping[str, str] = ()
    redact_variant: Variant = "gristmill"

    def __post_init__(self) -> None:
        if self.unicode not in _FORMS:
            raise ConfigError(f"clean has no unicode: {self.unicode!r}{did_you_mean(str(self.unicode), _FORMS)}.")
        for name in ("control", "whitespace", "line_ends", "ftfy"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"clean's {name} is true or false, not {getattr(self, name)!r}.")
        if self.ftfy:
            require("ftfy", "clean: {ftfy: true}")
        object.__setattr__(self, "redact", check_redaction(self.redact, self.redact_variant))

    def versions(self) -> dict[str, str]:
        """What the cleaned text depends on beside Unicode's tables: ftfy, and Python's list of public IP addresses."""
        found = {"ftfy": importlib.metadata.version("ftfy")} if self.ftfy else {}
        return {**found, "python": platform.python_version()} if "ip" in self.placeholders else found

    @property
    def placeholders(self) -> dict[str, str]:
        return cast("dict[str, str]", self.redact)

    @property
    def table(self) -> CleanTable:
        return make_table(_FORMS[self.unicode], self.control, self.line_ends, self.whitespace)


@dataclass(frozen=True)
class Cleaned:
    """The documents after cleaning (the same object where nothing changed), and which of them each step changed."""

    documents: Documents
    changed: Changed = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """How many documents each step changed; a step that changed none is not named."""
        return {step: int(mask.sum()) for step, mask in self.changed.items() if mask.any()}


def clean(documents: Documents, options: CleanOptions) -> Cleaned:
    """Clean each document by itself: a second cleaning changes nothing, but for datatrove's redaction."""
    changed: Changed = {}
    cleaned = _repair(documents, options, changed) if options.ftfy else documents
    cleaned = _normalise(cleaned, options, changed)
    for kind, placeholder in options.placeholders.items():
        redacted = redact(cleaned, kind, placeholder, options.redact_variant)
        changed[kind], cleaned = differing(cleaned, redacted), redacted
    return Cleaned(documents if cleaned is documents else documents.with_text(cleaned.data, cleaned.offsets), changed)


def _normalise(texts: Texts, options: CleanOptions, changed: Changed) -> Texts:
    """All steps but ftfy and redaction. Documents that need none of them cost one pass over their bytes."""
    rows = np.flatnonzero(_scan(texts, options.table))
    if not len(rows):
        return texts
    part, steps = texts.gather(rows), Changed()
    for step in (_edit, _compose, _strip):
        part = step(part, options, steps)
    _note(changed, steps, rows, len(texts))
    return texts.put(rows, part)


def _scan(texts: Texts, table: CleanTable) -> npt.NDArray[np.uint16]:
    """What each document needs, as bits of the table."""
    from gristmill.curate.clean_kernels import scan

    found = np.zeros(len(texts), np.uint16)
    scan(texts.data, texts.offsets, table, make_pairs(), found)
    return found


def _edit(texts: Texts, options: CleanOptions, steps: Changed) -> Texts:
    """Line ends before control characters: a CR and a LF that only these keep apart are two line ends."""
    from gristmill.curate.clean_kernels import edit

    found = np.zeros(len(texts), np.uint16)
    edited = Texts(*edit(texts.data, texts.offsets, options.table, found))
    steps["line_ends"], steps["control"] = (found & REPLACED) != 0, (found & REMOVED) != 0
    return edited


def _compose(texts: Texts, options: CleanOptions, steps: Changed) -> Texts:
    """The normal form after control characters: when they go, characters come together that compose."""
    form = _FORMS[options.unicode]
    if form is None:
        return texts
    rows = np.flatnonzero(_scan(texts, options.table) & CHANGES)
    composed = texts.put(rows, from_strings([unicodedata.normalize(form, texts.string(int(row))) for row in rows]))
    steps["unicode"] = differing(texts, composed)
    return composed


def _strip(texts: Texts, options: CleanOptions, steps: Changed) -> Texts:
    """Blanks last: NFKC makes blanks of other characters."""
    from gristmill.curate.clean_kernels import strip

    stripped = Texts(*strip(texts.data, texts.offsets, options.table))
    steps["whitespace"] = differing(texts, stripped)
    return stripped


def _repair(texts: Texts, options: CleanOptions, changed: Changed) -> Texts:
    """ftfy and the other steps by turns until neither finds anything: each may bring together what the other mends.

    ASCII documents are passed over: all that ftfy's repair of encodings looks for are characters from U+0080 on.
    """
    rows = np.flatnonzero(~_ascii(texts))
    while len(rows):
        part, steps = texts.gather(rows), Changed()
        mended = from_strings([fix_encoding(part.string(row)) for row in range(len(rows))])
        steps["ftfy"] = differing(part, mended)
        settled = _normalise(mended, options, steps)
        _note(changed, steps, rows, len(texts))
        texts, rows = texts.put(rows, settled), rows[differing(part, settled)]
    return texts


def _ascii(texts: Texts) -> Mask:
    from gristmill.curate.clean_kernels import scan_ascii

    found = np.zeros(len(texts), np.bool_)
    scan_ascii(texts.data, texts.offsets, found)
    return found


def _note(changed: Changed, steps: Changed, rows: Ints, count: int) -> None:
    """Add what the steps changed among `rows` to what they changed among all `count` documents."""
    for step, mask in steps.items():
        changed.setdefault(step, np.zeros(count, np.bool_))[rows[mask]] = True


def fix_encoding(text: str) -> str:
    """Mojibake undone by ftfy, a line at a time; nothing else of what ftfy can do."""
    return _ftfy()(text)


@cache
def _ftfy() -> Callable[[str], str]:
    import ftfy

    others = ("unescape_html", "remove_terminal_escapes", "fix_latin_ligatures", "fix_character_width", "uncurl_quotes")
    off = dict.fromkeys((*others, "fix_line_breaks", "fix_surrogates", "remove_control_chars"), False)
    return partial(ftfy.fix_text, config=ftfy.TextFixerConfig(**off, normalization=None, explain=False))
