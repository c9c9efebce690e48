"""A loader's figures in TensorBoard, Weights & Biases and Prometheus, by their own libraries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import gristmill as gm
from gristmill.adapters import metrics


@pytest.fixture
def loader(tmp_path: Path, make_store: Callable[..., Path]) -> gm.Loader:
    store = make_store(tmp_path / "store", [[1, 2, 3, 4, 5, 6, 7]] * 40) / "train"
    return gm.Loader(gm.Plan(store, seq_len=8, batch_size=2, steps=10), threads=0)


def test_tensorboard_has_the_figures_of_every_few_steps(loader: gm.Loader, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "events")) as writer:
        metrics.tensorboard(loader, writer, every=4)
        list(loader)
    events = EventAccumulator(str(tmp_path / "events")).Reload()
    tokens = events.Scalars("gristmill/tokens")
    assert [(event.step, event.value) for event in tokens] == [(3, 64.0), (7, 128.0)]
    assert "gristmill/waited_share" in events.Tags()["scalars"]


def test_wandb_has_them_with_what_the_trainer_logs(
    loader: gm.Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb

    monkeypatch.setenv("WANDB_SILENT", "true")
    run = wandb.init(mode="disabled", dir=str(tmp_path))
    logged: list[tuple[dict[str, float], bool]] = []
    monkeypatch.setattr(type(run), "log", lambda self, data, commit=True: logged.append((data, commit)))
    metrics.wandb(loader, run, every=5)
    list(loader)
    assert [(figures["gristmill/tokens"], commit) for figures, commit in logged] == [(80.0, False), (160.0, False)]


def test_prometheus_reads_them_when_it_asks(loader: gm.Loader) -> None:
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    metrics.prometheus(loader, registry)
    assert 'gristmill_tokens_total{rank="0"} 0.0' in generate_latest(registry).decode()
    list(loader)
    told = generate_latest(registry).decode()
    assert 'gristmill_tokens_total{rank="0"} 160.0' in told and 'gristmill_step{rank="0"} 10.0' in told
    assert "# TYPE gristmill_waited_share gauge" in told


def test_figures_of_streams_are_numbers_too() -> None:
    stats = {"tokens": 3, "dropped": {"length": 2, "why": "short"}, "share": float("nan")}
    assert metrics.numbers(stats) == {"tokens": 3.0, "dropped_length": 2.0}


def test_what_is_no_loader_and_no_writer_is_refused(loader: gm.Loader) -> None:
    writer = SimpleNamespace(add_scalar=print, log=print)
    with pytest.raises(gm.ConfigError, match="writer"):
        metrics.tensorboard(loader, 3)
    with pytest.raises(gm.ConfigError, match="run"):
        metrics.wandb(loader, 3)
    with pytest.raises(gm.ConfigError, match="loader"):
        metrics.prometheus(3)  # type: ignore[arg-type]
    with pytest.raises(gm.ConfigError, match="loader"):
        metrics.wandb(3, writer)  # type: ignore[arg-type]
    with pytest.raises(gm.ConfigError, match="every"):
        metrics.tensorboard(loader, writer, every=0)
