"""A wrong resume fails loudly and names what differs."""

import pytest

import gristmill as gm
from gristmill.testing import assert_resumes_anywhere, random_documents, tiny_store


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("state")
    return {name: tiny_store(folder / name, random_documents(80, seed=i)) for i, name in enumerate(("web", "code"))}


def plan_of(stores, **changes):
    options = changes.pop("options", {})
    arguments = {
        "weights": {"web": 0.7, "code": 0.3},
        "seq_len": 16,
        "batch_size": 4,
        "seed": 0,
        "steps": 50,
        **changes,
    }
    return gm.Plan(stores, options=gm.PlanOptions(**options), **arguments)


def state_at(plan, step):
    loader = gm.Loader(plan, threads=0)
    loader.seek(step)
    return loader.state_dict()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 1}, r"seed \(was 0, is 1\)"),
        ({"seq_len": 8}, "seq_len"),
        ({"batch_size": 8}, "batch_size"),
        ({"weights": {"web": 0.5, "code": 0.5}}, "weights"),
        ({"options": {"cut": "pad"}}, r"cut \(was chunk, is pad\)"),
        ({"options": {"shuffle": False}}, r"shuffle \(was True, is False\)"),
        ({"options": {"unit": 32}}, "Say unit= with the value"),
        ({"options": {"skip": [(3, 6)]}}, "Let them begin at from_step=10"),
        ({"options": {"exclude": ["part-0:3"]}}, "rewrite_history=True"),
    ],
)
def test_a_checkpoint_of_another_plan_names_what_differs(stores, changes, named):
    with pytest.raises(gm.StateError, match=named):
        gm.Loader(plan_of(stores, **changes)).load_state_dict(state_at(plan_of(stores), 10))


@pytest.mark.parametrize(
    ("phases", "options", "message"),
    [
        ([{"from_step": 7, "batch_size": 8}], {}, "the phase at step 7 is new, and would change what was served"),
        ([{"from_step": 7, "seq_len": 8}, {"from_step": 9}], {}, r"the phase at step 7 is new \(and 1 after it\), and"),
        ([{"from_step": 7}], {"shuffle": False}, r"or later\. shuffle \(was True, is False\) differs before step 10\."),
        ([{"from_step": 7}], {"skip": [(3, 8)]}, r"or later\. skip differs before step 10\. Let them begin"),
    ],
)
def test_a_new_phase_before_the_checkpoint_is_named_alone(stores, phases, options, message):
    first = {"from_step": 5, "weights": {"web": 0.5, "code": 0.5}}
    state = state_at(plan_of(stores, options={"phases": [first]}), 10)
    changed = plan_of(stores, options={"phases": [first, *phases], **options})
    with pytest.raises(gm.StateError, match=message) as raised:
        gm.Loader(changed).load_state_dict(state)
    assert "Let it begin at from_step=10 or later." in str(raised.value)
    assert "weights" not in str(raised.value) and "cursors" not in str(raised.value)


def test_a_phase_that_has_gone_is_asked_for(stores):
    state = state_at(plan_of(stores, options={"phases": [{"from_step": 5, "batch_size": 8}]}), 10)
    with pytest.raises(gm.StateError, match=r"phase starts.*Keep the phases that the run has gone through"):
        gm.Loader(plan_of(stores)).load_state_dict(state)


def test_other_data_under_the_same_name_is_noticed(stores, tmp_path):
    other = {**stores, "web": tiny_store(tmp_path / "web", random_documents(80, seed=9))}
    with pytest.raises(gm.StateError, match="sources"):
        gm.Loader(plan_of(other)).load_state_dict(state_at(plan_of(stores), 10))


def test_the_same_data_at_another_path_is_accepted(stores, tmp_path):
    moved = {name: tiny_store(tmp_path / name, random_documents(80, seed=i)) for i, name in enumerate(("web", "code"))}
    loader = gm.Loader(plan_of(moved))
    loader.load_state_dict(state_at(plan_of(stores), 10))
    assert loader.step == 10


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 100},
        {"options": {"phases": [{"from_step": 10, "weights": {"code": 1}}]}},
        {"options": {"phases": [{"from_step": 10, "batch_size": 8}]}},
        {"options": {"skip": [(10, 12)]}},
        {"options": {"skip": [gm.Skip(3, 6, rewrite_history=True)]}},
        {"options": {"exclude": [gm.Exclude("part-0:3", from_step=10)]}},
        {"options": {"exclude": [gm.Exclude("part-0:3", rewrite_history=True)]}},
        {"options": {"max_epochs": 100}},
    ],
)
def test_what_only_changes_the_future_is_accepted(stores, changes):
    loader = gm.Loader(plan_of(stores, **changes))
    loader.load_state_dict(state_at(plan_of(stores), 10))
    assert loader.step == 10


def test_a_source_may_be_added_from_the_checkpoint_on(stores, tmp_path):
    more = {**stores, "math": tiny_store(tmp_path, random_documents(50, seed=5))}
    phase = {"from_step": 10, "weights": {"web": 0.5, "code": 0.2, "math": 0.3}}
    assert_resumes_anywhere(plan_of(stores), resumed=plan_of(more, options={"phases": [phase]}), at=[10])


def test_a_digest_that_does_not_fit_is_an_error_of_its_own(stores):
    state = state_at(plan_of(stores), 10)
    with pytest.raises(gm.StateError, match="another order"):
        gm.Loader(plan_of(stores)).load_state_dict({**state, "digest": "0" * 16})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 99}, "version 99"),
        ({"step": 51}, "raise steps="),
        ({"step": -1}, "step -1"),
        ({"step": "10"}, "step cannot be '10'"),
        ({"step": 10**30}, "step cannot be 1000"),
        ({"step": True}, "step cannot be True"),
        ({"parts": None}, "parts cannot be None: it is a mapping"),
        ({"parts": [1]}, "parts cannot be"),
        ({"plan": 7}, "plan cannot be 7: it is text"),
        ({"digest": {}}, "digest cannot be"),
    ],
)
def test_a_damaged_state_is_refused(stores, changes, message):
    with pytest.raises(gm.StateError, match=message):
        gm.Loader(plan_of(stores)).load_state_dict(state_at(plan_of(stores), 10) | changes)


@pytest.mark.parametrize("state", [{"step": 7}, {}, [], None, "step 7"])
def test_what_is_no_state_is_refused(stores, state):
    with pytest.raises(gm.StateError, match="no state of a Gristmill loader"):
        gm.Loader(plan_of(stores)).load_state_dict(state)


def test_a_checkpoint_before_the_first_step_fits_any_plan(stores):
    gm.Loader(plan_of(stores, seed=9)).load_state_dict(state_at(plan_of(stores), 0))


def test_the_state_stays_under_a_kilobyte_with_many_sources_and_phases(stores):
    many = {f"source-with-a-rather-long-name-{i}": stores["web"] for i in range(60)}
    phases = [{"from_step": 1 + i, "batch_size": 4 + i} for i in range(40)]
    plan = gm.Plan(many, seq_len=16, batch_size=4, steps=50, options=gm.PlanOptions(phases=phases))
    assert len(str(state_at(plan, 49))) < 1024
