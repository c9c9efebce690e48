"""A checkpoint that proves itself: a step, the plan up to it by parts, and a digest of the last step's samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict, cast

from gristmill.core.errors import StateError
from gristmill.core.hashing import fingerprint
from gristmill.core.values import as_saved
from gristmill.order.options import MOST
from gristmill.order.plan import Plan

STATE_VERSION = 1
# The parts of a plan that may name any steps, whatever its phases.
_CHANGES = {"exclude", "skip"}


class State(TypedDict):
    """What a run must keep to go on at `step`: JSON, under 1 KB, the same on every rank."""

    version: int
    step: int
    plan: str
    digest: str
    tokens: int
    parts: Mapping[str, object]


def make_state(plan: Plan, step: int) -> State:
    """The state before `step`."""
    return {
        "version": STATE_VERSION,
        "step": step,
        "plan": plan.prefix_fingerprint(step),
        "digest": plan.digest(plan.skips.last_served(step)),
        "tokens": plan.tokens_before(step),
        "parts": _parts(plan, step),
    }


def _parts(plan: Plan, step: int) -> dict[str, object]:
    """The prefix by named parts: plain values as they are, the rest as 8 hex digits."""
    return {name: _shown(part) for name, part in plan.prefix(step).items()}


def _shown(part: object) -> object:
    return fingerprint(part)[:8] if isinstance(part, list) else part


def check_state(plan: Plan, given: object) -> int:
    """The step to go on from, if the plan is equal to the checkpoint's on all steps before it; else what differs."""
    state = as_state(given)
    step = state["step"]
    if not 0 <= step <= (MOST["steps"] if plan.total_steps is None else plan.total_steps):
        raise StateError(f"The checkpoint is at step {step}, the plan has {plan.total_steps}: raise steps=.")
    if state["plan"] != plan.prefix_fingerprint(step):
        raise StateError(f"This checkpoint (step {step:,}) belongs to another plan: {_differences(plan, state, step)}")
    if state["digest"] != plan.digest(plan.skips.last_served(step)):
        raise StateError(
            f"This checkpoint (step {step:,}) has the same plan but other samples in its last step: it was made by a "
            "version with another order. Use that version."
        )
    return step


def as_state(state: object) -> State:
    """The state that this must be, whatever the plan."""
    return cast(State, as_saved(state, State, STATE_VERSION, "a Gristmill loader"))


def _differences(plan: Plan, state: State, step: int) -> str:
    """The new phases that begin too early and the parts that differ without them; what would bring them together."""
    added = _added_phases(plan, state, step)
    named = _differing(plan, state, step, added[0] if added else step)
    said = [_begin_early(added, step)] if added else []
    if named or not added:
        said.append(f"{', '.join(named) or 'something'} differs before step {step:,}.{_hint(named, step)}")
    return " ".join(said)


def _added_phases(plan: Plan, state: State, step: int) -> list[int]:
    """Where phases before `step` begin that the checkpoint's plan, otherwise with the same ones, does not have."""
    starts = [segment.from_step for segment in plan.segments if segment.from_step < step]
    known = (i for i in range(1, len(starts)) if _shown(starts[:i]) == state["parts"].get("phase starts"))
    return starts[next(known, len(starts)) :]


def _begin_early(added: list[int], step: int) -> str:
    first = f"the phase at step {added[0]:,} is new"
    more = f" (and {len(added) - 1:,} after it)" if len(added) > 1 else ""
    return (
        f"{first}{more}, and would change what was served before step {step:,}. Let it begin at from_step={step} or "
        "later."
    )


def _differing(plan: Plan, state: State, step: int, common: int) -> list[str]:
    """The parts that differ, with both values where they are plain; phases count as far as both plans have them."""
    whole = plan.prefix(step)
    prefix = {**plan.prefix(common), **{name: whole[name] for name in _CHANGES if name in whole}}
    then, named = state["parts"], []
    for name in {**prefix, **then}:
        part = prefix.get(name)
        if _shown(part) != then.get(name):
            plain = name in prefix and not isinstance(part, list)
            named.append(f"{name} (was {str(then.get(name))[:60]}, is {part})" if plain else name)
    return named


def _hint(named: list[str], step: int) -> str:
    if set(named) <= _CHANGES:
        return f" Let them begin at from_step={step}, or say rewrite_history=True."
    if "phase starts" in named:
        return " Keep the phases that the run has gone through, as they were."
    return " Say unit= with the value that the run began with." if "unit" in named else ""
