from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

from gristmill.report.markup import Html, html, isolated, joined, marked, merged, tag
from gristmill.report.page import (
    bar,
    cell,
    facts,
    notes,
    page,
    percent,
    policy,
    sections,
    snippet,
    style,
    table,
    window,
)


def test_whatever_is_no_markup_is_escaped():
    hostile = "<script>alert(1)</script>"
    for made in [
        html(hostile), tag("p", hostile), tag("p", title=hostile), joined([hostile]), facts({hostile: hostile}),
        table([hostile], [[hostile]], hostile), notes([hostile]), snippet(hostile), marked(hostile, [(0, 3)]),
        bar(0.5, hostile), page(hostile, hostile, subtitle=hostile),
    ]:  # fmt: skip
        assert isinstance(made, Html) and "<script" not in made and "&lt;" in made


def test_markup_is_left_as_it_is():
    assert tag("p", tag("b", "x & y")) == "<p><b>x &amp; y</b></p>"
    assert tag("b", "שלום") == '<b><bdi dir="auto">שלום</bdi></b>'


def test_an_attribute_cannot_be_left():
    assert tag("a", href='" onclick="x') == '<a href="&quot; onclick=&quot;x"></a>'


def test_control_characters_are_shown_as_symbols_and_lone_surrogates_can_be_written():
    assert "\x00" not in isolated("a\x00\x1b[31m") and "␀" in isolated("a\x00")
    page("x", "\ud800").encode()


def test_marks_that_overlap_are_one_and_those_outside_are_left_out():
    assert merged([(5, 9), (0, 3), (2, 6), (20, 30)], 12) == [(0, 9)]
    assert marked("<abc>", [(1, 3), (-5, 0), (4, 99)]) == "&lt;<mark>ab</mark>c<mark>&gt;</mark>"


def test_a_snippet_shows_the_marked_part_of_a_long_text_and_says_what_it_leaves_out():
    shown = snippet("x" * 1_000_000 + "BAD" + "y" * 10, [(1_000_000, 1_000_003)], 300)
    assert "<mark>BAD</mark>" in shown and len(shown) < 800 and "characters before" in shown
    assert window(10, (0, 0), 100) == (0, 10)


def test_the_policy_allows_the_style_by_its_sum_and_no_script():
    shown = page("t", "b")
    inside = re.search("<style>(.*)</style>", shown, re.S)
    assert inside and b64encode(sha256(inside[1].encode()).digest()).decode() in policy()
    assert "script-src 'none'" in shown and "default-src 'none'" in shown
    assert "<" not in style() and "url(" not in style() and "@import" not in style()


def test_a_script_of_ours_is_allowed_by_its_sum():
    shown = page("t", "b", script="let a = 1 < 2")
    assert "<script>let a = 1 < 2</script>" in shown
    assert b64encode(sha256(b"let a = 1 < 2").digest()).decode() in shown


def test_numbers_stand_to_the_right_and_small_shares_are_not_nothing():
    assert cell(1234) == '<td class="n">1,234</td>' and 'class="n"' in cell(percent(0.5))
    assert percent(0) == "0.0 %" and percent(0.00001) == "&lt; 0.1 %" and percent(None) == "–"


def test_sections_are_linked_to():
    shown = sections([("a", "First", Html("x"))])
    assert 'href="#a"' in shown and '<section id="a">' in shown
