"""WebDataset: documents as text with what is known of them beside it, or sequences of tokens as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import IO

from gristmill.store.export_job import ExportJob
from gristmill.store.reader import Store
from gristmill.store.samples_out import check_samples, left_out
from gristmill.store.shard_writer import KEY, Sample, Shards

# Bytes of a tar: many of them let many rows and workers read side by side.
_SIZE = 1 << 28


def check_webdataset(job: ExportJob) -> None:
    check_samples(job)
    if not job.seq_len:
        for store in job.splits.values():
            _ = store.tokenizer  # documents become text, which needs it: better said now


def write_webdataset(job: ExportJob) -> None:
    for split, store in job.splits.items():
        with Shards(_opener(job, split), store.num_tokens, _SIZE) as shards:
            for sample, tokens in _sequences(store, job.seq_len) if job.seq_len else _documents(store):
                shards.write(sample)
                job.progress.advance(tokens * store.dtype.itemsize)
        if job.seq_len:
            job.progress.advance(store.num_tokens % job.seq_len * store.dtype.itemsize)


def _opener(job: ExportJob, split: str) -> Callable[[int], AbstractContextManager[IO[bytes]]]:
    return lambda number: job.out.write(_name(split, number))


def _name(split: str, number: int) -> str:
    return f"{split}-{number:06d}.tar"


def _documents(store: Store) -> Iterator[tuple[Sample, int]]:
    """A sample a document, and its tokens."""
    for number, document in enumerate(store):
        known = {name: value for name, value in document.record.items() if isinstance(value, str)}
        yield {KEY: f"{number:010d}", "txt": document.text, "json": known}, len(document.tokens)


def _sequences(store: Store, seq_len: int) -> Iterator[tuple[Sample, int]]:
    for number, start in enumerate(range(0, store.num_tokens - seq_len + 1, seq_len)):
        yield {KEY: f"{number:010d}", "npy": store.tokens(start, start + seq_len)}, seq_len


def webdataset_notes(job: ExportJob) -> list[str]:
    what = (
        f"`.npy`, {job.seq_len:,} tokens of {job.manifest.dtype}, EOS ({job.manifest.eos}) after each document"
        if job.seq_len
        else "`.txt`, the text of a document as the tokenizer decodes it, and `.json`, its id, source and fields"
    )
    names = [f"{job.out.folder}/{_pattern(job, split)}" for split in job.splits]
    return [
        *(f"webdataset.WebDataset({name!r}, shardshuffle=False).decode()" for name in names),
        f"Samples have {what}.",
        *left_out(job),
    ]


def _pattern(job: ExportJob, split: str) -> str:
    """The tars of a split as the webdataset package names many."""
    last = sum(name.startswith(f"{split}-") for name in job.out.copied) - 1
    return f"{split}-{{000000..{last:06d}}}.tar" if last else _name(split, 0)
