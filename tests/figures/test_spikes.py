"""Which losses stand out."""

from __future__ import annotations

import numpy as np

from gristmill.figures.spikes import LEAST, SHORT, THRESHOLD, WINDOW, _high_rows, standing_out


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
