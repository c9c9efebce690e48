"""What this process has asked of other machines: counted where it happens, read by whoever reports it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gristmill.core.locks import Lock


@dataclass
class Traffic:
    """Running totals: requests, the bytes that they brought, and how many of them were made again."""

    requests: int = 0
    fetched_bytes: int = 0
    retries: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def add(self, **counts: int) -> None:
        """Count on."""
        totals = vars(self)
        with self._lock:
            for name, count in counts.items():
                totals[name] += count

    def again(self) -> None:
        """Count a request that is made once more."""
        self.add(retries=1)

    def since(self, before: dict[str, int]) -> dict[str, int]:
        """What was added since `figures` was taken."""
        return {name: count - before.get(name, 0) for name, count in self.figures().items()}

    def figures(self) -> dict[str, int]:
        """The totals as they are now."""
        return {name: getattr(self, name) for name in _COUNTED}


_COUNTED = ("requests", "fetched_bytes", "retries", "cache_hits", "cache_misses")
traffic = Traffic()
