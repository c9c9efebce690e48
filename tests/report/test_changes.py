from __future__ import annotations

from pathlib import Path

from gristmill.figures.changes import RuleChange, store_changes
from gristmill.report.changes import store_changes_page
from report_corpus import Made


def test_documents_are_added_removed_and_changed_by_source_and_by_rule(made: Made, stricter: Path) -> None:
    changes = store_changes(made.root, stricter)
    web = next(source for source in changes.sources if source.source == "web")
    books = next(source for source in changes.sources if source.source == "books")
    assert (books.added, books.removed, books.changed, books.before) == (0, 0, 0, 5)
    assert (web.added, web.changed) == (1, 1) and web.after == web.before + 1 - web.removed
    # web-0 to web-9 have 40 to 58 words.
    assert changes.rules == [RuleChange("length", 0, 10), RuleChange("", 1, 0)]
    assert web.removed == 10 and changes.same == web.before + 5 - web.removed - web.changed


def test_examples_show_a_changed_text_from_both_sides(made: Made, stricter: Path) -> None:
    examples = {example.id: example for example in store_changes(made.root, stricter).examples}
    changed = examples["web-30"]
    assert changed.kind == "changed" and changed.before and changed.after == changed.before + " and an end"
    assert examples["fresh"].kind == "added" and examples["fresh"].before is None
    shown = store_changes_page(store_changes(made.root, stricter))
    assert "<ins> and an end</ins>" in shown and "dropped now by length" in shown


def test_a_store_is_the_same_as_itself(made: Made) -> None:
    changes = store_changes(made.root, made.root)
    assert not changes.examples and not changes.rules
    assert "hold the same documents" in store_changes_page(changes)
