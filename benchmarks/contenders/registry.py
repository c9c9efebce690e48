"""Who takes part, and how each is set: plain data, so that the driver imports no contender."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """How many worker processes and reading threads a contender is told to use."""

    workers: int = 0
    threads: int = 0

    def __str__(self) -> str:
        """As the report shows it."""
        return f"{self.workers} workers, {self.threads} threads"


@dataclass(frozen=True)
class Entry:
    """A contender as the driver sees it."""

    name: str
    module: str
    distribution: str  # whose version the report names
    order: str  # how its samples are shuffled
    peer: bool = True  # runs in the environment of the peers, else in the project's own
    settings: tuple[Setting, ...] = (Setting(0), Setting(2))
    stubs: bool = False  # needs the stand-ins for packages that cannot be installed


_ALONE = (Setting(0),)
_OWN = (Setting(0), Setting(0, threads=2))  # reading in the loop itself, and Gristmill's default

YARDSTICK = "bare gather"

ENTRIES = (
    Entry(YARDSTICK, "bare_gather", "numpy", "global", peer=False, settings=_ALONE),
    Entry("nanoGPT get_batch", "nanogpt", "torch", "random offsets", settings=_ALONE),
    Entry(
        "OLMo-core",
        "olmo_core",
        "ai2-olmo-core",
        "global",
        settings=(Setting(0), Setting(0, threads=4), Setting(2)),
    ),
    Entry("datasets map-style", "datasets_map", "datasets", "global"),
    Entry("datasets iterable", "datasets_iterable", "datasets", "shards and buffer"),
    Entry(
        "grain",
        "grain_map",
        "grain",
        "global",
        settings=(Setting(0), Setting(0, threads=16), Setting(2)),
    ),
    Entry("mosaicml-streaming", "mosaic", "mosaicml-streaming", "shards and blocks", stubs=True),
    Entry("litdata", "litdata_tokens", "litdata", "chunks, then inside a chunk"),
    Entry("webdataset", "webdataset_tar", "webdataset", "shards and buffer"),
    Entry("gristmill", "gristmill_file", "gristmill", "global", peer=False, settings=_OWN),
    Entry("gristmill-64", "gristmill_64", "gristmill", "global, mixed", peer=False, settings=_OWN),
    Entry("gristmill-10k", "gristmill_10k", "gristmill", "global", peer=False, settings=_OWN),
    Entry("gristmill-pack", "gristmill_pack", "gristmill", "global, packed", peer=False, settings=_OWN),
)
