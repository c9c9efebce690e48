"""Tables that are made once a machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gristmill.core.kept_tables import Table, kept_table


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.int64])
def test_a_table_is_made_once_for_each_of_its_options_and_cannot_be_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: type
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    made = []

    def squares(count: int) -> Table:
        made.append(count)
        return np.arange(count).astype(dtype) ** 2

    for _ in range(2):  # each is another process's
        table = kept_table(squares)
        for count in (3, 5, 3):
            assert table(count).tolist() == [0, 1, 4, 9, 16][:count] and table(count).dtype == dtype
            assert not table(count).flags.writeable
    assert made == [3, 5]


def test_a_damaged_one_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    def zeros() -> Table:
        return np.zeros(4, np.uint8)

    kept_table(zeros)()
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    assert kept_table(zeros)().tolist() == [0, 0, 0, 0]
