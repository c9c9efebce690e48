"""What somebody may mean who asks a stream for a word that it has not, as other libraries have."""

from __future__ import annotations

NO_BATCHES = (
    'This stream has no batches yet: say .tokenize("gpt2"), then .pack(2048), .chunk(2048) or .pad(2048), then '
    ".batch(64, seed=0)."
)
_HINTS = {
    "shuffle": "batch(64, seed=0) shuffles, and hold=4 over four times as much",
    "repeat": "without epochs= batch() has no end, and with epochs=2 it ends after two",
    **dict.fromkeys(("take", "skip"), "take the first batches by itertools.islice, and go on from a state"),
    **dict.fromkeys(
        ("select", "rename_column", "remove_columns"), "gm.stream(..., text=, id=, fields=) names what is read"
    ),
}


def stream_lacks(name: str) -> str:
    """A stream, which has no batches, is asked for something that it has not."""
    if name in ("loader", "trace", "state_dict", "load_state_dict"):
        return NO_BATCHES
    return f"A stream has no {name!r}{f': {_HINTS[name]}' if name in _HINTS else ''}."


def batches_lack(name: str, of_streams: bool) -> str:
    """The batches of a stream are asked for something that they have not, and perhaps streams have."""
    hint = ": batch() comes last, so say that before" if of_streams else f": {_HINTS[name]}" if name in _HINTS else ""
    return f"Batches have no {name!r}{hint}."
