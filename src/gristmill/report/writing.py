"""Reports as files: which page belongs to what is given, and where it lies."""

from __future__ import annotations

from gristmill.core.errors import ConfigError
from gristmill.core.values import parse_json
from gristmill.places.address import Address
from gristmill.places.door import place_at
from gristmill.report.markup import Html
from gristmill.store.manifest import MANIFEST

REPORT = "report.html"
Made = tuple[Html, object]  # the page, and the figures that it shows


def report(path: Address, other: Address | None = None) -> Made:
    """The page of a store or a plan; with another one, of what changed from that to this."""
    kinds = [_is_plan(given) for given in (path, other) if given is not None]
    if len(set(kinds)) > 1:
        raise ConfigError(f"{path} and {other} are a store and a plan: compare two stores or two plans.")
    made = _plan_report if kinds[0] else _store_report
    return made(path, other)


def target(path: Address) -> Address:
    """Where a report lies unless it is said: beside a store's manifest, or a plan's file."""
    return path.with_name(f"{path.stem}.report.html") if _is_plan(path) else _root(path) / REPORT


def write(made: Html, out: Address) -> None:
    place_at(out).write(made)


def _is_plan(path: Address) -> bool:
    """Whether it is the JSON of a plan; what is neither plan nor store is refused."""
    if path.name != MANIFEST and path.suffix == ".json" and place_at(path).is_file():
        values = parse_json(place_at(path).read(), str(path))
        if isinstance(values, dict) and "gristmill_plan" in values:
            return True
        raise ConfigError(f"{path} is no plan, and a report shows a store or a plan.")
    return False


def _root(path: Address) -> Address:
    root = path.parent if path.name == MANIFEST else path
    if not place_at(root / MANIFEST).exists():
        raise ConfigError(
            f"{root} holds no {MANIFEST}: give the folder of a store that Gristmill made, or a plan.json."
        )
    return root


def _store_report(path: Address, other: Address | None) -> Made:
    if other is not None:
        from gristmill.figures.changes import store_changes
        from gristmill.report.changes import store_changes_page

        changes = store_changes(_root(other), _root(path))
        return store_changes_page(changes), changes.to_dict()
    from gristmill.figures.picture import store_picture
    from gristmill.report.store import store_page

    picture = store_picture(_root(path))
    return store_page(picture), picture.to_dict()


def _plan_report(path: Address, other: Address | None) -> Made:
    from gristmill.loader.plan_file import load_plan  # 0.1 s, which the report of a store does without

    plan = load_plan(path)
    if other is not None:
        from gristmill.figures.plan_changes import plan_changes
        from gristmill.report.changes import plan_changes_page

        changes = plan_changes(load_plan(other), plan, str(other), str(path))
        return plan_changes_page(changes), changes
    from gristmill.figures.plan_picture import plan_picture
    from gristmill.report.plan import plan_page

    picture = plan_picture(plan, str(path))
    return plan_page(picture), picture
