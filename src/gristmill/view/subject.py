"""What is looked at: a store with its splits, a plan with its sources, or a run, which is a plan and its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gristmill.core.cached import cached_property
from gristmill.core.errors import ConfigError, GristmillError
from gristmill.core.values import parse_json
from gristmill.figures.served import Run, as_run
from gristmill.loader.loader import Loader
from gristmill.loader.plan_file import load_plan
from gristmill.loader.record import PLAN, RECORD
from gristmill.order.plan import Plan
from gristmill.places.address import Address
from gristmill.places.door import address_of, place_at
from gristmill.store.manifest import MANIFEST, SPLITS, Manifest, load_manifest
from gristmill.store.opening import folder_of, is_directory, open_split, open_store
from gristmill.store.reader import Store


@dataclass(frozen=True, eq=False)
class Subject:
    """What was given, opened: stores by name (`train` and `val`, or a plan's sources), and the plan or run, if any."""

    path: Address
    stores: Mapping[str, Store]
    plan: Plan | None = None
    run: Run | None = None

    @property
    def names(self) -> list[str]:
        """The stores in their order, which is how pages number them."""
        return list(self.stores)

    def store(self, number: int) -> Store:
        """A store by its number."""
        if not 0 <= number < len(self.stores):
            raise ConfigError(f"There is no store {number}: there are {len(self.stores):,}.")
        return self.stores[self.names[number]]

    def root(self, store: Store) -> Address | None:
        """The folder with the manifest of a store that Gristmill made; None for files of others."""
        folder = folder_of(address_of(store.facts.path))
        return folder.root if store.owned and folder.mark == MANIFEST else None

    @cached_property
    def manifests(self) -> Mapping[str, Manifest]:
        """The manifests of the stores, by their folders; one that is gone or damaged is left out."""
        found: dict[str, Manifest] = {}
        for root in {str(root): root for store in self.stores.values() if (root := self.root(store))}.values():
            try:
                found[str(root)] = load_manifest(root)
            except GristmillError:
                continue
        return found

    def manifest(self, store: Store) -> Manifest | None:
        """The manifest of a store."""
        return self.manifests.get(str(self.root(store)))

    @cached_property
    def loader(self) -> Loader:
        """What gives the batches of the plan."""
        if self.plan is None:
            raise ConfigError(f"{self.path} is a store: give a plan or a run to see its steps.")
        return Loader(self.plan, threads=0, keys=("input_ids", "loss_mask", "doc_ids"))


def open_subject(given: str) -> Subject:
    """What lies at a path: a store or one of its splits, a plan.json, or the folder of a run."""
    path = address_of(given)
    if not is_directory(path) and not place_at(path).exists():
        raise ConfigError(f"{path} does not exist.")
    if path.name == MANIFEST:
        path = path.parent
    if path.suffix == ".json" and place_at(path).is_file():
        return _plan(path, path)
    if place_at(path if path.suffix == ".parquet" else path / RECORD).is_folder():
        return _run(path, as_run(path))
    if place_at(path / PLAN).is_file() and not place_at(path / MANIFEST).exists():
        return _plan(path, path / PLAN)
    return Subject(path, _stores(path))


def _stores(path: Address) -> dict[str, Store]:
    """Both splits of a store, or what was named alone; an empty split is left out."""
    if not place_at(path / MANIFEST).exists():
        return {path.name: open_store(path)}
    splits = {split: open_split(path, split) for split in SPLITS}
    return {name: store for name, store in splits.items() if store.num_shards}


def _run(path: Address, run: Run) -> Subject:
    if run.plan is None:
        raise ConfigError(f"{path} is the record of a stream, which has no plan: there are no steps to show.")
    return _of_plan(path, run.plan, run)


def _plan(path: Address, file: Address) -> Subject:
    values = parse_json(place_at(file).read(), str(file))
    if not isinstance(values, dict) or "gristmill_plan" not in values:
        raise ConfigError(f"{file} is no plan: give a store, a plan.json or the folder of a run.")
    return _of_plan(path, load_plan(file), None)


def _of_plan(path: Address, plan: Plan, run: Run | None) -> Subject:
    stores = {source.name: source.store for source in plan.sources if isinstance(source.store, Store)}
    return Subject(path, stores, plan, run)
