"""What packing near neighbours costs in padding, and what it saves from a bucket.

    python benchmarks/pack_ranges.py [--documents 220000]      # about a minute; nothing is timed

Documents of about 900 tokens (log-normal) are packed into rows of 2,048 in ranges of several sizes. `plan.simulate()`
foretells what an epoch with `locality` fetches of each. Results go to benchmarks/results/pack_ranges.*.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import gristmill as gm
from gristmill.order.pack import RANGE_DOCUMENTS
from harness.render import table

RESULTS = Path(__file__).parent / "results"
SEQ_LEN, EOS = 2048, 50_256
RANGES = (128, 256, 512, 1024, RANGE_DOCUMENTS)
BLOCKS = ({"block": 256, "window": 64}, {"block": 1024, "window": 16})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=220_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.bin"
        _make(path, chosen.documents)
        rows = [_figures(path, together, locality) for together in RANGES for locality in BLOCKS]
    (RESULTS / "pack_ranges.json").write_text(
        json.dumps({"documents": chosen.documents, "rows": rows}, indent=1) + "\n"
    )
    (RESULTS / "pack_ranges.md").write_text(_page(chosen.documents, rows))


def _make(path: Path, documents: int) -> None:
    """Random tokens in documents whose lengths are log-normal."""
    rng = np.random.default_rng(0)
    ends = np.cumsum(np.maximum(rng.lognormal(6.3, 1.0, documents).astype(np.int64), 2))
    tokens = rng.integers(0, 50_000, ends[-1]).astype(np.uint16)
    tokens[ends - 1] = EOS
    tokens.tofile(path)


def _figures(path: Path, together: int, locality: dict[str, int]) -> dict[str, Any]:
    gm.index(gm.open(path, dtype="uint16", eos=EOS), SEQ_LEN, range_documents=together, force=True)
    store = gm.open(path, dtype="uint16", eos=EOS)
    rows = store.pack_index(SEQ_LEN).bins_in(1)
    plan = gm.Plan(store, seq_len=SEQ_LEN, batch_size=64, options={"cut": "pack", "locality": locality})
    foretold = plan.simulate()
    return {
        "range_documents": together,
        **locality,
        "padding": 1 - store.num_tokens / (rows * SEQ_LEN),
        "fetched_for_each_byte": foretold.bytes / foretold.served_bytes,
        "requests_a_step": foretold.requests / foretold.steps,
    }


def _page(documents: int, rows: list[dict[str, Any]]) -> str:
    cells = [
        [f"{row['range_documents']:,}", f"{row['block']:,} x {row['window']}", f"{row['padding']:.2%}",
         f"{row['fetched_for_each_byte']:.2f}", f"{row['requests_a_step']:.1f}"]
        for row in rows
    ]  # fmt: skip
    head = [
        "documents a range",
        "locality: block x window",
        "padding",
        "bytes fetched for each served",
        "requests a step",
    ]
    lines = "\n".join(table(head, cells))
    return (
        "# Packing near neighbours\n\n"
        f"{documents:,} documents of about 900 tokens (log-normal), packed into rows of 2,048 tokens of two bytes, "
        "64 rows a step; an epoch from a bucket without a cache on disk, as `plan.simulate()` foretells it.\n\n"
        f"{lines}\n"
    )


if __name__ == "__main__":
    main()
