"""The mix is exact at every block's end, and gives each source's samples in order without gaps."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.order.mix import Mix, block_size, exact_weights, weight_text


@st.composite
def mixes(draw):
    shares = draw(st.lists(st.integers(0, 50), min_size=1, max_size=5).filter(lambda s: sum(s) > 0))
    weights = tuple(Fraction(share, sum(shares)) for share in shares)
    block = block_size(weights, None) if draw(st.booleans()) else max(60, block_size(weights, None) // 16)
    smallest = min(weight for weight in weights if weight)
    return Mix(weights, max(block, int(1 / smallest) + 1), draw(st.integers(0, 2**64 - 1)))


@given(mix=mixes(), blocks=st.integers(0, 10**9))
def test_every_block_ends_within_one_sample_of_its_weights(mix, blocks):
    given_so_far = mix.before_block(blocks)
    assert given_so_far.sum() == blocks * mix.block
    for count, weight in zip(given_so_far.tolist(), mix.weights, strict=True):
        assert abs(count - weight * blocks * mix.block) < 1


@given(mix=mixes(), start=st.integers(0, 10**6), count=st.integers(1, 300))
def test_what_a_source_gives_is_a_prefix_of_its_own_order(mix, start, count):
    source, ordinal = mix.labels(np.arange(start, start + count))
    before, after = mix.given(start), mix.given(start + count)
    for k in range(len(mix.weights)):
        assert ordinal[source == k].tolist() == list(range(int(before[k]), int(after[k])))


@given(mix=mixes(), slot=st.integers(0, 10**7))
def test_slot_of_inverts_labels(mix, slot):
    source, ordinal = mix.labels(np.array([slot]))
    assert mix.slots_of(int(source[0]), ordinal).tolist() == [slot]


@given(mix=mixes())
def test_a_source_of_weight_zero_gives_nothing(mix):
    source, _ = mix.labels(np.arange(3 * mix.block))
    assert set(np.unique(source)) == {k for k, weight in enumerate(mix.weights) if weight}


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=6))
def test_weights_survive_their_text(parts):
    total = sum(parts)
    weights = {f"s{i}": Fraction(part, total) for i, part in enumerate(parts)}
    texts = {name: weight_text(weight) for name, weight in weights.items()}
    assert exact_weights(texts, tuple(texts), "test") == tuple(weights.values())


@pytest.mark.parametrize(
    "weights", [("0.7", "0.3"), ("1/3", "1/3", "1/3"), ("0.999", "0.001"), ("1/4096", "4095/4096")]
)
def test_many_slots_are_found_at_once(weights: tuple[str, ...]) -> None:
    exact = tuple(map(Fraction, weights))
    mix = Mix(exact, block_size(exact, None), key=5)
    slots = np.concatenate([np.arange(0, 40_000, 7), np.arange(10**12, 10**12 + 9_000, 5)])
    source, ordinal = mix.labels(slots)
    for k in range(len(exact)):
        here = source == k
        shuffled = np.random.default_rng(0).permutation(np.flatnonzero(here))
        assert mix.slots_of(k, ordinal[shuffled]).tolist() == slots[shuffled].tolist()
