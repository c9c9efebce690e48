"""Starting: import, first batch, resume and memory, each contender alone in fresh processes."""

import statistics
from dataclasses import dataclass, field

from contenders.registry import Entry, Setting
from harness.client import WorkerProcess
from harness.corpus import BATCHES, Corpus

# The first batch is taken before the state is asked for.
TO_THE_MIDDLE = BATCHES // 2 - 1


@dataclass
class Start:
    """What one contender needs to begin, and to go on."""

    version: str = ""
    imports: list[float] = field(default_factory=list)
    first_batches: list[float] = field(default_factory=list)
    resumes: list[float] = field(default_factory=list)
    exact: bool = True  # each resumed process served the very batch that was next
    state_bytes: int | None = None
    memory: dict[str, int] = field(default_factory=dict)

    @property
    def resume_seconds(self) -> float | None:
        """The median, or None where there is nothing to resume by."""
        return statistics.median(self.resumes) if self.resumes else None


class Starter:
    """Starts a contender again and again in one setting."""

    def __init__(self, entry: Entry, setting: Setting, corpus: Corpus) -> None:
        self.entry, self.setting, self.corpus = entry, setting, corpus
        self.state_path = corpus.root / "states" / f"{entry.module}.pickle"
        self.state_path.parent.mkdir(parents=True, exist_ok=True)
        self.start = Start()

    def measure(self, fresh: int) -> Start:
        """Take every figure, those of starting in `fresh` processes each."""
        digest = self._to_the_middle()
        for _ in range(fresh):
            self._first_batch()
            if digest:
                self._resume(digest)
        return self.start

    def _worker(self) -> WorkerProcess:
        return WorkerProcess(self.entry, self.setting, self.corpus)

    def _hello(self, worker: WorkerProcess) -> None:
        reply = worker.ask("hello", distribution=self.entry.distribution)
        self.start.version = reply["version"]
        self.start.imports.append(reply["import_seconds"])

    def _to_the_middle(self) -> str | None:
        """Serve half an epoch, look at the memory, save the state; gives the digest of the next batch."""
        with self._worker() as worker:
            worker.ask("open")
            reply = worker.ask("save", path=str(self.state_path), after=TO_THE_MIDDLE)
            self.start.memory = worker.ask("memory")
        self.start.state_bytes = reply["bytes"]
        return reply.get("digest")

    def _first_batch(self) -> None:
        with self._worker() as worker:
            self._hello(worker)
            self.start.first_batches.append(worker.ask("open")["seconds"])

    def _resume(self, digest: str) -> None:
        with self._worker() as worker:
            self._hello(worker)
            reply = worker.ask("resume", path=str(self.state_path))
            self.start.resumes.append(reply["seconds"])
            self.start.exact &= reply["digest"] == digest
