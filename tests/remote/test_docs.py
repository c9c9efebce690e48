"""The blocks of docs/remote.md, run from first to last as a reader would, with the server that the page starts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from s3_server import port_flags

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "remote.md"


def script() -> str:
    """The blocks as one script: `bash` as it stands, `py` as a program, or as the file that its first line names."""
    text = DOCUMENT.read_text(encoding="utf-8")
    found = re.findall(r"^```(bash|py)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return "\n".join(code if kind == "bash" else _program(code) for kind, code in found)


def _program(code: str) -> str:
    named = re.match(r"# (\w+\.py)\n", code)
    return f"{f'cat > {named[1]}' if named else 'python -'} <<'END_OF_BLOCK'\n{code}END_OF_BLOCK"


def test_a_reader_who_follows_the_page_trains_from_a_server_of_its_own(tmp_path: Path) -> None:
    ports = port_flags()
    page = script().replace("weed mini", f"weed mini {' '.join(ports)}").replace("8333", ports[0].partition("=")[2])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GRISTMILL_"))}
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    followed = subprocess.Popen(["bash", "-euo", "pipefail", "-c", page], cwd=tmp_path, env={**clean, "PATH": path},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                start_new_session=True)  # fmt: skip
    try:
        said = followed.communicate(timeout=500)[0]
    finally:
        os.killpg(followed.pid, signal.SIGKILL)
    assert followed.returncode == 0, said
    steps = [int(step) for step in re.findall(r"^step (\d+): loss", said, re.MULTILINE)]
    assert steps == [20, 40]
