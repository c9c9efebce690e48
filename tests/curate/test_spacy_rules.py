"""spaCy's rules are read from the installed spaCy once, and kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from gristmill.curate.spacy_rules import SpacyRules, load_english, read_rules

ASK = """
import sys
sys.modules["torch"] = None  # which spaCy would import, for seconds
from gristmill.curate.spacy_rules import spacy_rules
from gristmill.curate.spacy_tokenizer import SpacyTokenizer
print(SpacyTokenizer(spacy_rules()).tokens("(don't"), "spacy" in sys.modules)
"""


def ask(folder: Path) -> str:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_spacy_is_imported_for_the_first_words_of_a_machine_only(tmp_path: Path) -> None:
    assert ask(tmp_path) == "['(', 'do', \"n't\"] True\n"
    assert ask(tmp_path) == "['(', 'do', \"n't\"] False\n"


def test_what_is_kept_is_plain_json() -> None:
    rules = read_rules(load_english())
    assert rules.known and rules.rules["don't"] == ["do", "n't"]
    assert SpacyRules(**json.loads(json.dumps(vars(rules)))) == rules
