"""A loader's figures where a team already looks: TensorBoard, Weights & Biases and Prometheus, a line each.

    metrics.tensorboard(loader, SummaryWriter("runs/1"))
    metrics.wandb(loader, wandb.init(project="mine"))
    metrics.prometheus(loader)               # with prometheus_client.start_http_server(9000)

The figures are those of `loader.stats()`: numbers under the names that they have there. Nothing is asked of the loop
but a look at every `every`-th step; Prometheus asks by itself, and costs the loop nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from gristmill.core.arguments import as_whole, refuse
from gristmill.core.extras import extra
from gristmill.loader.observed import Observer

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import CollectorRegistry

_PREFIX = "gristmill"
# Of these only the present value tells something; the others count, and only rise.
_GAUGES = ("tokens_per_second", "waited_share", "readahead", "step")


class Watched(Protocol):
    """Any loader: of a plan or a stream, of arrays or tensors."""

    @property
    def step(self) -> int: ...
    def observe(self, observer: Observer) -> None: ...
    def stats(self) -> Any: ...


class _Every:
    """Calls `report` with the step and the figures after every `every`-th batch."""

    def __init__(self, loader: Watched, every: int, report: Any) -> None:
        self._loader, self._every, self._report, self._batches = loader, as_whole("every", every), report, 0
        as_loader(loader).observe(self)

    def served(self, step: int, tokens: int, waited: float) -> None:
        self._batches += 1
        if self._batches % self._every == 0:
            self._report(step, numbers(self._loader.stats()))


def as_loader(loader: Watched) -> Watched:
    """A loader, or something that hands its surface through."""
    if not hasattr(loader, "observe") or not hasattr(loader, "stats"):
        raise refuse("loader", "a loader of a plan or of a stream", loader)
    return loader


def numbers(stats: Mapping[str, object], within: str = "") -> dict[str, float]:
    """The numbers of `loader.stats()`, what is nested in it by `outer_inner`."""
    found: dict[str, float] = {}
    for name, value in stats.items():
        if isinstance(value, Mapping):
            found |= numbers(value, f"{within}{name}_")
        elif isinstance(value, int | float) and math.isfinite(value):
            found[f"{within}{name}"] = float(value)
    return found


def tensorboard(loader: Watched, writer: Any, every: int = 10) -> None:
    """Write `gristmill/...` scalars at every `every`-th step; `writer` is a SummaryWriter of torch or tensorboardX."""
    if not hasattr(writer, "add_scalar"):
        raise refuse("writer", "a SummaryWriter", writer)

    def report(step: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            writer.add_scalar(f"{_PREFIX}/{name}", value, step)

    _Every(loader, every, report)


def wandb(loader: Watched, run: Any, every: int = 10) -> None:
    """Put `gristmill/...` to what the run logs next, at every `every`-th step; `run` is what `wandb.init` gave."""
    if not hasattr(run, "log"):
        raise refuse("run", "a run of wandb.init()", run)

    def report(step: int, figures: Mapping[str, float]) -> None:
        # With what the trainer logs for this step: a row of our own would move its steps.
        run.log({f"{_PREFIX}/{name}": value for name, value in figures.items()}, commit=False)

    _Every(loader, every, report)


def prometheus(loader: Watched, registry: CollectorRegistry | None = None) -> None:
    """Let Prometheus read `gristmill_...{rank="0"}` whenever it asks; in the default registry unless one is given."""
    with extra("metrics", __name__):
        from prometheus_client import REGISTRY

    (registry or REGISTRY).register(_Collector(as_loader(loader)))


class _Collector:
    """The figures of a loader as they are when they are asked for."""

    def __init__(self, loader: Watched) -> None:
        self._loader = loader

    def describe(self) -> list[Metric]:
        """Nothing: the registry then asks for no figures before they are wanted."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One metric a figure."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        rank = str(getattr(self._loader, "rank", 0))
        figures = {"step": float(self._loader.step), **numbers(self._loader.stats())}
        for name, value in figures.items():
            kind = GaugeMetricFamily if name in _GAUGES else CounterMetricFamily
            metric = kind(f"{_PREFIX}_{name}", f"{name} of loader.stats()", labels=["rank"])
            metric.add_metric([rank], value)
            yield metric
