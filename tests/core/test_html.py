"""What a notebook shows is escaped."""

from __future__ import annotations

from gristmill.core.html import counted, html_table


def test_a_table_holds_text_and_never_markup() -> None:
    found = html_table("<b>", ["a&b"], [["<script>", 12_000]])
    assert "<script>" not in found and "&lt;script&gt;" in found and "a&amp;b" in found and "&lt;b&gt;" in found
    assert "<td>12,000</td>" in found


def test_one_is_not_many() -> None:
    assert [counted(n, "shard") for n in (0, 1, 12_000)] == ["0 shards", "1 shard", "12,000 shards"]
