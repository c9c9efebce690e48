"""When to rebuild the fast encoder, which remembers every word it has seen.

gigatoken's memory grows with new words, not with bytes: 70 MB over 700 MB of sources and prose, but 7 MB for
each MB of random words and of unspaced Chinese (0.9 GB after 150 MB). Building it again takes 0.1 s and gives
the memory back. So it is rebuilt when the process has grown by 512 MB since it was built, looked at every 16
MB of text; where the system does not tell (no /proc), after 128 MB of text, which costs about a tenth of the
speed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

GROWTH = 512 << 20
LOOK_EVERY = 16 << 20
BLIND_BYTES = 128 << 20


def resident_bytes() -> int | None:
    """Memory that this process holds now; None where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


@dataclass
class Budget:
    """What one encoder may take before it is built anew."""

    started_with: int | None = field(default_factory=resident_bytes)
    encoded: int = 0
    looked_at: int = 0

    def spend(self, size: int) -> bool:
        """Count `size` more bytes of text; True when the encoder should go."""
        self.encoded += size
        if self.encoded - self.looked_at < LOOK_EVERY:
            return False
        self.looked_at = self.encoded
        now = resident_bytes()
        if now is None or self.started_with is None:
            return self.encoded >= BLIND_BYTES
        return now - self.started_with > GROWTH
