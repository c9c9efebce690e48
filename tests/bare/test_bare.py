"""Installed from its wheel without extras, everything works that needs none, and the rest says which one it needs."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
DOCUMENTS = [page for page in PAGES if re.search(r"^```(sh|python)", page.read_text(encoding="utf-8"), re.MULTILINE)]
EXTRAS = ("torch", "lightning", "datasets", "transformers", "olmo_core", "spacy", "ftfy", "fasttext", "obstore",
          "pyspark")  # fmt: skip


def test_the_environment_is_bare_and_ours_is_full(bare: Any, tmp_path: Path) -> None:
    code = f"import importlib.util; print(*(n for n in {EXTRAS} if importlib.util.find_spec(n)))"
    assert bare.run("python", "-c", code, cwd=tmp_path).split() == []
    assert all(importlib.util.find_spec(name) for name in EXTRAS)
    where = bare.run("python", "-c", "import gristmill; print(gristmill.__file__)", cwd=tmp_path)
    assert str(ROOT / "src") not in where


def test_the_demo_runs_and_both_of_its_stores_have_a_val(bare: Any, tmp_path: Path) -> None:
    assert "Done in" in bare.run("gristmill", "demo", "--out", "demo", cwd=tmp_path)
    for name in ("code", "prose"):
        splits = json.loads((tmp_path / "demo" / name / "manifest.json").read_text())["splits"]
        assert splits["train"]["tokens"] > splits["val"]["tokens"] > 0


def test_the_commands_and_the_code_of_the_readme_run(shop: Path) -> None:
    assert (shop / "data" / "zen" / "manifest.json").exists()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_commands_and_the_code_of_a_document_run(bare: Any, shop: Path, tmp_path: Path, document: Path) -> None:
    bare.run_blocks(document, Path(shutil.copytree(shop, tmp_path / "shop")))


ADAPTERS = {"torch": "torch", "streams": "torch", "local_files": "torch", "random_windows": "torch",
            "lightning": "lightning", "local_datamodule": "lightning", "hf_trainer": "hf",
            "olmo_core": "olmo"}  # fmt: skip


def test_each_adapter_names_its_extra(bare: Any, tmp_path: Path) -> None:
    code = f"""
for name in {list(ADAPTERS)}:
    try:
        __import__(f"gristmill.adapters.{{name}}")
    except ImportError as error:
        print(error)
"""
    said = bare.run("python", "-c", code, cwd=tmp_path).splitlines()
    for (name, extra), line in zip(ADAPTERS.items(), said, strict=True):
        assert f"gristmill.adapters.{name} needs " in line and f"pip install 'gristmill[{extra}]'" in line


RECIPES = {
    "spacy": "filters: [{gopher_quality: {variant: datatrove}}]",
    "ftfy": "clean: {ftfy: true}",
    "fasttext": "filters: [{fasttext: {model: m.bin, label: x}}]",
}


@pytest.mark.parametrize("extra", RECIPES)
def test_a_recipe_names_the_extra_before_anything_is_read(bare: Any, tmp_path: Path, extra: str) -> None:
    (tmp_path / "recipe.yaml").write_text(f"out: o\nsources: [{{name: a, paths: [none.txt]}}]\n{RECIPES[extra]}\n")
    said = bare.run("gristmill", "prepare", "--recipe", "recipe.yaml", cwd=tmp_path, code=2)
    assert f"pip install 'gristmill[{extra}]'" in said and len(said.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.yaml"]


def test_an_address_names_the_extra(bare: Any, tmp_path: Path) -> None:
    for arguments in (("inspect", "s3://bucket/x"), ("prepare", "s3://bucket/x/*.jsonl", "--out", "o")):
        said = bare.run("gristmill", *arguments, cwd=tmp_path, code=2)
        assert "pip install 'gristmill[remote]'" in said and len(said.splitlines()) == 1
