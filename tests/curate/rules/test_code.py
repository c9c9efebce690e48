"""Code: Python's own sources are code, its manual is prose, and each rule of quality has its reason."""

from __future__ import annotations

import inspect
import json
import pydoc_data.topics

import pytest

from gristmill.core.errors import ConfigError
from gristmill.curate.rules.code import CodeQuality, CodeRatio

SOURCE = inspect.getsource(json.decoder)
PROSE = [text for text in pydoc_data.topics.topics.values() if len(text) > 1000]

RUST = """
pub fn longest(words: &[String]) -> Option<&String> {
    let mut best = None;
    for word in words.iter() {
        if best.map_or(true, |b: &String| word.len() > b.len()) {
            best = Some(word);
        }
    }
    best
}
"""
VERSE = """
The curfew tolls the knell of parting day;
The lowing herd winds slowly o'er the lea;
The ploughman homeward plods his weary way,
And leaves the world to darkness and to me.
"""


@pytest.mark.parametrize(
    "text", [RUST, inspect.getsource(inspect), "#include <stdio.h>\nint main(void) { return 0; }\n"]
)
def test_programs_are_code(documents, text):
    assert not CodeRatio(max=0.5).judge(documents([text])).kept.any()


def test_prose_is_not(documents):
    verdict = CodeRatio(max=0.5).judge(documents([*PROSE, VERSE, "A single long paragraph, " * 60]))
    assert verdict.kept.mean() > 0.98


def test_the_share_is_of_lines_that_are_not_blank(documents):
    verdict = CodeRatio().judge(documents(["x = f(1)\n\n\nJust a sentence in plain English here.\n", ""]))
    assert verdict.values.tolist() == [0.5, 0.0]


def test_a_minimum_keeps_code_only(documents):
    assert CodeRatio(max=1.0, min=0.3).judge(documents([SOURCE, VERSE])).codes.tolist() == [-1, 1]


def test_impossible_shares_are_refused():
    with pytest.raises(ConfigError, match="nothing would stay"):
        CodeRatio(max=0.2, min=0.3)


def reason(rule, documents, text, **columns):
    verdict = rule.judge(documents([text], **columns))
    return None if verdict.kept[0] else verdict.reasons[verdict.codes[0]]


def test_real_sources_pass_the_defaults(documents):
    assert reason(CodeQuality(), documents, SOURCE) is None


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ({}, "x = '" + "y" * 1000 + "'\n" + "y = 1\n" * 50, "long_line"),
        ({}, "word " * 30 + "\n", "long_lines_on_average"),
        ({}, "+-*/ " * 10, "few_alphanumeric"),
        ({}, "1 2 3 4\n" * 10, "few_letters_per_token"),
        ({"min_comments": 0.01}, "value = other\n" * 9, "few_comments"),
        ({"max_comments": 0.85}, "# only words\n// and more\n/* of\nthem */\n", "many_comments"),
        ({"min_lines": 10}, "value = other\n" * 9, "few_lines"),
        ({"max_lines": 8}, "value = other\n" * 9, "many_lines"),
    ],
)
def test_each_rule_has_its_reason(documents, options, text, expected):
    assert reason(CodeQuality(**options), documents, text) == expected


def test_docstrings_are_comments(documents):
    text = 'def f():\n    """One.\n\n    Two three four.\n    """\n    return value\n'
    values = CodeQuality(max_comments=0.0).judge(documents([text])).values
    assert values[0] == pytest.approx(sum(map(len, text.split("\n")[1:5])) / len(text))


def test_extensions_are_looked_up_in_the_path(documents):
    verdict = CodeQuality(extensions=[".PY", "rs"]).judge(documents([SOURCE] * 3, path=["a/b.py", "b.txt", "c.RS"]))
    assert verdict.codes.tolist() == [-1, 0, -1]
