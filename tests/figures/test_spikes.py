"""Which losses stand out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from gristmill.figures.served import as_run
from gristmill.figures.spikes import LEAST, SHORT, THRESHOLD, WINDOW, _high_rows, find_spikes, standing_out
from gristmill.loader.record import Record


def falling(steps: int, noise: float = 0.05) -> np.ndarray:
    random = np.random.default_rng(0)
    return 3 + 5 * np.exp(-np.arange(steps) / 50) + noise * random.standard_normal(steps)


def high(losses: np.ndarray) -> list[int]:
    return np.flatnonzero(standing_out(losses)[1] > THRESHOLD).tolist()


def test_a_loss_that_falls_with_noise_has_no_spike() -> None:
    assert high(falling(3000)) == []


def test_spikes_are_found_one_after_the_other_and_early_too() -> None:
    losses = falling(3000)
    for step in (LEAST + 5, 700, 701, 2999):
        losses[step] += 3
    assert high(losses) == [LEAST + 5, 700, 701, 2999]


def test_what_is_usual_is_told_by_the_steps_before_alone() -> None:
    losses = falling(WINDOW + SHORT + 40)
    distance = {i: losses[i] - np.median(losses[i - SHORT : i]) for i in range(SHORT, len(losses))}
    usual, _ = standing_out(losses)
    for i in (LEAST, WINDOW + SHORT - 1, WINDOW + SHORT, len(losses) - 1):
        moved = np.median([distance[k] for k in range(max(i - WINDOW, SHORT), i)])
        assert usual[i] == np.median(losses[i - SHORT : i]) + moved


def test_what_is_no_number_stands_out_most_and_does_not_hide_others() -> None:
    losses = falling(300)
    losses[200], losses[210] = np.nan, losses[210] + 2
    deviations = standing_out(losses)[1]
    assert high(losses) == [200, 210] and np.isinf(deviations[200])
    assert high(np.full(40, np.nan)) == list(range(40))


def test_a_flat_loss_is_not_all_spikes() -> None:
    assert high(np.full(300, 2.0) + 1e-4 * (np.arange(300) % 2)) == []
    assert high(np.zeros(300)) == []


def test_the_rows_that_stand_out_from_their_batch() -> None:
    assert _high_rows(np.array([3.0, 3.1, 9.0, 2.9])).tolist() == [2]
    assert _high_rows(np.array([3.0, 3.1, 3.2, 2.9])).tolist() == [2]
    assert _high_rows(np.array([3.0, np.nan, 3.1, 9.0, 2.9, 8.0, 3.0, 3.05])).tolist() == [3, 5]
    assert _high_rows(np.array([np.nan])).tolist() == []


def row_losses(steps: int, rows: int = 256) -> np.ndarray:
    random = np.random.default_rng(1)
    return falling(steps)[:, None] + 0.3 * random.standard_normal((steps, rows))


def recorded(folder: Path, losses: np.ndarray) -> Path:
    """The record of a run that told these losses, a step each; a stream's, without a plan."""
    record = Record(folder / "served.parquet")
    for step, loss in enumerate(losses):
        record.served(step, 1, 0.0)
        record.loss(loss)
    record.close()
    return folder


def test_one_bad_row_of_a_large_batch_is_found_though_the_mean_hides_it(tmp_path: Path) -> None:
    losses = row_losses(600)
    losses[400, 17] += 8
    losses[500] += 1
    assert high(losses.mean(axis=1)) == [500]
    found = find_spikes(as_run(recorded(tmp_path, losses)))
    spikes = {spike.step: (spike.of, spike.rows, round(spike.loss, 3)) for spike in found.spikes}
    assert spikes[400] == ("row", [17], round(losses[400, 17], 3))
    assert spikes[500][0] == "step" and spikes[500][2] == round(losses[500].mean(), 3)
    assert set(spikes) == {400, 500}


def test_losses_of_rows_that_scatter_are_no_spikes(tmp_path: Path) -> None:
    losses = row_losses(3000, 32) + np.random.default_rng(2).exponential(0.3, (3000, 32))
    assert not find_spikes(as_run(recorded(tmp_path, losses))).spikes


def test_a_record_of_an_older_version_is_judged_by_its_means(tmp_path: Path) -> None:
    losses = row_losses(300)
    losses[100, 17] += 8
    losses[200] += 1
    (file,) = recorded(tmp_path, losses).glob("served.parquet/*.parquet")
    pq.write_table(pq.read_table(file).drop_columns(["highest_loss"]), file)
    assert [spike.step for spike in find_spikes(as_run(tmp_path)).spikes] == [200]
    goes_on = Record(tmp_path / "served.parquet")
    goes_on.served(300, 1, 0.0)
    goes_on.loss(losses[0])
    goes_on.close()
    np.testing.assert_array_equal(as_run(tmp_path).served().highest_loss[299:], [np.nan, losses[0].max()])
