"""One process is made ready and forked for every share of what is made ahead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_first_share_readies_the_process_that_is_forked_for_all_others(tmp_path: Path) -> None:
    note = "import os, pathlib\nfirst = os.getpid()\n"
    note += "def note(): pathlib.Path(__file__).with_name(f'{os.getpid()}.txt').write_text(str(first))\n"
    (tmp_path / "probe.py").write_text(note)
    command = [sys.executable, "-c", "from gristmill.stages.making import make; make()", str(os.getpid())]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    subprocess.run([*command, "probe:note", "probe:note", "probe:note,probe:note"], env=environment, check=True)
    imported_by = {path.stem: path.read_text() for path in tmp_path.glob("*.txt")}
    (first,) = set(imported_by.values())
    assert first in imported_by and len(imported_by) == 3


def test_a_process_that_makes_kernels_imports_nothing_that_they_do_not_need() -> None:
    ask = "import sys; from gristmill.stages.making import make; print({'numpy', 'pyarrow', 'duckdb'} & {*sys.modules})"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run([sys.executable, "-c", ask], env=environment, check=True, capture_output=True, text=True)
    assert told.stdout == "set()\n"
