"""The record of a run: what is written, what a killed process leaves, and what is not measured by it."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import gristmill as gm
from gristmill.figures.served import as_run
from gristmill.loader import record as recording
from gristmill.loader.record import Part, Record, parts_of
from gristmill.places.door import address_of

Plans = Callable[..., gm.Plan]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, make_store: Callable[..., Path]) -> Path:
    documents = [[i % 50 + 1] * (i % 13 + 2) for i in range(120)]
    return make_store(tmp_path_factory.mktemp("stores") / "corpus", documents) / "train"


@pytest.fixture
def plan(store: Path) -> gm.Plan:
    return gm.Plan(store, seq_len=8, batch_size=4, steps=20)


def take(loader: gm.Loader, steps: int) -> None:
    for _, _ in zip(range(steps), loader, strict=False):
        pass


def test_a_row_is_kept_for_each_step_and_the_plan_beside_them(plan: gm.Plan, tmp_path: Path) -> None:
    with gm.Loader(plan) as loader:
        loader.record(tmp_path / "served.parquet")
        list(loader)
    served = as_run(tmp_path).served()
    assert served.step.tolist() == list(range(20))
    assert served.tokens.tolist() == [32.0] * 20
    assert (served.waited >= 0).all() and (np.diff(served.at) >= 0).all() and not served.told.any()
    assert gm.load_plan(tmp_path / "plan.json").fingerprint == plan.fingerprint


def test_a_run_is_understood_from_any_folder(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store.parent)
    plan = gm.Plan("train", seq_len=8, batch_size=4, steps=3)
    with gm.Loader(plan, threads=0) as loader:
        loader.record(tmp_path / "served.parquet")
        list(loader)
    monkeypatch.chdir(tmp_path)
    found = as_run(tmp_path).plan
    assert found is not None and found.fingerprint == plan.fingerprint


def test_other_programs_read_the_folder_as_one_table(plan: gm.Plan, tmp_path: Path) -> None:
    with gm.Loader(plan) as loader:
        loader.record(tmp_path / "served.parquet")
        take(loader, 3)
        loader.close()
        take(loader, 2)
    assert sorted(pq.read_table(tmp_path / "served.parquet")["step"].to_pylist()) == [0, 1, 2, 3, 4]


def test_losses_are_told_for_the_last_step_or_later(plan: gm.Plan, tmp_path: Path) -> None:
    with gm.Loader(plan) as loader:
        loader.record(tmp_path / "served.parquet")
        batches = iter(loader)
        next(batches)
        loader.record_loss(3.5)
        next(batches)
        loader.close()  # the row of step 1 is written before its loss is known
        next(batches)
        loader.record_loss([1.0, 2.0, 3.0, 6.0], step=1)
        loader.record_loss(float("nan"))
    run = as_run(tmp_path)
    served = run.served()
    assert served.told.tolist() == [True, True, True]
    np.testing.assert_array_equal(served.loss, [3.5, 3.0, np.nan])
    np.testing.assert_array_equal(served.highest_loss, [np.nan, 6.0, np.nan])
    assert {step: rows.tolist() for step, rows in run.row_losses([0, 1, 2]).items()} == {1: [1.0, 2.0, 3.0, 6.0]}


def test_a_tensor_is_kept_as_it_was_and_without_its_graph(plan: gm.Plan, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with gm.Loader(plan) as loader:
        loader.record(tmp_path / "served.parquet")
        next(iter(loader))
        total = torch.ones(4, requires_grad=True) * 2
        loader.record_loss(total)
        total.detach().zero_()
    assert as_run(tmp_path).served().loss.tolist() == [2.0]


def test_a_step_that_is_served_again_supersedes_and_what_came_after_it_is_forgotten(
    plan: gm.Plan, tmp_path: Path
) -> None:
    with gm.Loader(plan) as loader:
        loader.record(tmp_path / "served.parquet")
        for step, _ in zip(range(10), loader, strict=False):
            loader.record_loss(100.0 + step)
            if step == 5:
                state = loader.state_dict()
    with gm.Loader(plan) as resumed:
        resumed.record(tmp_path / "served.parquet")
        resumed.load_state_dict(state)
        next(iter(resumed))
        resumed.record_loss(7.0)
    served = as_run(tmp_path).served()
    assert served.step.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert served.loss.tolist() == [100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 7.0]


def test_going_back_within_a_loader_is_a_new_attempt_too(plan: gm.Plan, tmp_path: Path) -> None:
    with gm.Loader(plan) as loader:
        loader.record(tmp_path / "served.parquet")
        take(loader, 6)
        loader.seek(2)
        take(loader, 1)
    assert as_run(tmp_path).served().step.tolist() == [0, 1, 2]


def test_ranks_keep_rows_of_their_own_which_are_put_together(plan: gm.Plan, tmp_path: Path) -> None:
    for rank in range(2):
        with gm.Loader(plan, rank, 2) as loader:
            loader.record(tmp_path / "served.parquet")
            next(iter(loader))
            loader.record_loss([10.0 * rank + 1, 10.0 * rank + 3])
    run = as_run(tmp_path)
    served = run.served()
    assert served.tokens.tolist() == [32.0]
    assert served.loss.tolist() == [(2.0 + 12.0) / 2] and served.highest_loss.tolist() == [13.0]
    assert run.row_losses([0])[0].tolist() == [1.0, 11.0, 3.0, 13.0]


def test_a_run_that_goes_on_with_fewer_ranks_forgets_what_the_others_did(plan: gm.Plan, tmp_path: Path) -> None:
    for rank in range(2):
        with gm.Loader(plan, rank, 2) as loader:
            loader.record(tmp_path / "served.parquet")
            take(loader, 6)
    with gm.Loader(plan) as alone:
        alone.record(tmp_path / "served.parquet")
        alone.seek(4)
        take(alone, 2)
        alone.record_loss(1.5)
    served = as_run(tmp_path).served()
    assert served.step.tolist() == [0, 1, 2, 3, 4, 5]
    assert served.tokens.tolist() == [32.0] * 6
    assert served.told.tolist() == [False] * 5 + [True]


def test_one_rank_of_several_stands_for_all(plan: gm.Plan, tmp_path: Path) -> None:
    with gm.Loader(plan, 1, 4) as loader:
        loader.record(tmp_path / "served.parquet")
        take(loader, 2)
    assert as_run(tmp_path).served().tokens.tolist() == [32.0, 32.0]


KILLED = """
    import sys
    import gristmill as gm
    from gristmill.loader import record
    record.WRITE_SECONDS = 0.01
    loader = gm.Loader(gm.Plan(sys.argv[1], seq_len=8, batch_size=4, steps=10**9))
    loader.record(sys.argv[2])
    for step, _ in enumerate(loader):
        loader.record_loss(float(step))
        if step % 1000 == 0:
            print(step, flush=True)
"""


def test_a_process_that_is_killed_leaves_whole_rows_from_the_first_on(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "served.parquet"
    command = [sys.executable, "-c", textwrap.dedent(KILLED), store, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if int(line) >= 5000 and len(parts_of(address_of(path))) > 1:
                break
        run.send_signal(signal.SIGKILL)
    served = as_run(tmp_path).served()
    assert served.step.tolist() == list(range(len(served)))
    assert served.loss[served.told].tolist() == served.step[served.told].tolist()
    assert len(served) > 0


def test_many_files_become_few_and_a_merge_that_was_cut_short_counts_nothing_twice(
    plan: gm.Plan, tmp_path: Path
) -> None:
    folder = tmp_path / "served.parquet"
    kept = Record(folder, plan)
    for step in range(40):
        kept.served(step, 32, 0.0)
        kept.close()
    assert [part.name for part in parts_of(address_of(folder))][:2] == [
        "rank-00000-000000000-000000015.parquet",
        "rank-00000-000000016-000000031.parquet",
    ]
    assert len(list(folder.iterdir())) == 10
    merged = folder / Part(0, 0, 15).name
    (folder / Part(0, 3, 3).name).write_bytes(merged.read_bytes())
    assert as_run(tmp_path).served().step.tolist() == list(range(40))


def test_a_disk_that_is_full_is_told_of_and_tried_again(
    plan: gm.Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Record(tmp_path / "served.parquet", plan)
    kept.served(0, 32, 0.0)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(recording._Written, "_write_part", full)
        with pytest.warns(UserWarning, match="No space left"):
            kept.close()
    kept.served(1, 32, 0.0)
    kept.close()
    assert as_run(tmp_path).served().step.tolist() == [0, 1]


def test_what_is_no_record_is_refused(plan: gm.Plan, tmp_path: Path) -> None:
    loader = gm.Loader(plan)
    (tmp_path / "file.parquet").write_bytes(b"")
    for path in (tmp_path / "run", tmp_path / "file.parquet"):
        with pytest.raises(gm.ConfigError, match=r"ends with \.parquet"):
            loader.record(path)
    with pytest.raises(gm.ConfigError, match="Nothing is recorded yet"):
        loader.record_loss(1.0)
    loader.record(tmp_path / "served.parquet")
    with pytest.raises(gm.ConfigError, match="recorded already"):
        loader.record(tmp_path / "served.parquet")
    with pytest.raises(gm.ConfigError, match="not been served"):
        loader.record_loss(1.0)
    next(iter(loader))
    for wrong in ("much", [[1.0]], None):
        with pytest.raises(gm.ConfigError, match="a number, or one for each row"):
            loader.record_loss(wrong)
    loader.close()


def test_a_copy_in_another_process_records_nothing(plan: gm.Plan, tmp_path: Path) -> None:
    with gm.Loader(plan) as loader:
        loader.record(tmp_path / "served.parquet")
        take(loader, 2)
        copy = pickle.loads(pickle.dumps(loader))
        take(copy, 4)
        child = os.fork()
        if child == 0:
            take(loader, 3)
            os._exit(0)
        os.waitpid(child, 0)
    assert as_run(tmp_path).served().step.tolist() == [0, 1]


def test_the_thread_ends_with_the_loader(plan: gm.Plan, tmp_path: Path) -> None:
    with gm.Loader(plan) as loader:
        loader.record(tmp_path / "served.parquet")
        take(loader, 2)
        assert "gristmill-record" in {thread.name for thread in threading.enumerate()}
    assert "gristmill-record" not in {thread.name for thread in threading.enumerate()}


def test_a_stream_is_recorded_without_a_plan(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("\n".join(f"line number {i} of a text" for i in range(200)))
    stream = gm.stream(str(text), documents="line").tokenize("byte").pack(32).batch(4, seed=0)
    with stream.loader() as loader:
        loader.record(tmp_path / "run" / "served.parquet")
        for step, _ in zip(range(3), loader, strict=False):
            loader.record_loss(float(step))
    run = as_run(tmp_path / "run")
    assert run.plan is None and run.served().loss.tolist() == [0.0, 1.0, 2.0]
