"""The batch that the README shows is the batch that its code prints."""

import codecs
import contextlib
import io
import re
from pathlib import Path

from gristmill.recipe import Recipe, SourceOptions, StoreOptions
from gristmill.run import prepare

README = Path(__file__).parents[2] / "README.md"


def test_the_first_screen_prints_what_it_says(tmp_path, monkeypatch):
    with contextlib.redirect_stdout(io.StringIO()):
        import this
    (tmp_path / "zen.txt").write_text(codecs.decode(this.s, "rot13") + "\n")
    monkeypatch.chdir(tmp_path)
    prepare(Recipe("data/zen", [SourceOptions("text", ["zen.txt"])], tokenizer="byte", store=StoreOptions(10**8, 0)))
    code, shown = re.search(r"```python\n(.*?)```\n```\n(.*?)```", README.read_text(), re.DOTALL).groups()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, {})
    assert printed.getvalue() == shown
