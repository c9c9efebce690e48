"""Two streams and a store in one mix, filtered, mapped, packed, with fill-in-the-middle; a trainer that may be killed.

python mixed_trainer.py FOLDER WORLD WORKERS: goes on from FOLDER/state.json, and writes a line a step to FOLDER/log.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from torchdata.stateful_dataloader import StatefulDataLoader

import gristmill as gm
from gristmill.adapters.streams import StreamDataset, stream_state_from_snapshot

LANES, STEPS = 12, 40
KEYS = ("labels", "doc_ids", "position_ids", "cu_seqlens")


def write_inputs(folder: Path) -> None:
    """Files for two streams, and a store with its index."""
    for name, count in (("web", 3), ("code", 2), ("books", 1)):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            rows = ({"id": f"{i}-{j}", "text": f"{name} {i}-{j}. " * (1 + (7 * j + i) % 13)} for j in range(30))
            (folder / name / f"{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"name": "books", "paths": [str(folder / "books")]}
    gm.prepare({"out": str(folder / "store"), "sources": [source], "tokenizer": "byte", "dedup": [],
                "store": {"val_fraction": 0.0}}, progress=False)  # fmt: skip
    gm.index(str(folder / "store" / "train"), seq_len=48, progress=False)


def shout(document: dict[str, Any]) -> str | None:
    return None if document["id"].endswith("7") else str(document["text"]).upper()


def mixed(folder: Path) -> Any:
    """What is trained on."""
    web = gm.stream(str(folder / "web")).filter("length", min_chars=20).map(shout).tokenize("byte")
    code = gm.stream(str(folder / "code")).filter(lambda row: "0-3" not in row["id"]).tokenize("byte")
    code = code.augment(gm.FIM(rate=0.5, prefix=257, middle=258, suffix=259))
    sources = {"web": web.pack(48), "code": code.pack(48), "kept": gm.open(folder / "store" / "train")}
    return gm.mix(sources, {"web": 0.5, "code": 0.2, "kept": 0.3}).batch(LANES, seed=11)


class Run:
    """All ranks of a run in one process, each with so many worker processes, from a state on."""

    def __init__(self, stream: Any, state: Any, world: int, workers: int) -> None:
        self._world, self.loaders = world, []
        for rank in range(world):
            dataset = StreamDataset(stream, rank, world, keys=KEYS, threads=1)
            if state is not None:
                dataset.resume(state)
            self.loaders.append(StatefulDataLoader(dataset, batch_size=None, num_workers=workers))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The global batches."""
        for parts in zip(*self.loaders, strict=True):
            whole = {key: np.concatenate([part[key].numpy() for part in parts]) for key in parts[0]}
            for key, array in whole.items():
                for rank, part in enumerate(parts):
                    array[rank :: self._world] = part[key].numpy()
            yield whole

    def state(self) -> Any:
        return gm.merge_states([stream_state_from_snapshot(loader.state_dict()) for loader in self.loaders])


def line(step: int, batch: dict[str, Any]) -> str:
    return f"{step} {zlib.crc32(b''.join(batch[key].tobytes() for key in sorted(batch)))}\n"


def main(folder: Path, world: int, workers: int) -> None:
    kept = folder / "state.json"
    state = json.loads(kept.read_text()) if kept.exists() else None
    run, step = Run(mixed(folder), state, world, workers), state["step"] if state else 0
    for batch in run:
        step += 1
        with open(folder / "log", "a") as log:
            log.write(line(step, batch))
        (folder / "state.new").write_text(json.dumps(run.state()))
        os.replace(folder / "state.new", kept)
        if step >= STEPS:
            break


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
