"""The commands that look at what is there, at what is not, and at what will be: inspect, dropped, view, verify,
simulate."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence

from gristmill.cli_options import answer, progress_bar
from gristmill.core.arguments import PathLike
from gristmill.core.errors import ConfigError
from gristmill.core.values import parse_json
from gristmill.figures.plan import plan_figures, state_figures
from gristmill.figures.store import store_figures, token_figures
from gristmill.loader.plan_file import load_plan
from gristmill.loader.record import is_run
from gristmill.order.plan import Plan
from gristmill.places.address import Address
from gristmill.places.door import address_of, place_at
from gristmill.show.dropped import show_documents, show_dropped, show_why_dropped
from gristmill.show.plan import show_places, show_plan, show_state
from gristmill.show.simulation import show_simulation
from gristmill.show.store import show_findings, show_store, show_token_files
from gristmill.show.terminal import facts, paragraph
from gristmill.show.view import show_address
from gristmill.simulate.options import SimulateOptions
from gristmill.store.manifest import MANIFEST, SPLITS
from gristmill.store.opening import is_directory, is_sharded_bin, named_paths, open_split, open_store
from gristmill.store.reader import Store
from gristmill.store.verify import verify

_ABOUT = {"step": "a plan or a run", "until": "a plan", "plan": "a checkpoint", "doc": "a store or a plan",
          "paths": "a store", "dtype": "a token file", "eos": "a token file", "spikes": "a run",
          "exclude_step": "a plan or a run", "exclude_doc": "a plan or a run", "from_step": "a plan or a run",
          "out": "a plan or a run"}  # fmt: skip
_LEFT_OUT = ("exclude_step", "exclude_doc", "from_step", "out")


def run_inspect(chosen: argparse.Namespace) -> None:
    path, *others = named_paths(chosen.path)
    if others:
        _refuse_options(chosen, "several token files", ("dtype", "eos"))
        _inspect_tokens(chosen.path, chosen)
    elif existing(str(path)).suffix == ".json" and path.name != "manifest.json" and place_at(path).is_file():
        _inspect_json(path, chosen)
    elif is_run(path):
        _inspect_run(path, chosen)
    else:
        _inspect_store(path.parent if path.name == "manifest.json" else path, chosen)


def _inspect_run(path: Address, chosen: argparse.Namespace) -> None:
    from gristmill.figures.run import run_figures, step_figures  # which import Arrow
    from gristmill.figures.served import as_run
    from gristmill.figures.spikes import find_spikes
    from gristmill.show.run import show_run, show_spikes, show_step

    _refuse_options(chosen, "a run", ("step", "doc", "until", "spikes", *_LEFT_OUT))
    run = as_run(path)
    if _leaves_out(chosen) or chosen.doc is not None:
        if run.plan is None:
            raise ConfigError(f"{path} has no plan.json, as a stream has none: its documents cannot be told.")
        _inspect_plan(run.plan, chosen)
    elif chosen.spikes:
        found = find_spikes(run)
        answer(chosen, found, lambda: show_spikes(found))
    elif chosen.step is not None:
        step = step_figures(run, chosen.step)
        answer(chosen, step, lambda: show_step(step))
    else:
        figures = run_figures(run)
        answer(chosen, figures, lambda: show_run(str(path), figures))


def _leaves_out(chosen: argparse.Namespace) -> bool:
    return any(getattr(chosen, name) is not None for name in _LEFT_OUT)


def _leave_out(plan: Plan, chosen: argparse.Namespace) -> None:
    """Write the plan that goes on without some steps or documents."""
    steps, documents = chosen.exclude_step or [], chosen.exclude_doc or []
    if not steps and not documents:
        raise ConfigError("What is to be left out? Give --exclude-step N or --exclude-doc ID.")
    if chosen.out is None:
        raise ConfigError("Give --out FILE: the plan that goes on without them is written there.")
    if documents and chosen.from_step is None:
        raise ConfigError("Give --from-step N with --exclude-doc: the step of the checkpoint to resume from.")
    made = plan.without(steps=steps, documents=documents, from_step=chosen.from_step or 0)
    made.save(chosen.out)
    last = min([*steps, *([chosen.from_step] if documents else [])])
    figures = {"plan": chosen.out, "fingerprint": made.fingerprint, "skipped_steps": sorted(steps),
               "excluded_documents": documents, "checkpoints_up_to": last}  # fmt: skip
    said = (
        f"{chosen.out} goes on without them, and every other sample stays where it was. Checkpoints up to step "
        f"{last:,} can be resumed with it."
    )
    answer(chosen, figures, lambda: paragraph(said))


def _inspect_store(path: Address, chosen: argparse.Namespace) -> None:
    own = is_directory(path) and not is_sharded_bin(path)
    _refuse_options(chosen, "a store" if own else "no plan", ("doc", "paths") if own else ("doc", "dtype", "eos"))
    if chosen.doc is not None:
        _inspect_document(path, chosen)
    elif own:
        store = store_figures(path)
        if chosen.paths:
            answer(chosen, store.token_files, lambda: show_token_files(store))
        else:
            answer(chosen, store.to_dict(), lambda: show_store(store))
    else:
        _inspect_tokens(path, chosen)


def _inspect_tokens(path: PathLike, chosen: argparse.Namespace) -> None:
    tokens = token_figures(open_store(path, chosen.dtype, chosen.eos))
    answer(chosen, tokens, lambda: facts(str(tokens["path"]), tokens))


def _refuse_options(chosen: argparse.Namespace, shown: str, allowed: Sequence[str]) -> None:
    """An option of `inspect` that says nothing about what is shown ("a plan") is refused, not ignored."""
    for name, about in _ABOUT.items():
        given = getattr(chosen, name)
        if name not in allowed and given is not None and given is not False:
            raise ConfigError(f"--{name.replace('_', '-')} asks about {about}, and {chosen.path} is {shown}.")


def _inspect_document(path: Address, chosen: argparse.Namespace) -> None:
    from gristmill.figures.dropped import find_document  # which imports Arrow

    found, dropped = find_document(path, open_all(path, chosen.dtype, chosen.eos), chosen.doc)
    show = show_documents if found else show_why_dropped
    answer(chosen, found or dropped, lambda: show(chosen.doc, found or dropped))


def open_all(path: Address, dtype: str | None, eos: int | None) -> list[Store]:
    """The store at `path`; a root gives both of its splits."""
    if place_at(path / MANIFEST).exists():
        return [open_split(path, split) for split in SPLITS]
    return [open_store(path, dtype, eos)]


def _inspect_json(path: Address, chosen: argparse.Namespace) -> None:
    """A plan or a checkpoint."""
    values = parse_json(place_at(path).read(), str(path))
    if isinstance(values, dict) and "gristmill_plan" in values:
        _refuse_options(chosen, "a plan", ("step", "doc", "until", *_LEFT_OUT))
        _inspect_plan(load_plan(path), chosen)
    elif isinstance(values, dict) and "digest" in values:
        _refuse_options(chosen, "a checkpoint", ("plan",))
        state = state_figures(values, chosen.plan)
        answer(chosen, state, lambda: show_state(state))
    else:
        raise ConfigError(f"{path} is neither a plan nor a checkpoint of a loader.")


def _inspect_plan(plan: Plan, chosen: argparse.Namespace) -> None:
    if _leaves_out(chosen):
        _leave_out(plan, chosen)
    elif chosen.step is not None:
        documents = plan.trace(chosen.step)
        answer(chosen, documents, lambda: show_places(f"step {chosen.step:,}", documents))
    elif chosen.doc is not None:
        seen = plan.find(chosen.doc, chosen.until)
        answer(chosen, seen, lambda: show_places(f"{chosen.doc} is seen in", seen))
    else:
        figures = plan_figures(plan, chosen.until)
        answer(chosen, figures, lambda: show_plan(repr(plan), figures))


def run_simulate(chosen: argparse.Namespace) -> None:
    plan, names = load_plan(existing(chosen.path)), [field.name for field in dataclasses.fields(SimulateOptions)]
    given = {name: getattr(chosen, name) for name in names if getattr(chosen, name, None) is not None}
    options = SimulateOptions(**given)
    found = plan.simulate(options)
    answer(chosen, found, lambda: show_simulation(repr(plan), options, found))


def run_dropped(chosen: argparse.Namespace) -> None:
    from gristmill.figures.dropped import KEYS, dropped  # which imports Arrow

    asked = {key: getattr(chosen, key) for key in KEYS}
    wanted = chosen.examples if chosen.examples is not None else 3 if any(asked.values()) else 1
    found = dropped(existing(chosen.path), asked, wanted)
    answer(chosen, {"path": chosen.path, **vars(found)}, lambda: show_dropped(chosen.path, found))


def existing(given: str) -> Address:
    """A path that must be there."""
    path = address_of(given)
    if not is_directory(path) and not place_at(given).exists():
        raise ConfigError(f"{path} does not exist.")
    return path


def run_view(chosen: argparse.Namespace) -> None:
    from gristmill.view.browser import open_browser
    from gristmill.view.server import serving
    from gristmill.view.subject import open_subject

    with serving(open_subject(chosen.path), chosen.port) as server:
        where = {"path": chosen.path, "address": server.address}
        answer(chosen, where, lambda: show_address(**where))
        sys.stdout.flush()
        if not chosen.no_browser:
            open_browser(server.address)
        server.serve_forever()


def run_verify(chosen: argparse.Namespace) -> int:
    with progress_bar(chosen) as bar:
        found = verify(chosen.path, progress=bar)
    answer(chosen, {**vars(found), **bar.figures}, lambda: show_findings(chosen.path, found, bar.took()))
    for fault in found.faults:
        print(f"gristmill: {fault}", file=sys.stderr)
    return 1 if found.faults else 0
