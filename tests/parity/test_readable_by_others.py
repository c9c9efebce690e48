"""What we write, opened by the systems it is for: every token that a peer keeps is compared with the store's own.

What each peer leaves out by its own rules, and not by a fault of the files:

    megatron-core IndexedDataset        nothing
    OLMo-core NumpyFSLDataset           the end of each file that fills no sequence
    OLMo-core NumpyPackedFSLDataset     fragment: nothing; truncate: each document's tokens beyond sequence_length
    OLMo-core NumpyPaddedFSLDataset     each document's tokens beyond sequence_length
    nanoGPT, np.load, llm.c's layout    nothing (their loaders drop what fills no batch, after reading)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from olmo_core.data import NumpyPaddedFSLDatasetConfig
from olmo_core.data.types import LongDocStrategy

from gristmill.store.export import ExportReport, export_store
from gristmill.store.opening import open_store

LENGTH = 32
Tokens = list[int]


class Exported:
    """A store of several shards, and its train split laid out for one peer."""

    def __init__(self, root: Path, out: Path) -> None:
        self.root, self.out = root, out
        self.store = open_store(root)
        self.eos = self.store.eos

    def to(self, peer: str) -> ExportReport:
        return export_store(self.root, peer, self.out)

    def shards(self) -> Iterator[np.ndarray[Any, Any]]:
        """The tokens of each shard by our own reader."""
        return (np.asarray(self.store.shard_tokens(i)) for i in range(self.store.num_shards))

    def documents(self) -> list[Tokens]:
        """Every document by our own reader."""
        return [self.store.document(i).tokens.tolist() for i in range(self.store.num_documents)]


# GPT-2's vocabulary gives uint16, Llama 3's uint32.
@pytest.fixture(params=[50_257, 128_256], ids=["uint16", "uint32"])
def exported(request: pytest.FixtureRequest, tmp_path: Path, make_store: Callable[..., Path]) -> Exported:
    root = make_store(tmp_path / "corpus", vocab=request.param, tokens_per_shard=700)
    found = Exported(root, tmp_path / "out")
    assert found.store.num_shards > 2
    assert any(len(document) > LENGTH for document in found.documents())
    return found


def test_megatron_reads_every_document(exported: Exported) -> None:
    exported.to("megatron")
    prefixes = sorted(str(path.with_suffix("")) for path in exported.out.glob("train-*.bin"))
    # Here, since its import takes 4 s: workers that only collect this test do without.
    from megatron.core.datasets.indexed_dataset import IndexedDataset

    datasets = [IndexedDataset(prefix) for prefix in prefixes]
    assert [tokens.tolist() for dataset in datasets for tokens in dataset[:]] == exported.documents()
    for dataset in datasets:
        assert dataset.index.dtype == (np.uint16 if exported.store.dtype.itemsize == 2 else np.int32)
        assert dataset.document_indices.tolist() == list(range(len(dataset) + 1))


@pytest.fixture
def olmo(exported: Exported, tmp_path: Path) -> dict[str, Any]:
    """The configs that the export's own note makes, run as a user would paste it, with shorter sequences."""
    names: dict[str, Any] = {}
    exec(exported.to("olmo").notes[0], names)
    for config in (names["fixed"], names["packed"]):
        config.sequence_length, config.work_dir = LENGTH, str(tmp_path / "work")
    return names


def instances(config: Any) -> list[dict[str, Any]]:
    dataset = config.build()
    dataset.prepare()
    assert [Path(path).name for path in dataset.paths] == sorted(Path(path).name for path in dataset.paths)
    return [dataset[i] for i in range(len(dataset))]


def real_tokens(instance: dict[str, Any]) -> Tokens:
    """An instance without its padding."""
    return instance["input_ids"][instance["label_mask"]].tolist()  # type: ignore[no-any-return]


def test_olmo_core_reads_each_file_in_sequences_of_fixed_length(exported: Exported, olmo: dict[str, Any]) -> None:
    # Dropped: len(shard) % LENGTH tokens at the end of each file.
    kept = [shard[: len(shard) // LENGTH * LENGTH].reshape(-1, LENGTH) for shard in exported.shards()]
    found = [instance["input_ids"].tolist() for instance in instances(olmo["fixed"])]
    assert found == np.concatenate(kept).tolist()


def pieces_of(instance: dict[str, Any]) -> list[tuple[int, ...]]:
    """The documents, or parts of them, that were packed into one instance."""
    tokens, found, at = real_tokens(instance), [], 0
    for length in instance["doc_lens"].tolist():
        if at < len(tokens):  # what follows are the lengths of padding
            found.append(tuple(tokens[at : at + length]))
        at += length
    return found


@pytest.mark.parametrize("sidecar", [True, False], ids=["sidecar", "scan"])
def test_olmo_core_packs_every_token_when_it_fragments(exported: Exported, olmo: dict[str, Any], sidecar: bool) -> None:
    # Dropped: nothing. A document is cut every LENGTH tokens.
    cut = [
        tuple(document[at : at + LENGTH]) for document in exported.documents() for at in range(0, len(document), LENGTH)
    ]
    config = olmo["packed"]
    config.generate_doc_lengths, config.use_array_if_local = True, None if not sidecar else False
    found = instances(config)
    if sidecar:
        assert Counter(piece for instance in found for piece in pieces_of(instance)) == Counter(cut)
    # A scan knows no boundary after a fragment, so that only the tokens can be compared.
    tokens = Counter(token for instance in found for token in real_tokens(instance))
    assert tokens == Counter(token for piece in cut for token in piece)


def test_olmo_core_packs_the_head_of_every_document_when_it_truncates(exported: Exported, olmo: dict[str, Any]) -> None:
    # Dropped: each document's tokens beyond LENGTH.
    config = olmo["packed"]
    config.long_doc_strategy, config.generate_doc_lengths = LongDocStrategy.truncate, True
    found = Counter(piece for instance in instances(config) for piece in pieces_of(instance))
    assert found == Counter(tuple(document[:LENGTH]) for document in exported.documents())


@pytest.mark.parametrize("by_array", ["true", "false"])
def test_olmo_core_pads_every_document(
    exported: Exported, olmo: dict[str, Any], tmp_path: Path, by_array: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Dropped: each document's tokens beyond LENGTH. Boundaries by EOS or, with this variable, by our sidecar.
    monkeypatch.setenv("OLMO_DATA_PREP_USE_ARRAY_IF_LOCAL", by_array)
    config = NumpyPaddedFSLDatasetConfig(sequence_length=LENGTH, work_dir=str(tmp_path / "padded"), **olmo["files"])
    found = instances(config)
    assert [real_tokens(instance) for instance in found] == [document[:LENGTH] for document in exported.documents()]
    assert all((instance["input_ids"][~instance["label_mask"]] == exported.eos).all() for instance in found)


def test_nanogpt_maps_one_file_a_split(exported: Exported) -> None:
    exported.to("nanogpt")
    data = np.memmap(exported.out / "train.bin", dtype=exported.store.dtype, mode="r")
    assert data.tolist() == np.concatenate(list(exported.shards())).tolist()


def test_numpy_loads_each_shard(exported: Exported) -> None:
    exported.to("npy")
    found = [np.load(path, mmap_mode="r") for path in sorted(exported.out.glob("train-*.npy"))]
    assert [array.dtype for array in found] == [exported.store.dtype] * exported.store.num_shards
    assert [array.tolist() for array in found] == [shard.tolist() for shard in exported.shards()]


def test_llm_c_finds_its_header_and_eot_before_each_document(exported: Exported) -> None:
    # As llm.c's dataloader.h and modded-nanogpt check: magic, version, and a size of exactly the header and the tokens.
    exported.to("llmc")
    magic, version = (20240520, 1) if exported.store.dtype.itemsize == 2 else (20240801, 7)
    documents: list[Tokens] = []
    for path in sorted(exported.out.glob("corpus_train_*.bin")):
        header = np.fromfile(path, "<i4", 256)
        assert header[:2].tolist() == [magic, version] and not header[3:].any()
        assert path.stat().st_size == 1024 + int(header[2]) * exported.store.dtype.itemsize
        tokens = np.fromfile(path, exported.store.dtype, offset=1024)
        starts = np.flatnonzero(tokens == exported.eos)
        assert starts[0] == 0
        documents.extend(part.tolist() for part in np.split(tokens, starts[1:]))
    assert [[*document[1:], document[0]] for document in documents] == exported.documents()
