"""Local token files for Lightning: `Trainer.fit(model, LocalDataModule("train.bin", "val.bin"))`."""

from __future__ import annotations

from typing import Any

from gristmill.core.extras import extra

with extra("lightning", __name__):
    from lightning import LightningDataModule
    from torch.utils.data import DataLoader

from gristmill.adapters.local_files import Paths, ResumableDataLoader, Sample, create_dataloaders


class LocalDataModule(LightningDataModule):
    """`create_dataloaders` as a data module, with the same arguments.

    A fit goes on in the middle of a pass, with the next batch after its checkpoint.
    """

    def __init__(self, train_data_path: Paths, val_data_path: Paths, **options: Any) -> None:
        super().__init__()
        self._arguments = {"train_data_path": train_data_path, "val_data_path": val_data_path, **options}

    def setup(self, stage: str) -> None:
        """Open the files, once the process group exists from which ranks are taken."""
        self._train, self._val = create_dataloaders(**self._arguments)

    def train_dataloader(self) -> ResumableDataLoader:
        return self._train

    def val_dataloader(self) -> DataLoader[Sample]:
        return self._val

    # Lightning keeps the loader's own state too, but drops it where a schedule has asked for
    # trainer.estimated_stepping_batches (as of 2.6.6).
    def state_dict(self) -> dict[str, object]:
        """The train loader's state: under 1 KB, the same on every rank."""
        return dict(self._train.state_dict())

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Go on where the state was taken."""
        self._train.load_state_dict(state_dict)
