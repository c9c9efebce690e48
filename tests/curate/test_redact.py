"""Redaction finds what its patterns find in the whole text, and what it must find."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gristmill.curate.clean import CleanOptions, clean
from gristmill.curate.documents import Documents
from gristmill.curate.redact import PATTERNS, Pattern

KINDS = [(variant, kind) for variant, patterns in PATTERNS.items() for kind in patterns]
ADDRESSES = ("@b.co", "@x-y.org", "@[1.2.3.4]", "@[", "8.8.8.8", "10.0.0.1", "2a00:1450:", "2001:db8::1", "fe80")
NUMBERS = ("+49", "(555)", "555-123-4567", "(0)", "212", "555", "1234", "+1", "1", "25", ".5", "2:3")
WORDS = ("a", "x.y", "B2", "com", "COM", "é", "中", "\u0301", "\U0001f600", "|||")
PIECES = (*ADDRESSES, *NUMBERS, *WORDS, *"_%+-.@]:|<>'!#{},; \n", "..", "::")
TEXTS = st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), max_size=3)


def redacted(texts: Sequence[str], options: CleanOptions) -> list[str]:
    result = clean(Documents(pa.record_batch({"text": pa.array(texts, pa.large_string())})), options).documents
    return [result.string(row) for row in range(len(result))]


only = partial(CleanOptions, unicode="none", control=False, whitespace=False, line_ends=False)


def plain(text: str, pattern: Pattern, placeholder: str) -> str:
    return pattern.regex.sub(lambda match: placeholder if pattern.accept(match[0]) else match[0], text)


@pytest.mark.parametrize(("variant", "kind"), KINDS)
@given(texts=TEXTS)
@settings(max_examples=250, deadline=None)
@example(texts=["éa@b.co", "a@b.co_x@y.org", "1.2.3.4é5.6.7.8", "\u0301a@b.co\u0338", "+1 212 555 1234+1 212 555 1234"])
def test_the_compiled_search_finds_what_the_patterns_find_in_the_whole_text(
    variant: str, kind: str, texts: list[str]
) -> None:
    expected = texts
    for pattern in PATTERNS[variant][kind]:
        expected = [plain(text, pattern, "<X>") for text in expected]
    assert redacted(texts, only(redact={kind: "<X>"}, redact_variant=variant)) == expected


@given(TEXTS)
@settings(max_examples=600, deadline=None)
@example(["a@b.co_x@y.org 8.8.8.8", "a@b.co@c.co", "212-555-1234(212) 555-1234", "a@b.co\u0338"])
def test_a_second_redaction_changes_nothing(texts: list[str]) -> None:
    options = CleanOptions(redact=["email", "ip", "phone"])
    once = redacted(texts, options)
    assert redacted(once, options) == once


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("email", "Write to John.Smith+x@Example.co.uk.", "Write to X."),
        ("email", "mailto:a_b@c-d.org?x=1 `me@x.io` |me@x.io|", "mailto:X?x=1 `X` |X|"),
        ("email", "...foo@bar.com--call", "...X--call"),
        ("ip", "8.8.8.8, 8.8.4.4:53 and 2a00:1450:4001:81b::200e.", "X, X:53 and X."),
        ("phone", "Call (212) 555-0123, 212.555.0123 or +44 20 7946 0958.", "Call X, X or X."),
        ("phone", "+49 (0)30 1234567", "X"),
    ],
)
def test_personal_data_goes(kind: str, text: str, expected: str) -> None:
    assert redacted([text], only(redact={kind: "X"})) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "@property a@b user@localhost 3 @ 4.com",
        "10.0.0.1 127.0.0.1 192.168.1.2 999.9.9.9 108.0.0.01",
        "1.2.3.4.5 v8.8.8.8 a::b std::dead 12:30:45 2001:db8::1",
        "1234567890 2026-11-16 192.168.10.100 3.14159265 100 200 3000",
    ],
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert redacted([text], only(redact=["email", "ip", "phone"])) == [text]


def test_a_list_of_kinds_has_stated_placeholders_and_the_account_counts_documents() -> None:
    batch = Documents(pa.record_batch({"text": pa.array(["a@b.co c@d.co", "8.8.8.8", "none"], pa.large_string())}))
    result = clean(batch, CleanOptions(redact=["ip", "email"]))
    texts = [result.documents.string(row) for row in range(3)]
    assert texts == ["|||EMAIL_ADDRESS||| |||EMAIL_ADDRESS|||", "|||IP_ADDRESS|||", "none"]
    assert result.counts == {"email": 1, "ip": 1}


@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_the_variant_finds_what_datatrove_finds(texts: list[str]) -> None:
    from datatrove.pipeline.formatters import pii

    theirs = pii.PIIFormatter(email_replacement="X", ip_replacement="Y")
    options = only(redact={"email": "X", "ip": "Y"}, redact_variant="datatrove")
    assert redacted(texts, options) == [theirs.format(text) for text in texts]


def test_long_runs_cost_linear_time() -> None:
    texts = ["a." * 200_000 + "@b", "a@" * 100_000, "1." * 200_000, ":1" * 200_000, "1 " * 200_000]
    assert redacted(texts, only(redact=["email", "ip", "phone"])) == texts
