"""What mosaicml-streaming and LitData themselves write and read; run by a Python that has them (`.venv-bench`).

benchmarks/setup_peers.sh
.venv-bench/bin/python tests/parity/sample_formats.py write tests/data/samples     the files that the tests compare
.venv-bench/bin/python tests/parity/sample_formats.py read mds DIR                 the samples of a split, as JSON
.venv-bench/bin/python tests/parity/sample_formats.py read litdata DIR BLOCK_SIZE
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "stubs"))

EOS = 50256
# The documents of tests/store/test_mds.py and test_litdata.py.
DOCUMENTS = [[*range(i, i + 3 + 37 * i % 50), EOS] for i in range(12)] + [[*range(300), EOS]]
SEQ_LEN, SIZE_LIMIT = 16, 500


def windows(length: int = SEQ_LEN) -> list[list[int]]:
    """The documents as one stream, cut; the tail is left out."""
    stream = [token for document in DOCUMENTS for token in document]
    return [stream[at : at + length] for at in range(0, len(stream) - length + 1, length)]


def write(folder: Path) -> None:
    """Folders as the libraries write them."""
    import numpy as np

    def arrays(samples: Iterable[list[int]], dtype: str = "uint16") -> list[Any]:
        return [np.array(sample, dtype) for sample in samples]

    _mds(folder / "mds-documents", {"tokens": "ndarray:uint16"}, [{"tokens": a} for a in arrays(DOCUMENTS)],
         hashes=["xxh64"])  # fmt: skip
    _mds(folder / "mds-windows", {"tokens": f"ndarray:uint16:{SEQ_LEN}"}, [{"tokens": a} for a in arrays(windows())],
         hashes=["xxh64"])  # fmt: skip
    # As llm-foundry has them: bytes of int64.
    _mds(folder / "mds-foundry", {"tokens": "bytes"}, [{"tokens": a.tobytes()} for a in arrays(windows(), "int64")],
         compression="zstd", hashes=["sha1"])  # fmt: skip
    rows = [{"id": f"row-{i}", "n": i, "input_ids": a} for i, a in enumerate(arrays(DOCUMENTS, "int32"))]
    _mds(folder / "mds-columns", {"id": "str", "n": "int", "input_ids": "ndarray"}, rows, compression="gz:9")
    _litdata(folder / "litdata-documents", arrays(DOCUMENTS))
    _litdata(folder / "litdata-windows", arrays(windows(), "int32"))
    _litdata(folder / "litdata-packed", arrays(DOCUMENTS, "int64"), compression="zstd", compression_level="chunk")


def _mds(folder: Path, columns: dict[str, str], samples: Iterable[dict[str, Any]], **options: Any) -> None:
    from streaming import MDSWriter

    shutil.rmtree(folder, ignore_errors=True)
    with MDSWriter(out=str(folder), columns=columns, size_limit=SIZE_LIMIT, **options) as writer:
        for sample in samples:
            writer.write(sample)


def _litdata(folder: Path, items: Iterable[Any], **options: Any) -> None:
    import torch
    from litdata import TokensLoader
    from litdata.streaming import Cache

    shutil.rmtree(folder, ignore_errors=True)
    cache = Cache(str(folder), chunk_bytes=SIZE_LIMIT, item_loader=TokensLoader(block_size=SEQ_LEN), **options)
    for number, item in enumerate(items):
        cache[number] = torch.from_numpy(item)
    cache.done()
    cache.merge()


def read_mds(folder: str) -> list[list[int]]:
    """Every sample, its hash checked."""
    from streaming import StreamingDataset

    path = Path(folder)
    data = StreamingDataset(local=str(path.parent), split=path.name, shuffle=False, batch_size=1, validate_hash="xxh64")
    return [data[i]["tokens"].tolist() for i in range(len(data))]


def read_litdata(folder: str, block_size: str) -> list[list[int]]:
    """Every block."""
    from litdata import StreamingDataset, TokensLoader

    with tempfile.TemporaryDirectory() as cache:
        data = StreamingDataset(folder, item_loader=TokensLoader(int(block_size)), shuffle=False, cache_dir=cache)
        return [data[i].tolist() for i in range(len(data))]


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "write":
        write(Path(arguments[0]))
    else:
        kind, *where = arguments
        print(json.dumps({"mds": read_mds, "litdata": read_litdata}[kind](*where)))
