"""The code of docs/remote.md, run as it stands on a bucket that has what it names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gristmill.places.storage import VARIABLE

DOCUMENT = Path(__file__).parents[2] / "docs" / "remote.md"


def test_the_code_of_the_page_runs(
    tmp_path: Path, make_store: Any, upload: Any, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "")
    upload(make_store(tmp_path / "web", [[i % 1000] * 300 for i in range(40)]), "web")
    text = DOCUMENT.read_text(encoding="utf-8").replace("http://127.0.0.1:8333", proxy.address)
    blocks = re.findall(r"^```py\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    for code in blocks:
        exec(compile(code, str(DOCUMENT), "exec"), names)
    assert names["batch"]["input_ids"].shape == (8, 64)
