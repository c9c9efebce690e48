"""Arrays that every room passes on have one name, spelt once."""

from __future__ import annotations

import re
from pathlib import Path

import gristmill
from gristmill.core import arrays

ROOT = Path(gristmill.__file__).parent


def test_no_other_module_spells_these_names_again() -> None:
    names = [name for name in vars(arrays) if name[0].isupper()]
    spelt = re.compile(rf"^({'|'.join(names)}) = npt", re.MULTILINE)
    found = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if spelt.search(path.read_text())]
    assert found == ["core/arrays.py"] and len(names) == 4
