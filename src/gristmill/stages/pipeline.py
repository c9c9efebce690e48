"""From units to a manifest: which jobs and queries a recipe asks for, in which order, and what each stands on."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill.core.errors import SourceError
from gristmill.core.hashing import fingerprint
from gristmill.core.progress import Progress
from gristmill.curate.dedup.duplicates import near_duplicates
from gristmill.curate.dedup.exact import Exact, exact_duplicates
from gristmill.curate.dedup.index import INDEX, save_index
from gristmill.curate.dedup.lines import Lines, repeated_lines
from gristmill.curate.dedup.near import Near
from gristmill.curate.dedup.units import NearUnit
from gristmill.engine.base import Engine
from gristmill.places.door import place_at
from gristmill.recipe import Recipe, SourceOptions, dedup_content
from gristmill.sources.units import Unit
from gristmill.stages.account import DROPPED, EVIDENCE, FUNNEL, Funnel, write_dropped, write_evidence
from gristmill.stages.curate import CurateJob, inputs_fingerprint
from gristmill.stages.drops import Drops
from gristmill.stages.evaluations import Evaluations, curation_of
from gristmill.stages.lines import LinesJob, TrimJob
from gristmill.stages.order import MixOrder, Share, mixed, shares, shuffled
from gristmill.stages.shards import ShardJob, plan_shards
from gristmill.stages.sign import SignJob
from gristmill.stages.split import Held, ValSplit, stands, take_val, write_split
from gristmill.stages.tokens import Encoding, TokensJob, encoded_schema
from gristmill.stages.work import SAVED_INDEX, UNITS_A_SOURCE, WORK, Done, Job, complete, fresh_folder, read_marker
from gristmill.store.manifest import SPLITS, FunnelRow, ShardEntry

# How wide steps are called while they run; what a query has done of its work cannot be known.
_SAID = {"id": "checking ids", "exact": "finding equal documents", "near": "finding near duplicates",
         "evidence": "naming duplicates", "layout": "ordering documents", "split": "taking val from few documents",
         SAVED_INDEX: "saving the index"}  # fmt: skip

# What the tables of wide rules tell beside the document that stays.
_OWN_COLUMNS = {Near.name: "kept_id, similarity"}
_NO_COLUMNS = "CAST(NULL AS VARCHAR(1)) AS kept_id, CAST(NULL AS DOUBLE) AS similarity"

if TYPE_CHECKING:
    from gristmill.store.folder import Making
    from gristmill.tokenize.tokenizer import Tokenizer


@dataclass(frozen=True)
class Piece:
    """A unit on its way: where its texts are now, what they stand on, and what has left it so far."""

    number: int
    source: SourceOptions
    size: int
    texts: Path = Path()
    fingerprint: str = ""
    dropped: tuple[Path, ...] = ()

    def place(self, folder: Path) -> dict[str, Any]:
        """What every job on its texts is given."""
        return {"texts": self.texts, "upstream": self.fingerprint, "number": self.number, "folder": folder,
                "size": self.size}  # fmt: skip

    def moved(self, job: Job, done: Done) -> Piece:
        """The unit after a pass that wrote its texts anew."""
        texts, gone = job.marker.with_suffix(".parquet"), job.marker.with_suffix(".dropped.parquet")
        return replace(self, texts=texts, fingerprint=done.fingerprint, dropped=(*self.dropped, gone))


@dataclass
class Pipeline:
    """One run of a recipe in a work folder."""

    recipe: Recipe
    engine: Engine
    work: Path
    progress: Progress
    save_index: str | None = None
    funnel: Funnel = field(init=False)
    pieces: list[Piece] = field(default_factory=list)
    drops: list[Drops] = field(default_factory=list)
    applied: list[Drops] = field(default_factory=list)
    split: ValSplit | None = None
    curated: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.funnel = Funnel([source.name for source in self.recipe.sources])
        self.curation = curation_of(self.recipe, self.work, self.progress)

    @property
    def recipe_content(self) -> dict[str, Any]:
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
                      curation=self.curation, number=number, folder=self.work / "curate", size=unit.size)
            for unit, number in zip(units, numbers, strict=True)
        ]  # fmt: skip
        done = complete(self.engine, jobs, self.progress, "reading and filtering")
        self.pieces = [
            Piece(job.number, sources[job.unit.source], job.size).moved(job, result)
            for job, result in zip(jobs, done, strict=True)
        ]
        self.curated = self._texts()
        self._count(done)

    def _keep_key(self, source: SourceOptions) -> int:
        """What orders exact duplicates before their place does: the higher priority first, if a rule asks for it."""
        by_priority = any(isinstance(rule, Exact) and rule.keep == "priority" for rule in self.recipe.dedup)
        return -source.priority if by_priority else 0

    def _count(self, done: Sequence[Done]) -> None:
        for piece, result in zip(self.pieces, done, strict=True):
            self.funnel.add(piece.source.name, result.facts)

    # wide

    def check_ids(self) -> None:
        """Two documents with one id: an error, or, where errors are skipped, the first one stays."""
        sql = """
            SELECT later.doc, first.doc AS kept, later.id, first.path AS first_path, first.row AS first_row, later.path,
                later.row
            FROM documents AS later
            JOIN (
                SELECT id_hash, id, MIN(doc) AS doc FROM documents
                WHERE id_hash IN (SELECT id_hash FROM documents GROUP BY id_hash HAVING COUNT(*) > 1)
                GROUP BY id_hash, id HAVING COUNT(*) > 1
            ) AS shared ON later.id_hash = shared.id_hash AND later.id = shared.id
            JOIN documents AS first ON first.doc = shared.doc
            WHERE later.doc <> first.doc ORDER BY later.doc"""
        self._drop("id", "duplicate_id", [], lambda out: self.engine.query(sql, {"documents": self._texts()}, out))
        if self.recipe.on_error == "raise":
            _refuse_repeated_id(self.drops[-1].path)

    def dedup(self) -> None:
        """Run the recipe's dedup rules in its order."""
        for rule in self.recipe.dedup:
            match rule:
                case Exact():
                    self._exact()
                case Lines():
                    self._lines(rule)
                case Near():
                    self._near(rule)

    def _exact(self) -> None:
        self._drop(Exact.name, "duplicate", [], lambda out: exact_duplicates(
            self.engine, self._texts(), self._gone(), out))  # fmt: skip

    def _near(self, rule: Near) -> None:
        priorities = {source.name: source.priority for source in self.recipe.sources}
        jobs = [SignJob(drops=tuple(self.drops), near=rule, priorities=priorities, **piece.place(self.work / "sign"))
                for piece in self.pieces]  # fmt: skip
        signed = complete(self.engine, jobs, self.progress, "signing for near duplicates")
        units = [NearUnit(job.number, job.marker.with_suffix(".parquet"), job.texts) for job in jobs]
        gone = self._gone()

        def find(out: Path) -> None:
            result = near_duplicates(self.engine, units, rule, gone, out.parent / "steps", self.progress)
            place_at(out.with_suffix(".alarms")).write(json.dumps(list(result.alarms)))
            shutil.copyfile(result.evidence, out)

        self._drop(Near.name, "near_duplicate", [dedup_content(rule), [done.fingerprint for done in signed]], find)
        for alarm in json.loads(self.drops[-1].path.with_suffix(".alarms").read_text()):
            self.progress.note(alarm)
        if self.save_index:
            self._save_index(units, rule, Path(self.save_index))

    def _save_index(self, units: Sequence[NearUnit], rule: Near, folder: Path) -> None:
        """Keep the signatures and shingles of what is left, for later runs to compare with."""
        gone = self._gone()
        self._wide(SAVED_INDEX, [self.drops[-1].fingerprint, str(folder)],
                   lambda _: save_index(self.engine, units, rule, gone, folder, self.work / SAVED_INDEX),
                   folder / INDEX)  # fmt: skip

    def _lines(self, rule: Lines) -> None:
        """Drop lines that the corpus has seen; this writes the texts anew, and applies the drops so far."""
        jobs = [LinesJob(lines=rule, **piece.place(self.work / "lines")) for piece in self.pieces]
        hashed = complete(self.engine, jobs, self.progress, "hashing lines")
        tables, gone, folder = [job.outputs[0] for job in jobs], self._gone(), self.work / "repeated-lines"
        stands_on = fingerprint([[done.fingerprint for done in hashed], [drops.fingerprint for drops in self.drops]])
        fresh_folder(folder, stands_on)
        repeated = repeated_lines(self.engine, tables, gone, folder, self.progress)
        trims = [TrimJob(drops=tuple(self.drops), repeated=tuple(repeated), repeated_fingerprint=stands_on, lines=rule,
                         bit=len(self.curation.steps), fields=self.recipe.fields, **piece.place(self.work / "trim"))
                 for piece in self.pieces]  # fmt: skip
        self._move(trims, "removing repeated lines")
        self.applied, self.drops = [*self.applied, *self.drops], []

    def _move(self, jobs: Sequence[Job], what: str) -> None:
        """A pass that writes the texts of all units anew."""
        done = complete(self.engine, jobs, self.progress, what)
        self._count(done)
        self.pieces = [piece.moved(job, result) for piece, job, result in zip(self.pieces, jobs, done, strict=True)]

    def _drop(self, rule: str, reason: str, depends: Any, find: Callable[[Path], None]) -> None:
        """Add what a wide rule drops to what the next pass over the texts applies."""
        stands_on = [depends, [piece.fingerprint for piece in self.pieces], [drops.fingerprint for drops in self.drops]]
        path, name = self._wide(rule, stands_on, find)
        self.drops.append(Drops(rule, reason, path, name))

    def _wide(self, name: str, depends: Any, make: Callable[[Path], None], out: Path | None = None) -> tuple[Path, str]:
        """The file of a wide step, a Parquet file unless `out` is given, and its fingerprint.

        It is made anew only if it is gone, or if what it stands on has changed.
        """
        folder, marker = self.work / name, self.work / f"{name}.json"
        expected = fingerprint([name, depends])
        out = out or folder / f"{name}.parquet"
        if read_marker(marker, expected) is None or not out.exists():
            marker.unlink(missing_ok=True)  # or a run that is cut here would leave it to vouch for another's file
            fresh_folder(folder, expected)
            self.progress.start(_SAID.get(name, name), 0)
            make(out)
            place_at(marker).write(f'{{"fingerprint": "{expected}", "facts": {{}}}}\n')
        return out, expected

    def _texts(self) -> list[Path]:
        return [piece.texts for piece in self.pieces]

    def _gone(self) -> list[Path]:
        return [drops.path for drops in self.drops]

    # tokens and shards

    def tokenize(self, tokenizer: Tokenizer) -> None:
        """Token ids of what is left."""
        recipe = self.recipe
        encoding = Encoding(pickle.dumps(tokenizer), tokenizer.fingerprint, recipe.store.val_fraction, recipe.seed,
                            (*self.curation.steps, Lines.name))  # fmt: skip
        jobs = [TokensJob(dropped=piece.dropped, drops=tuple(self.drops), fields=recipe.fields, encoding=encoding,
                          **piece.place(self.work / "tokens")) for piece in self.pieces]  # fmt: skip
        self._move(jobs, "tokenising")

    def write(self, making: Making, tokenizer: Tokenizer) -> dict[str, list[ShardEntry]]:
        """The shards of both splits."""
        root = making.folder.root
        layout, upstream = self._layout()
        files, upstream = self._divide(layout, upstream, tokenizer)
        if self.recipe.mix or self.split:
            self._count_ends(layout, files)
        planned = plan_shards(files, self.recipe.store.tokens_per_shard)
        folders = (self.work / "tokens", root / WORK / "shards")
        kind = (tokenizer.dtype.name, tokenizer.eos, self.recipe.store.compression)
        jobs = [ShardJob(root, split, number, tuple(ranges), upstream, *kind, *folders)
                for split, number, ranges in planned]  # fmt: skip
        making.will_write(job.name for job in jobs)
        done = complete(self.engine, jobs, self.progress, "writing shards", "shards")
        entries: dict[str, list[ShardEntry]] = {split: [] for split in SPLITS}
        for job, result in zip(jobs, done, strict=True):
            entries[job.split].append(ShardEntry(**result.facts))
        return entries

    def write_account(self, root: Path, keep_texts: bool) -> None:
        """`funnel.json`, `dropped.parquet` with a row for each document that is not in the store, and the evidence."""
        drops = [rule for rule in (*self.applied, *self.drops) if rule.count]
        evidence = self._evidence(drops) if drops else None
        write_evidence(root / EVIDENCE, evidence)
        write_dropped(root / DROPPED, [(piece.number, piece.dropped) for piece in self.pieces], evidence, keep_texts)
        place_at(root / FUNNEL).write(json.dumps(self.funnel.rows(), indent=1) + "\n")

    def _evidence(self, drops: Sequence[Drops]) -> Path:
        """For each document that a wide rule dropped, the one that stayed, here or in an index, and how near it is."""
        parts = [f"SELECT doc, kept, '{rule.rule}' AS rule, {_OWN_COLUMNS.get(rule.rule, _NO_COLUMNS)} FROM {rule.rule}"
                 for rule in drops]  # fmt: skip
        sql = f"""SELECT drops.doc, gone.id, COALESCE(drops.kept_id, kept.id) AS kept_id, drops.similarity, drops.rule
                  FROM ({" UNION ALL ".join(parts)}) AS drops JOIN documents AS gone ON drops.doc = gone.doc
                  LEFT JOIN documents AS kept ON drops.kept = kept.doc ORDER BY drops.doc"""
        tables = {"documents": self.curated, **{rule.rule: [rule.path] for rule in drops}}
        path, _ = self._wide("evidence", [rule.fingerprint for rule in drops],
                             lambda out: self.engine.query(sql, tables, out))  # fmt: skip
        return path

    def _layout(self) -> tuple[list[Path], str]:
        """The files whose rows, one after the other, are the documents of the store in order."""
        stands_on = [piece.fingerprint for piece in self.pieces]
        if not (self.recipe.mix or self.recipe.shuffle):
            return self._texts(), fingerprint(stands_on)
        depends = [stands_on, self.recipe.content["mix"], self.recipe.shuffle, self.recipe.seed]
        path, name = self._wide("layout", depends, self._mix if self.recipe.mix else self._shuffle)
        return [path], name

    def _divide(self, files: list[Path], upstream: str, tokenizer: Tokenizer) -> tuple[list[Path], str]:
        """The same documents; where hashes cannot give val its share of them, with other splits, one cut in two."""
        held, fields = Held(self.recipe.store.val_fraction, self.recipe.seed), self.recipe.fields
        if not held.fraction or stands(files, held):
            return files, upstream
        split = self.split = take_val(files, self.work / "tokens", held, tokenizer)
        path, name = self._wide("split", [upstream, split.bound, split.content],
                                lambda out: write_split(files, split, held, fields, out))  # fmt: skip
        return [path], name

    def _shuffle(self, out: Path) -> None:
        shuffled(self.engine, self._texts(), out)

    def _mix(self, out: Path) -> None:
        mix = self.recipe.mix
        assert mix is not None
        order = MixOrder(mix.unit, self.recipe.shuffle, self.recipe.seed, encoded_schema(self.recipe.fields).names)
        mixed(self.engine, self._texts(), self.shares(), order, out)

    def _count_ends(self, layout: Sequence[Path], divided: Sequence[Path]) -> None:
        """Tell the funnel what each split has of a source, and what a mix took of it, before one was cut in two."""
        taken = self._counts(layout) if self.recipe.mix else []
        parts = [_share_facts(share, taken) for share in self.shares()] if self.recipe.mix else []
        self.funnel.end(parts, self._counts(divided))

    def _counts(self, layout: Sequence[Path]) -> list[dict[str, Any]]:
        """Documents, bytes and tokens of each source and split."""
        import pyarrow.parquet as pq

        sql = """SELECT source, CASE WHEN val THEN 'val' ELSE 'train' END AS split, COUNT(*) AS documents,
                 CAST(SUM(bytes) AS BIGINT) AS bytes, CAST(SUM(length) AS BIGINT) AS tokens
                 FROM layout GROUP BY source, val ORDER BY source, val"""
        out = self.work / "split-counts.parquet"
        self.engine.query(sql, {"layout": layout}, out)
        rows: list[dict[str, Any]] = pq.read_table(out).to_pylist()
        return rows

    def shares(self) -> list[Share]:
        """What the recipe's mix takes of each source."""
        mix = self.recipe.mix
        assert mix is not None
        return shares(mix, {source.name: self.funnel.left(source.name, mix.unit) for source in self.recipe.sources})


def _share_facts(share: Share, ends: Sequence[dict[str, Any]]) -> FunnelRow:
    """What a mix took of a source."""
    documents, size, tokens = (sum(row[unit] for row in ends if row["source"] == share.source)
                               for unit in ("documents", "bytes", "tokens"))  # fmt: skip
    return {"stage": "mix", "source": share.source, "documents": documents, "bytes": size, "tokens": tokens,
            "times": share.times}  # fmt: skip


def _refuse_repeated_id(path: Path) -> None:
    """Name the first id that two documents have, and where they are."""
    import pyarrow.parquet as pq

    for row in pq.read_table(path).slice(0, 1).to_pylist():
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
