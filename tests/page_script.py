"""The blocks of a page of the documents as one script, for tests that follow it as a reader would."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
# Where the commands of this environment are found first.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def script(page: str) -> str:
    """`bash` blocks as they stand, `py` ones as a program, or as the file that their first line names."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(bash|py)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return "\n".join(code if kind == "bash" else _program(code) for kind, code in found)


def _program(code: str) -> str:
    named = re.match(r"# (\w+\.py)\n", code)
    return f"{f'cat > {named[1]}' if named else 'python -'} <<'END_OF_BLOCK'\n{code}END_OF_BLOCK"
