"""From units to a manifest: which jobs and queries a recipe asks for, in which order, and what each stands on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from gristmill.core.errors import SourceError
from gristmill.core.hashing import fingerprint
from gristmill.core.progress import Progress, count
from gristmill.curate.dedup.exact import REPEATED_IDS, Exact, equal_documents
from gristmill.curate.dedup.lines import Lines
from gristmill.curate.dedup.near import Near
from gristmill.engine.base import Engine, is_elsewhere
from gristmill.places.address import Address
from gristmill.places.door import address_of, place_at
from gristmill.places.local import WORK
from gristmill.recipe import Recipe, SourceOptions
from gristmill.sources.units import Unit
from gristmill.stages.account import DroppedJob, EvidenceJob, named_duplicates
from gristmill.stages.curate import CurateJob, inputs_fingerprint
from gristmill.stages.evaluations import Evaluations, curation_of
from gristmill.stages.funnel import FUNNEL, Tally
from gristmill.stages.index import save_index
from gristmill.stages.layout import COUNTS, SHUFFLED, UNITS, Share, SplitCounts, mixed, shares
from gristmill.stages.lines import LinesJob, TrimJob, find_repeated
from gristmill.stages.near import NearSearch, SignJob
from gristmill.stages.relation import UNITS_A_SOURCE, Drops, Relation, batches_of, dropped_table
from gristmill.stages.shards import PlanJob, ShardJob, advice
from gristmill.stages.split import Held, SplitJob, ValSplit, stands
from gristmill.stages.tokens import Encoding, TokensJob, encoded_schema, load_ahead, pickled
from gristmill.stages.work import Done, Job, Query, Workshop, relation_of
from gristmill.store.folder import Making
from gristmill.store.manifest import SPLITS, FunnelRow, ShardEntry
from gristmill.store.writer import shard_name
from gristmill.tokenize.tokenizer import Tokenizer


@dataclass(frozen=True)
class UnitRows:
    """A unit on its way: the rows of its documents as the last pass left them, and those of what has left it so far.

    They hold texts until the pass that tokenises, and from then on where a document's tokens lie.
    """

    number: int
    source: SourceOptions
    size: int
    rows: Address = Path()
    fingerprint: str = ""
    dropped: tuple[Address, ...] = ()

    def place(self, folder: Address) -> dict[str, Any]:
        """What every job on its texts is given."""
        return {"texts": self.rows, "upstream": self.fingerprint, "number": self.number, "folder": folder,
                "size": self.size}  # fmt: skip

    def moved(self, job: Job, done: Done) -> UnitRows:
        """The unit after a pass that wrote its rows anew."""
        rows, gone = (job.marker.with_suffix(suffix) for suffix in (".parquet", ".dropped.parquet"))
        return replace(self, rows=rows, fingerprint=done.fingerprint, dropped=(*self.dropped, gone))


@dataclass
class Pipeline:
    """One run of a recipe in a work folder."""

    recipe: Recipe
    engine: Engine
    folder: Address
    progress: Progress
    save_index: str | None = None
    funnel: Tally = field(init=False)
    units: list[UnitRows] = field(default_factory=list)
    drops: list[Drops] = field(default_factory=list)
    applied: list[Drops] = field(default_factory=list)
    split: ValSplit | None = None
    curated: Relation = field(default_factory=lambda: Relation((), ""))

    def __post_init__(self) -> None:
        self.work = Workshop(self.engine, self.folder, self.progress)
        self.funnel = Tally([source.name for source in self.recipe.sources])
        self.curation = curation_of(self.recipe, self.folder, self.progress)

    @property
    def recipe_content(self) -> dict[str, object]:
        """The recipe for the manifest, with the evaluations by name and checksum."""
        found = self.recipe.decontaminate
        return {**self.recipe.content, "decontaminate": Evaluations.of(found).content if found else None}

    # narrow

    def curate(self, units: Sequence[Unit]) -> None:
        """Read, clean and judge every unit."""
        numbers = _numbers(units, [source.name for source in self.recipe.sources])
        sources = {source.name: source for source in self.recipe.sources}
        jobs = [
            CurateJob(unit=unit, inputs=inputs_fingerprint(unit), format=(source := sources[unit.source]).layout,
                      on_error=self.recipe.on_error, fields=self.recipe.fields, keep_key=self._keep_key(source),
                      curation=self.curation, number=number, folder=self.folder / "curate", size=unit.size)
            for unit, number in zip(units, numbers, strict=True)
        ]  # fmt: skip
        done = self.work.complete(jobs, "reading and filtering")
        self.units = [
            UnitRows(job.number, sources[job.unit.source], job.size).moved(job, result)
            for job, result in zip(jobs, done, strict=True)
        ]
        self.curated = self._documents()
        self._count(done)

    def _keep_key(self, source: SourceOptions) -> int:
        """What orders exact duplicates before their place does: the higher priority first, if a rule asks for it."""
        by_priority = any(isinstance(rule, Exact) and rule.keep == "priority" for rule in self.recipe.dedup)
        return -source.priority if by_priority else 0

    def _count(self, done: Sequence[Done]) -> None:
        for unit, result in zip(self.units, done, strict=True):
            self.funnel.add(unit.source.name, result.facts)

    # wide

    def check_ids(self) -> None:
        """Two documents with one id: an error, or, where errors are skipped, the first one stays."""
        repeated = self.work.ask(Query("id", REPEATED_IDS, {"documents": [self._documents()]}), "checking ids")
        if self.recipe.on_error == "raise":
            _refuse_repeated_id(repeated)
        self._drop(Drops("id", "duplicate_id", repeated))

    def dedup(self, tokenizer: Tokenizer) -> None:
        """Run the recipe's dedup rules in its order; workers load the tokenizer where only queries are left to do."""
        for rule in self.recipe.dedup:
            match rule:
                case Exact():
                    tables = {"documents": [self._documents()], **dropped_table(self._gone())}
                    query = Query("exact", equal_documents(bool(self._gone())), tables)
                    self._drop(Drops(rule.name, "duplicate", self.work.ask(query, "finding equal documents")))
                case Lines():
                    self._lines(rule)
                case Near():
                    self._near(rule, tokenizer)

    def _drop(self, drops: Drops) -> None:
        self.drops.append(drops)
        count(self.progress, -drops.table.rows)

    def _near(self, rule: Near, tokenizer: Tokenizer) -> None:
        priorities = {source.name: source.priority for source in self.recipe.sources}
        gone = tuple(self._gone())
        jobs = [SignJob(dropped=gone, near=rule, priorities=priorities, **unit.place(self.folder / "sign"))
                for unit in self.units]  # fmt: skip
        signed = self.work.complete(jobs, "signing for near duplicates")
        if not is_elsewhere(self.engine):  # 2 MB for each worker of a cluster, few of which may need it
            self.engine.start(partial(load_ahead, pickled(tokenizer)))
        search = NearSearch(self.work, rule, jobs, signed, gone)
        self._drop(Drops(Near.name, "near_duplicate", search.evidence()))
        for alarm in search.alarms():
            self.progress.note(alarm)
        if self.save_index:
            save_index(search, self._gone(), address_of(self.save_index))

    def _lines(self, rule: Lines) -> None:
        """Drop lines that the corpus has seen; this writes the texts anew, and applies the drops so far."""
        jobs = [LinesJob(lines=rule, **unit.place(self.folder / "lines")) for unit in self.units]
        hashed = relation_of(jobs, self.work.complete(jobs, "hashing lines"))
        repeated = tuple(find_repeated(self.work, hashed, self._gone()))
        trims = [TrimJob(drops=tuple(self.drops), repeated=repeated, lines=rule, bit=len(self.curation.steps),
                         fields=self.recipe.fields, **unit.place(self.folder / "trim"))
                 for unit in self.units]  # fmt: skip
        self._move(trims, "removing repeated lines")
        self.applied, self.drops = [*self.applied, *self.drops], []

    def _move(self, jobs: Sequence[Job], what: str) -> None:
        """A pass that writes the rows of all units anew."""
        done = self.work.complete(jobs, what)
        self._count(done)
        self.units = [unit.moved(job, result) for unit, job, result in zip(self.units, jobs, done, strict=True)]

    def _documents(self) -> Relation:
        """What the last pass over all units wrote."""
        return Relation(tuple(unit.rows for unit in self.units), fingerprint([unit.fingerprint for unit in self.units]))

    def _gone(self) -> list[Relation]:
        return [drops.table for drops in self.drops]

    # tokens and shards

    def tokenize(self, tokenizer: Tokenizer) -> None:
        """Token ids of what is left."""
        recipe = self.recipe
        encoding = Encoding(pickled(tokenizer), tokenizer.fingerprint, recipe.store.val_fraction, recipe.seed,
                            (*self.curation.steps, Lines.name))  # fmt: skip
        jobs = [TokensJob(dropped=unit.dropped, drops=tuple(self.drops), fields=recipe.fields, encoding=encoding,
                          **unit.place(self.folder / "tokens")) for unit in self.units]  # fmt: skip
        self._move(jobs, "tokenising")

    def write(self, making: Making, tokenizer: Tokenizer) -> dict[str, list[ShardEntry]]:
        """The shards of both splits."""
        root, store = making.folder.root, self.recipe.store
        layout = self._divide(self._layout(), tokenizer)
        plan = PlanJob(layout=layout, tokens_per_shard=store.tokens_per_shard, folder=self.folder / "plan")
        (planned,) = self.work.complete([plan], "planning shards")
        folders = (self.folder / "tokens", root / WORK / "shards")
        kind = (self.recipe.fields, tokenizer.dtype.name, tokenizer.eos, store.compression)
        jobs = [ShardJob(root, shard_name(split, number, store.compression), split, number, ranges, layout.fingerprint,
                         *kind, *folders) for split, number, ranges in plan.planned(planned.facts)]  # fmt: skip
        if note := advice(len(jobs), store.tokens_per_shard, tokenizer.dtype.itemsize):
            self.progress.note(note)
        making.will_write(job.name for job in jobs)
        done = self.work.complete(jobs, "writing shards", "shards")
        entries: dict[str, list[ShardEntry]] = {split: [] for split in SPLITS}
        for job, result in zip(jobs, done, strict=True):
            entries[job.split].append(ShardEntry(**result.facts["entry"]))
            making.sums.update(result.facts["sums"])
        return entries

    def write_account(self, making: Making, keep_texts: bool) -> None:
        """`funnel.json`, `dropped.parquet` with a row for each document that is not in the store, and the evidence."""
        drops = {rule.rule: [rule.table] for rule in (*self.applied, *self.drops) if rule.table.rows}
        query = Query("evidence", named_duplicates(list(drops)), {"documents": [self.curated], **drops})
        evidence = self.work.ask(query, "naming duplicates") if drops else None
        units = tuple((unit.number, unit.dropped) for unit in self.units)
        root = making.folder.root
        folder = root / WORK / "account"
        done = self.work.complete([
            EvidenceJob(root=root, evidence=evidence, folder=folder),
            DroppedJob(root=root, evidence=evidence, units=units, upstream=self._documents().fingerprint,
                       texts=keep_texts, folder=folder),
        ], "writing the account")  # fmt: skip
        for result in done:
            making.sums.update(result.facts["sums"])
        place_at(root / FUNNEL).write(json.dumps(self.funnel.rows(), indent=1) + "\n")

    def _layout(self) -> Relation:
        """The table whose rows are the documents of the store in order."""
        mix, sources = self.recipe.mix, [source.name for source in self.recipe.sources]
        if not (mix or self.recipe.shuffle):
            return self._documents()
        sql = SHUFFLED
        if mix:
            parts = [(sources.index(share.source), share) for share in self.shares()]
            columns = encoded_schema(len(self.recipe.fields)).names
            sql = mixed(parts, mix.unit, self.recipe.shuffle, self.recipe.seed, columns)
        return self.work.ask(Query("layout", sql, {"documents": [self._documents()]}), "ordering documents")

    def _divide(self, layout: Relation, tokenizer: Tokenizer) -> Relation:
        """The same documents; where hashes cannot give val its share of them, with other splits, one cut in two.

        The funnel is told what each split has of a source, and what a mix took of it, before one was cut in two.
        """
        held, mix = Held(self.recipe.store.val_fraction, self.recipe.seed), self.recipe.mix
        counts = self._counts(layout, 0) if mix else []
        tokens = {split: sum(row["tokens"] for row in counts if row["split"] == split) if mix
                  else self.funnel.tokens(split) for split in SPLITS}  # fmt: skip
        divided = layout
        if held.fraction and not stands(tokens["train"], tokens["val"], held):
            job = SplitJob(layout=layout, tokens=self.folder / "tokens", held=held, fields=len(self.recipe.fields),
                           tokenizer=pickled(tokenizer), tokenizer_fingerprint=tokenizer.fingerprint,
                           folder=self.folder / "split")  # fmt: skip
            (done,) = self.work.complete([job], "taking val from few documents")
            self.split, divided = ValSplit.of(done.facts), relation_of([job], [done])
        if mix or self.split:
            parts = [_share_facts(share, counts) for share in self.shares()] if mix else []
            self.funnel.end(parts, self._counts(divided, 1))
        return divided

    def _counts(self, layout: Relation, number: int) -> list[SplitCounts]:
        """Documents, bytes and tokens of each source and split."""
        counted = self.work.ask(Query("counts", COUNTS, {"layout": [layout]}, number))
        return [row for batch in batches_of(counted.files) for row in batch.to_pylist()]

    def shares(self) -> list[Share]:
        """What the recipe's mix takes of each source."""
        mix = self.recipe.mix
        assert mix is not None
        return shares(mix, {source.name: self.funnel.left(source.name, mix.unit) for source in self.recipe.sources})


def _share_facts(share: Share, ends: Sequence[SplitCounts]) -> FunnelRow:
    """What a mix took of a source."""
    documents, size, tokens = (sum(row[unit] for row in ends if row["source"] == share.source)
                               for unit in UNITS)  # fmt: skip
    return {"stage": "mix", "source": share.source, "documents": documents, "bytes": size, "tokens": tokens,
            "times": share.times}  # fmt: skip


def _refuse_repeated_id(repeated: Relation) -> None:
    """Name the first id that two documents have, and where they are."""
    for row in (row for batch in batches_of(repeated.files) for row in batch.slice(0, 1).to_pylist()):
        raise SourceError(
            f"The id {row['id']!r} is in {row['first_path']} ({row['first_row']:,}) and again in {row['path']} "
            f"({row['row']:,}).",
            'Give each document its own id, or say on_error="skip" to keep the first.',
            arguments="on_error",
        )


def _numbers(units: Sequence[Unit], sources: Sequence[str]) -> list[int]:
    """A number each unit: its source's ordinal and its place there."""
    seen = dict.fromkeys(sources, 0)
    numbers = []
    for unit in units:
        numbers.append(sources.index(unit.source) * UNITS_A_SOURCE + seen[unit.source])
        seen[unit.source] += 1
        if seen[unit.source] > UNITS_A_SOURCE:
            raise SourceError(f"Source {unit.source!r} has more than {UNITS_A_SOURCE:,} units: split it in two.")
    return numbers
