"""Gristmill turns raw text into the batches a language model trains on.

import gristmill as gm

store = gm.open("data/corpus/train")
plan = gm.Plan(sources={"web": store}, seq_len=2048, batch_size=64, seed=0)
for batch in gm.Loader(plan): ...
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gristmill.core.errors import (
        ConfigError,
        EngineError,
        GristmillError,
        SourceError,
        StateError,
        StoreError,
    )
    from gristmill.importing import import_tokens as import_
    from gristmill.indexing import index
    from gristmill.loader.loader import Loader
    from gristmill.loader.plan_file import load_plan
    from gristmill.mixing import create_balanced_mix
    from gristmill.order.augment import FIM, Mask, Noise, SpanCorruption
    from gristmill.order.options import Exclude, Locality, Phase, PlanOptions, Skip
    from gristmill.order.plan import Plan
    from gristmill.places.storage import storage
    from gristmill.recipe import Recipe
    from gristmill.run import RunOptions, dry_run, prepare
    from gristmill.store.exchange import join
    from gristmill.store.export import export_store as export
    from gristmill.store.opening import open_store as open
    from gristmill.store.reader import Store
    from gristmill.store.shard_writer import ShardWriter
    from gristmill.store.verify import verify
    from gristmill.streaming import stream_recipe
    from gristmill.streams.mixture import mix
    from gristmill.streams.state import merge_states
    from gristmill.streams.stream import stream
    from gristmill.training import train_tokenizer

__version__: str
# Each name is imported when it is first used: `import gristmill` alone costs a few milliseconds. Where a name is
# Python's own or a module's, its home calls it otherwise, after the colon.
_HOMES = {
    **dict.fromkeys(
        ("ConfigError", "EngineError", "GristmillError", "SourceError", "StateError", "StoreError"), "core.errors"
    ),
    "Loader": "loader.loader",
    **dict.fromkeys(("FIM", "Mask", "Noise", "SpanCorruption"), "order.augment"),
    **dict.fromkeys(("Exclude", "Locality", "Phase", "PlanOptions", "Skip"), "order.options"),
    "Plan": "order.plan",
    "index": "indexing",
    "Recipe": "recipe",
    "create_balanced_mix": "mixing",
    **dict.fromkeys(("RunOptions", "dry_run", "prepare"), "run"),
    "ShardWriter": "store.shard_writer",
    "Store": "store.reader",
    "export": "store.export:export_store",
    "import_": "importing:import_tokens",
    "join": "store.exchange",
    "load_plan": "loader.plan_file",
    "merge_states": "streams.state",
    "mix": "streams.mixture",
    "open": "store.opening:open_store",
    "storage": "places.storage",
    "stream": "streams.stream",
    "stream_recipe": "streaming",
    "train_tokenizer": "training",
    "verify": "store.verify",
}

__all__ = [  # noqa: RUF022  # FIM is a class, no constant
    "ConfigError",
    "EngineError",
    "Exclude",
    "FIM",
    "GristmillError",
    "Loader",
    "Locality",
    "Mask",
    "Noise",
    "Phase",
    "Plan",
    "PlanOptions",
    "Recipe",
    "RunOptions",
    "ShardWriter",
    "Skip",
    "SourceError",
    "SpanCorruption",
    "StateError",
    "Store",
    "StoreError",
    "create_balanced_mix",
    "dry_run",
    "export",
    "import_",
    "index",
    "join",
    "load_plan",
    "merge_states",
    "mix",
    "open",
    "prepare",
    "storage",
    "stream",
    "stream_recipe",
    "train_tokenizer",
    "verify",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = importlib.import_module("gristmill.core.version").version()
    elif name in _HOMES:
        home, _, own = _HOMES[name].partition(":")
        value = getattr(importlib.import_module(f"gristmill.{home}"), own or name)
    else:
        raise AttributeError(f"module 'gristmill' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
