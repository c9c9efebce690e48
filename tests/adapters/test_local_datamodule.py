"""Local token files under Lightning's Trainer: a fit that stopped goes on with the batches that were left."""

import lightning
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from gristmill.adapters.local_datamodule import LocalDataModule

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's advice on loggers, workers and folders


class Model(lightning.LightningModule):
    """One weight, and a list of what it was shown."""

    def __init__(self):
        super().__init__()
        self.weight, self.seen, self.validated = torch.nn.Parameter(torch.ones(())), [], 0

    def training_step(self, batch, _):
        self.seen.append(batch["input_ids"].tolist())
        return self.weight * batch["labels"].float().mean()

    def validation_step(self, batch, _):
        self.validated += len(batch["input_ids"])

    def configure_optimizers(self):
        assert self.trainer.estimated_stepping_batches  # asked for by schedules, which makes Lightning lose states
        return torch.optim.SGD(self.parameters(), 1e-6)


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for name, count in (("train", 2000), ("val", 330)):
        np.save(tmp_path / f"{name}.npy", rng.integers(0, 50_257, count).astype("uint16"))
    return tmp_path


def fit(files, max_steps, num_workers=0, resume=None):
    data = LocalDataModule(
        files / "train.npy", files / "val.npy", batch_size=4, max_length=32, num_workers=num_workers, seed=3
    )
    trainer = lightning.Trainer(
        max_steps=max_steps,
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        default_root_dir=files,
        callbacks=[ModelCheckpoint(files / "kept", every_n_train_steps=5, save_top_k=-1)],
    )
    model = Model()
    trainer.fit(model, data, ckpt_path=resume, weights_only=False if resume else None)
    return model


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_fit_goes_on_in_the_middle_of_a_pass_with_other_workers(files, num_workers):
    whole = fit(files, 35)  # 15 batches a pass
    assert whole.validated == 2 * 10
    (checkpoint,) = files.glob("kept/*step=20.ckpt")
    assert fit(files, 35, num_workers, checkpoint).seen == whole.seen[20:]
