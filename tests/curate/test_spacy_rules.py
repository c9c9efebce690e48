"""spaCy's rules are read from the installed spaCy once, and kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from gristmill.curate.spacy_rules import SpacyRules, load_english, read_rules

ASK = """
import sys, pyarrow as pa
from gristmill.curate.documents import Documents
from gristmill.curate.words import words
texts = ["Don't go there :-) x٣.com:٣٣", "a-" * 200]
found = words(Documents(pa.record_batch({"id": ["0", "1"], "text": pa.array(texts, pa.large_string())})), "spacy")
print(len(found.hashes), "spacy" in sys.modules)
"""


def ask(folder: Path) -> str:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_spacy_is_imported_for_the_first_words_of_a_machine_only(tmp_path: Path) -> None:
    assert ask(tmp_path) == "408 True\n"
    assert ask(tmp_path) == "408 False\n"
    (kept,) = tmp_path.glob("spacy-*.kept")
    kept.write_bytes(kept.read_bytes()[:-1])
    assert ask(tmp_path) == "408 True\n"


def test_what_is_kept_is_plain_json() -> None:
    rules = read_rules(load_english())
    assert rules.known and rules.rules["don't"] == ["do", "n't"]
    assert SpacyRules(**json.loads(json.dumps(vars(rules)))) == rules
