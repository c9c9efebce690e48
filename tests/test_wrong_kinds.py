"""Every argument of every public function, given something of a wrong kind: a ConfigError that names the argument.

A row of the table is a call that works; each of its arguments is then replaced by values of kinds that it cannot take.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.adapters.hf_stream import CausalLMStream
from gristmill.adapters.hf_trainer import CausalLMDataset
from gristmill.adapters.huggingface import fast_load_iterable_dataset
from gristmill.adapters.lightning import GristmillDataModule
from gristmill.adapters.local_datamodule import LocalDataModule
from gristmill.adapters.local_files import LocalTokenizedDataset, LocalTokenizedDatasetFixed, create_dataloaders
from gristmill.adapters.olmo_core import GristmillDataLoader, GristmillStreamLoader
from gristmill.adapters.passes import PassLoader
from gristmill.adapters.random_windows import GPTDataConfig, GPTDataLoader
from gristmill.adapters.torch import BatchDataset, SampleDataset, TorchLoader, state_from_snapshot
from gristmill.arrow.dataset import ArrowIterableDataset
from gristmill.core.errors import GristmillError
from gristmill.recipe import MixOptions, SourceOptions, StoreOptions

VALUES: dict[str, Any] = {
    "none": None, "whole": 3, "text": "word", "list": ["word"], "dict": {"word": 1}, "object": object()
}  # fmt: skip
PATH, PATHS, FLAG, WHOLE, TEXT = {"text"}, {"text", "list"}, set[str](), {"whole"}, {"text"}


def optional(*kinds: set[str]) -> set[str]:
    return {"none"}.union(*kinds)


@dataclass(frozen=True)
class Case:
    """A function, arguments with which it works, and the kinds that each of the tested ones may have."""

    function: Callable[..., Any]
    kinds: dict[str, set[str]]
    arguments: dict[str, Any] = field(default_factory=dict)


@cache
def folder() -> Path:
    folder.kept = TemporaryDirectory(prefix="gristmill-test-")  # type: ignore[attr-defined]
    place = Path(folder.kept.name)  # type: ignore[attr-defined]
    np.arange(2000, dtype=np.uint16).tofile(place / "a.bin")
    (place / "text.txt").write_text("Some text. " * 100)
    source = {"name": "web", "paths": str(place / "text.txt")}
    gm.prepare({"out": str(place / "store"), "sources": [source], "tokenizer": "byte"}, progress=False)
    return place


@cache
def plan() -> gm.Plan:
    return gm.Plan(folder() / "a.bin", seq_len=8, batch_size=4, steps=20)


@cache
def arrow() -> ArrowIterableDataset:
    return ArrowIterableDataset([], [])


def stream() -> Any:
    return gm.stream(folder() / "text.txt")


def cases() -> dict[str, Case]:
    place, bare, store = folder(), folder() / "a.bin", gm.open(folder() / "store")
    shape = {"seq_len": 8, "batch_size": 4}
    loader = gm.Loader(plan(), threads=0)
    loading = {"keys": PATHS, "threads": WHOLE, "max_docs": optional(WHOLE)}
    making = {"overwrite": FLAG, "progress": {"none"}, "options": {"none", "dict"}}
    recipe = {"out": str(place / "new"), "sources": [{"name": "a", "paths": str(place / "text.txt")}]}
    sources = {"text", "list", "dict"}
    return {
        "gm.open": Case(gm.open, {"path": PATHS, "dtype": optional(TEXT), "eos": optional(WHOLE),
                                  "index_dir": optional(PATH)}, {"path": bare}),
        "gm.Plan": Case(gm.Plan, {"sources": sources, "weights": {"none", "dict"}, "seq_len": WHOLE,
                                  "batch_size": WHOLE, "seed": WHOLE, "steps": optional(WHOLE),
                                  "options": {"none", "dict"}}, {"sources": bare, **shape}),
        "a source of a plan": Case(lambda sources: gm.Plan({"a": sources}, **shape), {"sources": PATHS}),
        "Plan.from_json": Case(gm.Plan.from_json, {"text": TEXT, "sources": sources},
                               {"text": plan().to_json(), "sources": bare}),
        "Plan.find": Case(plan().find, {"doc_id": TEXT, "until": optional(WHOLE)}, {"doc_id": "a"}),
        "Plan.save": Case(plan().save, {"path": PATH}),
        "Plan.with_steps": Case(plan().with_steps, {"steps": optional(WHOLE)}),
        "Plan.without": Case(plan().without, {"steps": set(), "documents": PATHS, "from_step": WHOLE}),
        "Loader.record": Case(gm.Loader(plan()).record, {"path": set()}),
        "Plan.forecast": Case(plan().forecast, {"step": optional(WHOLE)}),
        **{f"Plan.{name}": Case(getattr(plan(), name), {"step": WHOLE}) for name in ("samples", "trace", "segment")},
        "gm.PlanOptions": Case(gm.PlanOptions, {
            "cut": TEXT, "unit": optional(WHOLE), "block": optional(WHOLE), "weights_in": TEXT,
            "max_epochs": optional(WHOLE, {"dict"}), "shards": {"none", "dict"}, "phases": set(),
            "exclude": {"list"}, "skip": set(), "shuffle": FLAG, "drop_last": FLAG,
            "locality": {"none", "dict"}, "augment": set()}),
        "gm.FIM": Case(gm.FIM, {"rate": {"dict"}, "spm_rate": set(), "level": set(), "prefix": {"whole", "text"},
                                "middle": {"whole", "text"}, "suffix": {"whole", "text"}}),
        "gm.SpanCorruption": Case(gm.SpanCorruption, {"rate": {"dict"}, "density": set(), "mean_length": WHOLE,
                                                      "sentinels": {"list"}}),
        "gm.Mask": Case(gm.Mask, {"rate": {"dict"}, "token": {"whole", "text"}, "masked": set(), "random": set(),
                                  "vocab_size": optional(WHOLE)}),
        "gm.Noise": Case(gm.Noise, {"rate": {"dict"}, "vocab_size": optional(WHOLE)}),
        "gm.Phase": Case(gm.Phase, {
            "from_step": WHOLE, "weights": {"none", "dict"}, "seq_len": optional(WHOLE),
            "batch_size": optional(WHOLE), "shards": {"none", "dict"}, "restart": FLAG}, {"from_step": 1}),
        "gm.Exclude": Case(gm.Exclude, {"doc": TEXT, "source": optional(TEXT), "from_step": WHOLE, "mode": set(),
                                        "rewrite_history": FLAG}, {"doc": "a"}),
        "gm.Locality": Case(gm.Locality, {"block": WHOLE, "window": WHOLE}, {}),
        "gm.Skip": Case(gm.Skip, {"from_step": WHOLE, "to_step": WHOLE, "rewrite_history": FLAG},
                        {"from_step": 1, "to_step": 9}),
        "gm.Loader": Case(gm.Loader, {"plan": set(), "rank": WHOLE, "world_size": WHOLE, "readahead_bytes": WHOLE,
                                      "pad_to_multiple_of": optional(WHOLE), **loading}, {"plan": plan()}),
        "Loader.batch": Case(loader.batch, {"step": WHOLE}),
        "Loader.seek": Case(loader.seek, {"step": WHOLE}),
        "Loader.batches_from": Case(loader.batches_from, {"step": WHOLE, "every": WHOLE}, {"step": 0}),
        "Store.tokens": Case(store.tokens, {"start": WHOLE, "end": WHOLE}, {"start": 0, "end": 1}),
        "Store.document": Case(store.document, {"document": WHOLE}),
        "Store.locate": Case(store.locate, {"ids": PATHS}),
        "Store.decode": Case(store.decode, {"tokens": WHOLE}),
        "Store.encode": Case(store.encode, {"text": TEXT}),
        "gm.index": Case(gm.index, {"store": PATHS, "seq_len": WHOLE, "force": FLAG, "progress": {"none"}},
                         {"store": store, "seq_len": 8}),
        "gm.verify": Case(gm.verify, {"path": PATH, "progress": {"none"}}, {"path": place / "store"}),
        "gm.join": Case(gm.join, {"paths": PATHS, "out": PATH, "overwrite": FLAG},
                        {"paths": [place / "store"], "out": place / "new"}),
        "gm.export": Case(gm.export, {"path": PATH, "to": TEXT, "out": PATH, "overwrite": FLAG},
                          {"path": place / "store", "to": "npy", "out": place / "new"}),
        "gm.import_": Case(gm.import_, {
            "paths": sources, "out": PATH, "tokenizer": TEXT, "eos": optional(WHOLE), "dtype": optional(TEXT),
            "boundaries": TEXT, "split": TEXT, "overwrite": FLAG, "progress": {"none"}},
            {"paths": [bare], "out": place / "new", "tokenizer": "byte"}),
        "gm.prepare": Case(gm.prepare, {"recipe": {"text", "dict"}, **making, "engine": optional(TEXT)},
                           {"recipe": recipe}),
        "gm.dry_run": Case(gm.dry_run, {"recipe": {"text", "dict"}, "sample": WHOLE, "progress": {"none"},
                                        "options": {"none", "dict"}}, {"recipe": recipe}),
        "gm.ShardWriter": Case(gm.ShardWriter, {
            "pattern": PATH, "maxcount": WHOLE, "maxsize": {"text", "whole"}, "start_shard": WHOLE, "overwrite": FLAG},
            {"pattern": place / "new-%04d.tar"}),
        "gm.stream_recipe": Case(gm.stream_recipe, {"recipe": {"text", "dict"}, "progress": {"none"}},
                                 {"recipe": recipe}),
        "gm.RunOptions": Case(gm.RunOptions, {"workers": optional(WHOLE), "memory": {"text", "whole"},
                                              "work": optional(PATH), "keep_dropped": FLAG,
                                              "save_index": optional(PATH), "engine": TEXT}),
        "gm.Recipe": Case(gm.Recipe, {
            "out": PATH, "sources": set(), "seed": WHOLE, "clean": {"none", "dict"}, "filters": {"none", "list"},
            "dedup": {"none", "list"}, "decontaminate": {"none", "dict"}, "tokenizer": TEXT, "eos": optional(WHOLE),
            "mix": {"none", "dict"}, "shuffle": FLAG, "store": {"dict"}, "on_error": TEXT}, recipe),
        "SourceOptions": Case(SourceOptions, {
            "name": TEXT, "paths": PATHS, "text": TEXT, "id": TEXT, "fields": PATHS, "documents": TEXT,
            "format": optional(TEXT), "encoding": TEXT, "priority": WHOLE}, {"name": "a", "paths": "b"}),
        "StoreOptions": Case(StoreOptions, {"tokens_per_shard": WHOLE, "val_fraction": {"whole"},
                                            "compression": TEXT}),
        "MixOptions": Case(MixOptions, {"weights": {"dict"}, "target": WHOLE, "unit": TEXT},
                           {"weights": {"a": 1}, "target": 5}),
        "gm.create_balanced_mix": Case(gm.create_balanced_mix, {
            "sources": {"dict"}, "proportions": {"dict"}, "target_size": WHOLE, "out": optional(PATH), "seed": WHOLE},
            {"sources": {"a": ["x"]}, "proportions": {"a": 1.0}, "target_size": 1}),
        "gm.stream": Case(gm.stream, {
            "paths": PATHS, "text": TEXT, "id": TEXT, "fields": PATHS, "documents": set(), "format": optional(),
            "encoding": set(), "name": TEXT, "on_error": set()}, {"paths": place / "text.txt"}),
        "Stream.filter": Case(stream().filter, {"rule": TEXT, "batch": FLAG}, {"rule": "length"}),
        "Stream.map": Case(stream().map, {"function": set(), "batch": FLAG}, {"function": len}),
        "Stream.tokenize": Case(stream().tokenize, {"tokenizer": set(), "eos": optional()}, {"tokenizer": "byte"}),
        "Stream.recipe": Case(stream().tokenize("byte").recipe, {"out": PATH}),
        "Stream.pack": Case(stream().tokenize("byte").pack, {"seq_len": WHOLE}),
        "Stream.batch": Case(stream().tokenize("byte").pack(8).batch, {
            "batch_size": WHOLE, "seed": WHOLE, "shuffle": FLAG, "epochs": optional(WHOLE), "hold": WHOLE},
            {"batch_size": 4}),
        "StreamLoader": Case(stream().tokenize("byte").pad(8).batch(4).loader, {
            "rank": WHOLE, "world_size": WHOLE, "pad_to_multiple_of": optional(WHOLE), "examples": WHOLE,
            "workers": WHOLE, **loading}),
        "CausalLMStream": Case(CausalLMStream, {
            "stream": set(), "keys": PATHS, "threads": WHOLE, "workers": WHOLE, "pad_to_multiple_of": optional(WHOLE)},
            {"stream": stream().tokenize("byte").pad(8).batch(4)}),
        "GristmillStreamLoader": Case(GristmillStreamLoader, {
            "stream": set(), "doc_lens": FLAG, "threads": WHOLE, "workers": WHOLE, "dp_world_size": optional(WHOLE),
            "dp_rank": optional(WHOLE)}, {"stream": stream().tokenize("byte").pad(8).batch(4)}),
        "gm.mix": Case(gm.mix, {"sources": set(), "weights": {"dict"}, "augment": set(), "locality": {"none"}},
                       {"sources": {"a": stream().tokenize("byte").pad(8)}, "weights": {"a": 1}}),
        "gm.merge_states": Case(gm.merge_states, {"states": set()}),
        "gm.storage": Case(gm.storage, {
            "address": set(), "endpoint": {"none"}, "region": optional(TEXT), "anonymous": FLAG,
            "profile": optional(TEXT), "deadline": WHOLE, "timeout": WHOLE, "connect": WHOLE, "tries": optional(WHOLE)},
            {"address": "s3://nobody"}),
        "gm.train_tokenizer": Case(gm.train_tokenizer, {
            "inputs": PATHS, "out": PATH, "vocab_size": WHOLE, "limit": {"text", "whole"}, "text": TEXT,
            "overwrite": FLAG, "progress": {"none"}}, {"inputs": place / "text.txt", "out": place / "t.json"}),
        "gm.load_plan": Case(gm.load_plan, {"path": PATH}),
        "TorchLoader": Case(TorchLoader, {"plan": set(), "rank": optional(WHOLE), "world_size": optional(WHOLE),
                                          "device": optional(), **loading},
                            {"plan": plan(), "rank": 0, "world_size": 1}),
        "BatchDataset": Case(BatchDataset, {"plan": set(), "keys": PATHS, "max_docs": optional(WHOLE)},
                             {"plan": plan()}),
        "SampleDataset": Case(SampleDataset, {"plan": set(), "keys": PATHS, "max_docs": optional(WHOLE)},
                              {"plan": plan()}),
        "state_from_snapshot": Case(state_from_snapshot, {"plan": set(), "snapshot": set()},
                                    {"plan": plan(), "snapshot": {}}),
        "CausalLMDataset": Case(CausalLMDataset, {"plan": set(), "keys": PATHS}, {"plan": plan()}),
        "PassLoader": Case(PassLoader, {"plan": set(), **loading}, {"plan": plan()}),
        "GristmillDataModule": Case(GristmillDataModule, {"plan": set(), "val_plan": {"none"}, **loading},
                                    {"plan": plan()}),
        "LocalDataModule": Case(lambda **given: LocalDataModule(**given).setup("fit"), {
            "train_data_path": PATHS, "val_data_path": PATHS, "batch_size": WHOLE},
            {"train_data_path": bare, "val_data_path": bare, "max_length": 8}),
        "create_dataloaders": Case(create_dataloaders, {
            "train_data_path": PATHS, "val_data_path": PATHS, "batch_size": WHOLE, "max_length": WHOLE,
            "num_workers": WHOLE, "prefetch_factor": WHOLE, "seed": WHOLE, "dtype": optional(TEXT)},
            {"train_data_path": bare, "val_data_path": bare, "max_length": 8}),
        "LocalTokenizedDataset": Case(LocalTokenizedDataset, {
            "data_path": PATHS, "max_length": WHOLE, "batch_size": WHOLE, "seed": WHOLE, "dtype": optional(TEXT)},
            {"data_path": bare, "max_length": 8}),
        "LocalTokenizedDatasetFixed": Case(LocalTokenizedDatasetFixed, {
            "data_path": PATHS, "max_length": WHOLE, "dtype": optional(TEXT)}, {"data_path": bare, "max_length": 8}),
        "GristmillDataLoader": Case(GristmillDataLoader, {
            "plan": set(), "doc_lens": FLAG, "threads": WHOLE, "dp_world_size": optional(WHOLE),
            "dp_rank": optional(WHOLE)}, {"plan": plan()}),
        "GPTDataConfig": Case(GPTDataConfig, {
            "batch_size": WHOLE, "block_size": WHOLE, "seed": WHOLE, "device": set(), "val_fraction": set()},
            {"batch_size": 2, "block_size": 8}),
        "GPTDataLoader": Case(GPTDataLoader, {"config": set(), "dataset_dir": optional(PATH)},
                              {"config": GPTDataConfig(2, 8), "tokenizer": "byte"}),
        "ArrowIterableDataset.shuffle": Case(arrow().shuffle, {"seed": WHOLE, "rows": optional()}, {"seed": 0}),
        "ArrowIterableDataset.shard": Case(arrow().shard, {"num_shards": WHOLE, "index": WHOLE},
                                           {"num_shards": 9, "index": 0}),
        "ArrowIterableDataset.map": Case(arrow().map, {
            "function": set(), "batched": FLAG, "batch_size": WHOLE, "remove_columns": PATHS, "with_indices": FLAG,
            "fn_kwargs": optional({"dict"})}, {"function": dict}),
        "ArrowIterableDataset.filter": Case(arrow().filter, {
            "function": set(), "batched": FLAG, "batch_size": WHOLE, "with_indices": FLAG,
            "fn_kwargs": optional({"dict"})}, {"function": dict}),
        "ArrowIterableDataset.batch": Case(arrow().batch, {"batch_size": WHOLE, "drop_last_batch": FLAG},
                                           {"batch_size": 2}),
        "ArrowIterableDataset.take": Case(arrow().take, {"n": WHOLE}),
        "ArrowIterableDataset.skip": Case(arrow().skip, {"n": WHOLE}),
        "ArrowIterableDataset.set_epoch": Case(arrow().set_epoch, {"epoch": WHOLE}),
        "ArrowIterableDataset.with_format": Case(arrow().with_format, {"format": set()}),
        "fast_load_iterable_dataset": Case(fast_load_iterable_dataset, {
            "path": TEXT, "split": TEXT, "index_dir": optional(PATH), "force_reindex": FLAG}, {"path": "nowhere"}),
    }  # fmt: skip


CASES = cases()
WRONG = [
    (name, argument, kind)
    for name, case in CASES.items()
    for argument, allowed in case.kinds.items()
    for kind in VALUES
    if kind not in allowed
]


@pytest.mark.parametrize(("name", "argument", "kind"), WRONG, ids=lambda value: str(value))
def test_a_wrong_kind_is_a_config_error_that_names_the_argument(name: str, argument: str, kind: str) -> None:
    case = CASES[name]
    with pytest.raises(GristmillError) as caught:
        case.function(**{**case.arguments, argument: VALUES[kind]})
    assert argument in str(caught.value) and isinstance(caught.value, gm.ConfigError | gm.StateError)
    assert not (folder() / "new").exists()


def test_every_public_name_is_in_the_table() -> None:
    spoken = " ".join(CASES)
    errors = {name for name in gm.__all__ if name.endswith("Error")}
    assert [name for name in gm.__all__ if f"gm.{name}" not in spoken and name not in errors | {"Store"}] == []
