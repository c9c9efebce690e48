"""Options of a plan: easy spellings made plain, lossless as JSON, refused where they cannot be."""

import json

import pytest

from gristmill.core.errors import ConfigError
from gristmill.order.options import Exclude, Phase, PlanOptions, Skip, check_positive


def test_a_document_by_its_id_and_steps_by_a_pair_are_entries():
    options = PlanOptions(exclude=["a", {"doc": "b", "mode": "loss"}], skip=[(3, 5), {"from_step": 8, "to_step": 9}])
    assert options.exclude == (Exclude("a"), Exclude("b", mode="loss"))
    assert options.skip == (Skip(3, 5), Skip(8, 9))


def test_options_survive_json_and_defaults_are_left_out():
    phases = [Phase(9, weights={"a": "0.25", "b": 0.75}), Phase(4, seq_len=8, restart=True)]
    options = PlanOptions(cut="pad", phases=phases, exclude=["a"], skip=[(1, 2)], max_epochs={"a": 2})
    values = json.loads(json.dumps(options.to_dict()))
    assert PlanOptions.from_dict(values).to_dict() == options.to_dict()
    assert [phase.from_step for phase in options.phases] == [4, 9]
    assert PlanOptions().to_dict() == {} and values["exclude"] == [{"doc": "a"}]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cut": "packs"}, "did you mean 'pack'"),
        ({"weights_in": "token"}, "did you mean 'tokens'"),
        ({"phases": [Phase(3), Phase(3)]}, "Two phases begin at the same step"),
        ({"phases": [Skip(1, 2)]}, "phases holds .*, which is no Phase"),
        ({"exclude": "a"}, "exclude is a list, not 'a'"),
        ({"skip": [(5, 5)]}, "is empty"),
        ({"exclude": [{"doc": "a", "mode": "drop"}]}, "Unknown mode 'drop'"),
        ({"unit": 0}, "unit must be a whole number above 0"),
    ],
)
def test_what_cannot_be_is_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        PlanOptions(**values)


def test_a_phase_does_not_begin_with_the_plan():
    with pytest.raises(ConfigError, match="begins at step 1 or later"):
        Phase(0)


def test_sizes_have_bounds_by_their_names():
    check_positive(seq_len=2**31 - 1, anything=2**60)
    with pytest.raises(ConfigError, match="seq_len cannot be above 2,147,483,647"):
        check_positive(seq_len=2**31)
