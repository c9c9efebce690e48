"""The circumstances of a run: its machines, the network between them and the store, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

from gristmill.core.cached import cached_property
from gristmill.core.options import check_fields
from gristmill.core.sizes import parse_seconds, parse_size, parse_speed
from gristmill.core.values import Amount, Positive, Rate


@dataclass(frozen=True)
class SimulateOptions:
    """What a simulation is told beside its plan; the nodes are taken to be alike, and the first is simulated.

    bandwidth, latency, requests_per_second: what one node has of the network (`50MB/s`, `10Gbit/s`; `80ms` from a
    request to its first byte), and of a bucket that limits it. step_time: how long the model computes on a batch.
    ranks: processes a node that load, of `nodes` nodes. cache: what the node may keep on disk, nothing by default.
    steps: how many of the plan's steps are simulated. labels: whether batches have labels, which read one token more.
    per_gb and per_1000_requests: prices in any currency.
    """

    bandwidth: str | float = "100MB/s"
    latency: str | float = "50ms"
    requests_per_second: Rate | None = None
    step_time: str | float = "100ms"
    ranks: Positive = 1
    nodes: Positive = 1
    cache: str | int = 0
    steps: Positive | None = None
    labels: bool = True
    per_gb: Amount | None = None
    per_1000_requests: Amount | None = None

    def __post_init__(self) -> None:
        check_fields(self, "simulate")
        _ = self.bytes_per_second, self.latency_seconds, self.step_seconds, self.cache_bytes

    @cached_property
    def bytes_per_second(self) -> float:
        """What a node receives."""
        return parse_speed(self.bandwidth, "bandwidth")

    @cached_property
    def latency_seconds(self) -> float:
        """From a request to its first byte."""
        return parse_seconds(self.latency, "latency")

    @cached_property
    def step_seconds(self) -> float:
        """What the model takes for a batch."""
        return parse_seconds(self.step_time, "step_time")

    @cached_property
    def cache_bytes(self) -> int:
        """What the node's cache may hold."""
        return parse_size(self.cache, "cache")

    @property
    def priced(self) -> bool:
        """Whether anything has a price."""
        return self.per_gb is not None or self.per_1000_requests is not None

    def cost(self, size: float, requests: float) -> float:
        """What bytes and requests cost."""
        return size / 1e9 * (self.per_gb or 0) + requests / 1000 * (self.per_1000_requests or 0)
