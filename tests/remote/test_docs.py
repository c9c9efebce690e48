"""The blocks of docs/remote.md, run from first to last as a reader would, with the server that the page starts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

from page_script import DOCS, PATH, script
from s3_server import port_flags


def test_a_reader_who_follows_the_page_trains_from_a_server_of_its_own(tmp_path: Path) -> None:
    ports = port_flags()
    page = (
        script("remote.md")
        .replace("weed mini", f"weed mini {' '.join(ports)}")
        .replace("8333", ports[0].partition("=")[2])
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GRISTMILL_"))}
    (tmp_path / "examples").symlink_to(DOCS.with_name("examples"))
    followed = subprocess.Popen(["bash", "-euo", "pipefail", "-c", page], cwd=tmp_path, env={**clean, "PATH": PATH},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                start_new_session=True)  # fmt: skip
    try:
        said = followed.communicate(timeout=500)[0]
    finally:
        os.killpg(followed.pid, signal.SIGKILL)
    assert followed.returncode == 0, said
    steps = [int(step) for step in re.findall(r"^step (\d+): loss", said, re.MULTILINE)]
    assert steps == [20, 40]
