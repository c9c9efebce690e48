"""What a contender is: one way to turn the corpus into shuffled int64 batches."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contenders.registry import Setting
from harness.corpus import BATCH_SIZE, SEQ_LEN, Corpus


class NoStateError(Exception):
    """This contender has no mechanism of its own to save where it stands."""


class Contender(ABC):
    """A loader, opened by its constructor, whose every batch is int64 of one shape.

    The heavy imports stand at the top of a contender's module, so that importing the module is what the
    worker times as import, and constructing the class plus one batch is what it times as first batch.
    """

    shape = (BATCH_SIZE, SEQ_LEN)
    windowed = True  # rows are windows of Corpus.windows(), so that the worker can check them

    def __init__(self, corpus: Corpus, setting: Setting) -> None:
        self.corpus = corpus
        self.setting = setting

    @classmethod  # noqa: B027 - optional: some read the corpus in place
    def prepare(cls, corpus: Corpus) -> None:
        """Write the files that this contender reads, untimed, once."""

    @abstractmethod
    def epoch(self) -> Iterator[Any]:
        """The batches of one epoch, or of what is left of it after `restore`."""

    def batches(self) -> Iterator[Any]:
        """Epoch after epoch, without end."""
        while True:
            yield from self.epoch()

    def state(self) -> Any:
        """What must be saved now to go on with the next batch later."""
        raise NoStateError

    def restore(self, state: Any) -> None:
        """Go to where `state` was saved; called before the first batch."""
        raise NoStateError


class ConvertedContender(Contender):
    """A contender that reads the corpus in a format of its own."""

    format_name: str

    @classmethod
    def prepare(cls, corpus: Corpus) -> None:
        """Convert the corpus once."""
        corpus.made(cls.format_name, lambda directory: cls.write(corpus, directory))

    @classmethod
    @abstractmethod
    def write(cls, corpus: Corpus, directory: Path) -> None:
        """Write all windows of the corpus into the directory."""

    @property
    def directory(self) -> Path:
        """Where the converted corpus is."""
        return self.corpus.root / self.format_name
