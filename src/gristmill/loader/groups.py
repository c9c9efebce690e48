"""Steps that are fetched and filled together: to hand over a group costs about as much as to hand over a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from gristmill.order.plan import Plan


class GroupSize(NamedTuple):
    """Steps a group, and groups ahead of the loop."""

    steps: int
    ahead: int


def group_size(rows: int, row_bytes: int, most_rows: int, readahead_bytes: int, threads: int) -> GroupSize:
    """What fills the bound of memory without passing it, for batches of `rows` rows of `row_bytes`."""
    most = max(1, most_rows // rows)
    if not threads:
        return GroupSize(most, 0)
    steps = readahead_bytes // (row_bytes * rows)
    return GroupSize(max(1, min(most, steps // (2 * threads))), max(threads, min(2 * threads, steps)))


def groups_of(plan: Plan, step: int, size: Callable[[int], int], every: int = 1) -> Iterator[range]:
    """Each `every`-th served step from `step` on, in groups that cross neither a phase nor a skipped step.

    size: of the group that begins at a step, at most. The first group is one step and the next ones double, so that the
    first batch waits for no other.
    """
    total, most = plan.total_steps, 1
    while True:
        step = plan.skips.next_served(step)
        if total is not None and step >= total:
            return
        end = step + every * min(most, size(step))
        most *= 2
        segment_end = plan.segment(step).to_step
        end = end if segment_end is None else min(end, segment_end)
        group = range(step, plan.skips.first_skipped(step, end), every)
        yield group
        step = step_after(plan, group[-1], every)


def step_after(plan: Plan, step: int, batches: int) -> int:
    """The step that follows the next `batches` served ones; skipped steps in between count for nothing."""
    wanted, step = plan.skips.served(step) + batches, step + batches
    while missing := wanted - plan.skips.served(step):
        step += missing
    return step


def joined(groups: Iterator[range], most: Callable[[int], int]) -> Iterator[list[range]]:
    """Groups that follow each other evenly, in lists of up to `most` steps, which is told of the first of them.

    No list has more steps than all before it, unless it is one group: so the first batch waits for no other here, too.
    """
    some: list[range] = []
    before = 0
    for group in groups:
        steps = sum(map(len, some))
        if some and not (_follows(group, some[-1]) and steps + len(group) <= min(most(some[0].start), before)):
            yield some
            some, before = [], before + steps
        some.append(group)
    if some:
        yield some


def _follows(group: range, last: range) -> bool:
    return group.start == last[-1] + last.step and group.step == last.step
