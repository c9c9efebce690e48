"""A user's function: its answers, its mistakes, and its source as part of the recipe."""

from __future__ import annotations

import pickle
import textwrap

import pytest

from gristmill.core.errors import ConfigError
from gristmill.curate.rules import content
from gristmill.curate.rules.function import UserFunction


@pytest.fixture
def rule(tmp_path):
    def make(source, **options):
        path = tmp_path / "my_rules.py"
        path.write_text(textwrap.dedent(source))
        return UserFunction(path=str(path), **options)

    return make


def test_true_false_or_a_reason(documents, rule):
    judge = rule("""
        def keep(document):
            if document["text"] == "odd":
                return "looks_odd"
            return document["lang"] == "en"
    """).judge
    verdict = judge(documents(["a", "b", "odd"], lang=["en", "de", "en"]))
    assert [None if code < 0 else verdict.reasons[code] for code in verdict.codes] == [None, "function", "looks_odd"]


def test_a_batch_at_once(documents, rule):
    made = rule(
        """
        import pyarrow.compute as pc

        def long_enough(batch):
            return pc.greater(pc.utf8_length(batch["text"]), 3)
        """,
        function="long_enough",
        batch=True,
    )
    assert made.judge(documents(["abc", "abcd"])).kept.tolist() == [False, True]
    assert len(made.judge(documents([])).codes) == 0


def test_changed_source_changes_the_content_and_the_answers(documents, rule):
    first = rule("def keep(document): return True")
    before = content(first)
    assert first.judge(documents(["a"])).kept.all()
    second = rule("def keep(document): return False")
    assert content(second) != before
    assert not second.judge(documents(["a"])).kept.any()


def test_an_error_names_the_document_and_the_line(documents, rule):
    made = rule("""
        def keep(document):
            return measure(document["text"])

        def measure(text):
            return 1 / len(text) > 0
    """)
    with pytest.raises(ConfigError, match=r"document '1' at line 6 of .*my_rules\.py: ZeroDivisionError"):
        made.judge(documents(["a", ""]))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def other(document): return True", "defines no function 'keep'"),
        ("import nothing_of_this_name", "cannot be run: ModuleNotFoundError"),
        ("def keep(document): return None", "returned None for document '0'"),
        ("def keep(document): return 1", "returned 1 for document '0'"),
    ],
)
def test_mistakes_are_explained(documents, rule, source, message):
    with pytest.raises(ConfigError, match=message):
        rule(source).judge(documents(["a"]))


def test_a_batch_answer_must_be_a_boolean_for_each(documents, rule):
    with pytest.raises(ConfigError, match="one boolean for each"):
        rule("def keep(batch): return [1, 0]", batch=True).judge(documents(["a", "b"]))


def test_a_missing_file_is_named():
    with pytest.raises(ConfigError, match=r"absent\.py"):
        content(UserFunction(path="absent.py"))
    with pytest.raises(ConfigError, match="path without a NUL character"):
        UserFunction(path="\0")


def test_it_travels_to_workers_that_have_no_such_file(documents, rule, tmp_path):
    pickled = pickle.dumps(rule("def keep(document): return document['text'] != 'b'"))
    (tmp_path / "my_rules.py").unlink()
    made = pickle.loads(pickled)
    assert made.judge(documents(["a", "b"])).kept.tolist() == [True, False]
