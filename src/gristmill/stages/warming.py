"""What a recipe needs compiled, made ahead: once a machine, in processes of their own, on all cores.

Kernels are compiled when their module is first imported, so a run would do that one by one, and each worker for itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath

from gristmill.core.kept import is_kept, module_path, sources, text_of
from gristmill.core.kept_entries import missing_code
from gristmill.core.progress import Progress
from gristmill.curate.rules.language_model import kept_model_name
from gristmill.curate.words import kept_rules_name
from gristmill.recipe import Recipe, SourceOptions
from gristmill.sources.streams import unpacked_name

_RULES = {
    "c4": ["c4"],
    "c4_paragraph": ["c4"],
    "code_quality": ["code", "statistics"],
    "code_ratio": ["code"],
    "fasttext": [],
    "fineweb": ["fineweb"],
    "function": [],
    "gopher_quality": ["gopher_quality"],
    "gopher_repetition": ["repetition"],
    "language": ["language"],
    "length": ["length", "statistics"],
    "profanity": ["matching"],
    "url": [],
}
# Kernels of formats, and their suffixes: a folder may have JSON.
_JSON = "json", ("", ".json", ".jsonl", ".ndjson")
_FORMATS = {
    "sources.json_arrays": _JSON,
    "sources.json_kernels": _JSON,
    "sources.line_kernels": ("", ("", ".json", ".jsonl", ".ndjson", ".md", ".text", ".txt")),
    "sources.tar_kernels": ("webdataset", (".tar",)),
}
_DEDUP = {"exact": [], "lines": ["line"], "near": ["shingle", "pair"]}
# No kernels, but made of installed packages once a machine too: `module:function` is called, and keeps it by this name.
_SPACY, _LANGUAGES = "gristmill.curate.spacy_rules:spacy_rules", "gristmill.curate.rules.language_model:load"
_KEPT_NAMES = {_SPACY: kept_rules_name, _LANGUAGES: kept_model_name}


def warm(recipe: Recipe | None, progress: Progress) -> list[str]:
    """Compile what a recipe uses, or everything, as far as it is not kept yet; what that was."""
    tasks = _missing(_all_kernels() if recipe is None else kernels(recipe))
    if tasks:
        cores = min(os.cpu_count() or 1, len(tasks))
        progress.note(f"Compiling {len(tasks)} kernels for this machine on {cores} cores, which happens once.")
        _make_ahead(tasks, cores)
    return tasks


def kernels(recipe: Recipe) -> list[str]:
    """The modules that a run of this recipe imports and that hold compiled code."""
    names = ["core.kernels.blake2", "core.kernels.texts"]
    names += ["tokenize.kernels"] if recipe.tokenizer != "byte" else []
    names += [name for name, marks in _FORMATS.items() if any(_may_be(source, *marks) for source in recipe.sources)]
    names += ["curate.clean_kernels"] if recipe.clean else []
    names += ["curate.redact_kernels"] if recipe.clean and recipe.clean.redact else []
    names += ["curate.decontaminate_kernels"] if recipe.decontaminate else []
    by_spacy = ["spacy" in getattr(rule, "versions", dict)() for rule in recipe.filters]
    names += ["curate.chunk_kernels"] if any(by_spacy) else []
    names += ["curate.word_kernels", "core.kernels.slots"] if recipe.filters else []
    names += [f"curate.rules.{name}_kernels" for rule in recipe.filters for name in _RULES[rule.name]]
    names += [f"curate.dedup.{name}_kernels" for rule in recipe.dedup for name in _DEDUP[rule.name]]
    tables = {_SPACY: any(by_spacy), _LANGUAGES: any(rule.name == "language" for rule in recipe.filters)}
    return [*(f"gristmill.{name}" for name in dict.fromkeys(names)), *(task for task in tables if tables[task])]


def _may_be(source: SourceOptions, format: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a source has files of a format, by its own or by the names that it gives."""
    if source.format:
        return source.format.startswith(format)
    named = {PurePath(unpacked_name(PurePath(path))).suffix.lower() for path in source.paths}
    return any(suffix in suffixes or "*" in suffix for suffix in named)


def _all_kernels() -> list[str]:
    """Every module with compiled code that Python calls, the loader's included."""
    root = module_path("gristmill").parent
    paths = [path.relative_to(root.parent) for path in root.rglob("*.py") if "\n@entry(" in text_of(path)]
    return sorted(".".join(path.with_suffix("").parts) for path in paths)


def _missing(tasks: Sequence[str]) -> list[str]:
    missing = missing_code(task for task in tasks if ":" not in task)
    return missing + [task for task in tasks if task in _KEPT_NAMES and not is_kept(_module(task), _KEPT_NAMES[task]())]


def _make_ahead(tasks: Sequence[str], processes: int) -> None:
    """Compile in so many processes. What fails there fails again, and can be seen, where it is used."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    first, *others = sorted(tasks, key=lambda task: (task in _KEPT_NAMES, _size(task)))
    shares = [[first], *filter(None, _shares(others, processes))]
    command = [sys.executable, "-c", "from gristmill.stages.making import make; make()", str(os.getpid())]
    running = subprocess.Popen(
        [*command, *map(",".join, shares)], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        running.wait()
    finally:
        running.kill()


def _shares(tasks: Sequence[str], count: int) -> list[list[str]]:
    """Tasks in so many shares of about the same size: the largest first, each to the share that has least."""
    shares: list[list[str]] = [[] for _ in range(count)]
    sizes = [0] * count
    for task in sorted(tasks, key=_size, reverse=True):
        least = sizes.index(min(sizes))
        shares[least].append(task)
        sizes[least] += _size(task)
    return shares


def _size(task: str) -> int:
    """About how long a task takes: as long as the sources are that are compiled for it."""
    texts = map(text_of, sources(_module(task)))
    return sum(len(text) for text in texts if "gristmill.core.compiled import" in text)


def _module(task: str) -> Path:
    return module_path(task.partition(":")[0])
