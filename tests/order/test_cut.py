"""What a sample is under each cut, from the figures of a store alone."""

from collections import Counter

import numpy as np
import pytest

import gristmill as gm
from gristmill.order.cut import CUTS, window_spans
from gristmill.testing import random_documents, tiny_store

T = 16


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = tiny_store(tmp_path_factory.mktemp("cut"), random_documents(80, seed=3), shards=3)
    gm.index(made, seq_len=T)
    return made


def cut_and_samples(store, name):
    """The cut of a name, and how many samples an epoch has under it."""
    cut = CUTS[name](store)
    units, parts = cut.units(store.num_shards, T, T)
    return cut, units * parts


def times_seen(store, name):
    """How often an epoch shows each (document, token)."""
    cut, samples = cut_and_samples(store, name)
    pieces = [piece for sample in range(samples) for piece in cut.spans(sample, T)]
    return Counter((document, token) for document, start, end in pieces for token in range(start, end))


def test_each_name_has_a_class_of_its_own():
    assert {name: cut.name for name, cut in CUTS.items()} == {name: name for name in ("chunk", "pack", "pad", "window")}
    assert len(set(CUTS.values())) == 4


@pytest.mark.parametrize("name", ["chunk", "pack", "pad"])
def test_an_epoch_serves_the_tokens_that_it_says_each_once(store, name):
    cut, samples = cut_and_samples(store, name)
    seen = times_seen(store, name)
    assert set(seen.values()) == {1}
    assert len(seen) == cut.tokens(samples, store.num_shards, T)
    assert store.num_tokens - len(seen) == cut.unserved_tokens(samples, store.num_shards, T)


def test_windows_begin_at_every_token_and_leave_none_out(store):
    cut, samples = cut_and_samples(store, "window")
    assert samples == store.num_tokens - T + 1
    assert len(times_seen(store, "window")) == store.num_tokens
    assert cut.unserved_tokens(samples, store.num_shards, T) == 0


@pytest.mark.parametrize("name", list(CUTS))
def test_the_samples_of_a_document_are_those_that_show_it(store, name):
    cut, samples = cut_and_samples(store, name)
    shown = [{document for document, _, _ in cut.spans(sample, T)} for sample in range(samples)]
    for document in range(0, store.num_documents, 7):
        expected = [sample for sample in range(samples) if document in shown[sample]]
        assert sorted(cut.samples_of(np.array([document]), samples, T)[1].tolist()) == expected


@pytest.mark.parametrize("name", ["pad", "pack"])
def test_a_sample_holds_as_many_documents_as_there_are_for_each(store, name):
    cut, samples = cut_and_samples(store, name)
    assert cut.documents(samples, store.num_shards, T) * samples == store.num_documents


def test_only_pack_reads_an_index_which_is_part_of_its_content(store):
    contents = {name: CUTS[name](store).content(store.num_shards, T) for name in CUTS}
    assert contents["pack"] != store.fingerprint
    assert {contents[name] for name in ("chunk", "pad", "window")} == {store.fingerprint}


def test_the_last_window_of_a_document_is_what_the_full_ones_leave():
    start, length = window_spans(np.array([5, 40, 40, 32]), np.array([-1, 0, -1, 1]), 16)
    assert (start.tolist(), length.tolist()) == ([0, 0, 32, 16], [5, 16, 8, 16])
