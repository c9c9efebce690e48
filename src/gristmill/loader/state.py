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
    parts = plan.prefix(step)
    return {name: fingerprint(part)[:8] if isinstance(part, list) else part for name, part in parts.items()}


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
    """The parts that differ, with both values where they are plain, and what would bring them together."""
    now, then = _parts(plan, step), state["parts"]
    named = []
    for name in {**now, **then}:
        if now.get(name) != then.get(name):
            plain = name in now and not isinstance(plan.prefix(step)[name], list)
            named.append(f"{name} (was {str(then.get(name))[:60]}, is {now[name]})" if plain else name)
    hint = ""
    if set(named) <= {"exclude", "skip"}:
        hint = f" Let them begin at from_step={step}, or say rewrite_history=True."
    elif "unit" in named:
        hint = " Say unit= with the value that the run began with."
    return f"{', '.join(named) or 'something'} differs before step {step:,}.{hint}"
