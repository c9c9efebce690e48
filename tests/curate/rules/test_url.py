"""URL lists: domains with what is below them, whole addresses, words and substrings."""

from __future__ import annotations

import pytest

from gristmill.core.errors import ConfigError
from gristmill.curate.rules import content
from gristmill.curate.rules.url import UrlList

RULE = UrlList(
    domains=["bad.com", "evil.co.uk"],
    urls=["https://www.fine.org/but/this/"],
    words=["Casino"],
    soft_words=["free", "girls"],
    substrings=["xxx-porn"],
)


def reason(documents, url, rule=RULE):
    verdict = rule.judge(documents(["text"], url=[url]))
    return None if verdict.kept[0] else (verdict.reasons[verdict.codes[0]], verdict.details[0])


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://bad.com/a", ("url_domain", "bad.com")),
        ("https://sub.BAD.com:8080", ("url_domain", "bad.com")),
        ("news.evil.co.uk/x", ("url_domain", "evil.co.uk")),
        ("http://notbad.com/", None),
        ("http://bad.com.example.org/", None),
        ("http://fine.org/but/this#here", ("url_listed", "fine.org/but/this")),
        ("http://fine.org/but/this/too", None),
        ("http://a.org/best-CASINO/1", ("url_word", "casino")),
        ("http://a.org/casinos", None),
        ("http://a.org/free/girls", ("url_soft_words", "free girls")),
        ("http://a.org/free/free", None),
        ("http://a.org/XXX_pornography", ("url_substring", "xxxporn")),
        ("http://[broken", None),
        ("", None),
        (None, None),
    ],
)
def test_addresses(documents, url, expected):
    assert reason(documents, url) == expected


def test_lists_may_be_files_and_are_part_of_the_content(documents, tmp_path):
    file = tmp_path / "domains.txt"
    file.write_text("# blocked\nbad.com\n\n")
    rule = UrlList(domains=str(file))
    before = content(rule)
    assert reason(documents, "http://bad.com", rule) == ("url_domain", "bad.com")
    file.write_text("worse.com\n")
    assert content(rule) != before


def test_another_column(documents):
    verdict = UrlList(field="link", domains=["bad.com"]).judge(documents(["text"], link=["http://bad.com"]))
    assert verdict.codes.tolist() == [0]


def test_a_missing_column_says_how_to_carry_it(documents):
    with pytest.raises(ConfigError, match="`fields`"):
        RULE.judge(documents(["text"]))


def test_a_missing_file_is_named(documents):
    with pytest.raises(ConfigError, match=r"absent\.txt"):
        reason(documents, "http://a.org", UrlList(urls="absent.txt"))
