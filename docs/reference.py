"""Writes the pages of the reference from the code itself: `make reference`.

docs/reference_cli.md     every command and option, from the parser
docs/reference_recipe.md  every key of a recipe, from its dataclasses and the words of recipe_template.yaml
docs/reference_python.md  every public name, from `gristmill.__all__` and what the pages use of the adapters
docs/reference_errors.md  every sentence that an error can say, from the calls that make one
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import gristmill as gm
from gristmill import adapters, testing
from gristmill.cli import build_parser
from gristmill.core.errors import GristmillError
from gristmill.curate.clean import CleanOptions
from gristmill.curate.decontaminate import DecontaminateOptions
from gristmill.curate.rules import RULES
from gristmill.places.storage import StorageOptions
from gristmill.recipe import _DEDUPS, MixOptions, Recipe, SourceOptions, StoreOptions

DOCS = Path(__file__).parent
NOTE = "This page is written by `make reference` from the code; change it there."
CLI_WORDS = """What all commands share (output, exit codes, addresses, how to stop one) is in
[the command line](cli.md). In the name of an option, underscores and dashes are the same."""
RECIPE_WORDS = """`gristmill init` writes the same as a file to begin with; [Prepare](prepare.md) explains how a recipe
is used. A key that is not known is an error."""
ERROR_WORDS = """Each sentence says what is wrong and what to do; [Troubleshooting](troubleshooting.md) has more on
those that people meet most. Three dots stand for a name or a number, and words in bold for rooms of the source."""
SOURCE = Path(gm.__file__).parent
PAGE_WIDTH = 110


def cell(text: str) -> str:
    """Text that cannot end its cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """A table, and a blank line after it."""
    lines = ["| " + " | ".join(map(cell, row)) + " |" for row in (head, *rows)]
    return [lines[0], "|" + "---|" * len(head), *lines[1:], ""]


# --- The command line


def commands() -> dict[str, argparse.ArgumentParser]:
    """Every command by its name, in the order of the help."""
    (found,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(found.choices)


def option_names(action: argparse.Action) -> str:
    """`--out DIR`, `--json`, `INPUT...`: as one types it."""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    value = choices or str(action.metavar or action.dest.upper())
    if not action.option_strings:
        return f"`{value}{'...' if action.nargs in ('*', '+') else ''}`"
    takes = "" if action.nargs == 0 else f" {value}{'...' if action.nargs in ('*', '+') else ''}"
    return ", ".join(f"`{name}{takes}`" for name in action.option_strings)


def command_section(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """A command's words, its examples and its options by group."""
    words, _, examples = (parser.description or "").partition("for example:")
    yield from (f"## {name}", "", " ".join(words.split()), "")
    if examples.strip():
        yield from ("```text", textwrap.dedent(examples).strip(), "```", "")
    formatter = parser._get_formatter()
    for group in parser._action_groups:
        rows = [(option_names(action), formatter._expand_help(action)) for action in group._group_actions]
        if rows:
            title = "" if group.title in ("options", "positional arguments") else f"{group.title}"
            yield from (*([f"**{title[0].upper()}{title[1:]}**", ""] if title else []), *table(("option", ""), rows))


def cli_page() -> str:
    """docs/reference_cli.md."""
    head = ["# Every command and option", "", NOTE, "", CLI_WORDS, ""]
    rows = [(f"[`gristmill {name}`](#{name})", words_of(parser).partition(". ")[0].rstrip(".") + ".")
            for name, parser in commands().items()]  # fmt: skip
    body = [line for name, parser in commands().items() for line in command_section(name, parser)]
    return "\n".join([*head, *table(("command", ""), rows), *body]).rstrip() + "\n"


def words_of(parser: argparse.ArgumentParser) -> str:
    """A command's description in one line, without its examples."""
    return " ".join((parser.description or "").partition("for example:")[0].split())


# --- The recipe


def template_comments() -> dict[tuple[str, ...], tuple[str, str]]:
    """The (value, comment) of every key of recipe_template.yaml, by its path: ("filters", "length", "min_chars")."""
    text = files("gristmill").joinpath("recipe_template.yaml").read_text()
    found: dict[tuple[str, ...], tuple[str, str]] = {}
    stack: list[tuple[int, str]] = []
    for line in re.sub(r"^#(?= *(- )?\w+:( |$))", "", text, flags=re.MULTILINE).splitlines():
        parts = re.match(r"( *(?:- )?)(\w+):(?: (.*?))?(?:\s+# (.*)|\s*)$", line)
        if parts:
            indent = len(parts[1])
            stack = [*((depth, key) for depth, key in stack if depth < indent), (indent, parts[2])]
            found[tuple(key for _, key in stack)] = ((parts[3] or "").strip(), parts[4] or "")
    return found


def written(value: Any) -> str:
    """A default as YAML has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(written, value)) + "]"
    return str(value)


def default(field: dataclasses.Field[Any]) -> str:
    """What stands for a key that is left out."""
    if field.default is not dataclasses.MISSING:
        return f"`{written(field.default)}`"
    if field.default_factory is dataclasses.MISSING:
        return "must be given"
    made = field.default_factory()
    return "see below" if dataclasses.is_dataclass(made) or (made and field.name == "dedup") else f"`{written(made)}`"


def keys_of(cls: Any) -> list[dataclasses.Field[Any]]:
    """What a mapping in a recipe may say of it."""
    return [field for field in dataclasses.fields(cls) if field.init and not field.name.startswith("_")]


def key_table(cls: Any, path: tuple[str, ...], comments: dict[tuple[str, ...], tuple[str, str]]) -> list[str]:
    """The keys of one part of a recipe."""
    rows = [(f"`{f.name}`", default(f), comments.get((*path, f.name), ("", ""))[1]) for f in keys_of(cls)]
    return table(("key", "default", "what it is"), rows)


def rule_class(name: str) -> Any:
    """The dataclass behind a filter."""
    module, _, cls = RULES[name].partition(":")
    return getattr(importlib.import_module(f"gristmill.curate.rules.{module}"), cls)


def recipe_parts() -> dict[str, tuple[str, Any, tuple[str, ...]]]:
    """The parts of a recipe by heading: where to read on, its dataclass, its place in the template."""
    fixed = {
        "One of the sources": ("[Sources](sources.md)", SourceOptions, ("sources",)),
        "clean": ("[Cleaning](prepare.md#clean)", CleanOptions, ("clean",)),
        "decontaminate": ("[Decontamination](dedup.md#decontamination)", DecontaminateOptions, ("decontaminate",)),
        "mix": ("[Shuffle and mix](prepare.md#order-shuffle-and-mix)", MixOptions, ("mix",)),
        "store": ("[The store](store.md)", StoreOptions, ("store",)),
        "storage, for each address": ("[Object storage](remote.md)", StorageOptions, ("storage",)),
    }
    rules = {f"filters: {name}": ("[Filters](filters.md)", rule_class(name), ("filters", name)) for name in RULES}
    dedups = {f"dedup: {name}": ("[Duplicates](dedup.md)", cls, ("dedup", name)) for name, cls in _DEDUPS.items()}
    return {**fixed, **rules, **dedups}


def recipe_page() -> str:
    """docs/reference_recipe.md."""
    comments = template_comments()
    lines = ["# Every key of a recipe", "", NOTE, "", RECIPE_WORDS, "", "## The recipe", ""]
    lines += key_table(Recipe, (), comments)
    for heading, (more, cls, path) in recipe_parts().items():
        lines += [
            f"## {heading}",
            "",
            inspect.cleandoc(cls.__doc__ or ""),
            "",
            f"More in {more}.",
            "",
            *key_table(cls, path, comments),
        ]
    return "\n".join(lines).rstrip() + "\n"


# --- Python


def paragraph(thing: Any) -> str:
    """The first paragraph of a docstring in one line; code in it stays code."""
    return " ".join(inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[0].split())


def parameters(thing: Callable[..., Any]) -> list[inspect.Parameter]:
    """What one gives when one calls it."""
    return [p for key, p in inspect.signature(thing).parameters.items() if key not in ("self", "cls")]


def spelt_parameter(parameter: inspect.Parameter) -> str:
    """`steps: int | None = None`, as the source has it."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind = "" if parameter.annotation is parameter.empty else f": {_annotation(parameter.annotation)}"
    value = "" if parameter.default is parameter.empty else f" = {_address_free(parameter.default)}"
    return f"{stars}{parameter.name}{kind}{value}"


def _annotation(kind: Any) -> str:
    return kind if isinstance(kind, str) else inspect.formatannotation(kind)


def _address_free(value: Any) -> str:
    """A default without its place in memory."""
    return re.sub(r"<factory>|<.* at 0x\w+>", "...", repr(value))


def signature(name: str, thing: Callable[..., Any]) -> str:
    """How it is called, a parameter a line where one line is too long."""
    rows = list[str]()
    for parameter in parameters(thing):
        if parameter.kind is parameter.KEYWORD_ONLY and not any(row.startswith("*") for row in rows):
            rows.append("*")
        rows.append(spelt_parameter(parameter))
    returns = inspect.signature(thing).return_annotation
    arrow = "" if inspect.isclass(thing) or returns is inspect.Signature.empty else f" -> {_annotation(returns)}"
    line = f"{name}({', '.join(rows)}){arrow}"
    return line if len(line) <= PAGE_WIDTH else "\n".join([f"{name}(", *(f"    {row}," for row in rows), f"){arrow}"])


def methods(cls: type) -> list[tuple[str, str]]:
    """The (name with parameters, sentence) of what a class of ours offers, its bases' included."""
    offered: dict[str, tuple[str, str]] = {}
    for base in reversed([base for base in cls.__mro__ if base.__module__.startswith("gristmill.")]):
        for name, thing in vars(base).items():
            shown = _method(name, thing)
            if shown and shown[1] and not name.startswith("_"):
                offered[name] = shown
    return list(offered.values())


def _method(name: str, thing: Any) -> tuple[str, str] | None:
    if isinstance(thing, property) or type(thing).__name__ == "cached_property":
        return f"`.{name}`", paragraph(thing)
    plain = thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing
    if not inspect.isfunction(plain):
        return None
    rows = ", ".join(spelt_parameter(p.replace(annotation=p.empty)) for p in parameters(plain))
    return f"`.{name}({rows})`", paragraph(plain)


def name_section(spelt: str, thing: Any) -> list[str]:
    """A public name: how it is called, what it is, what it offers."""
    name = spelt.rpartition(".")[2]
    lines = [f"### {name}", ""]
    if not (inspect.isclass(thing) and issubclass(thing, GristmillError)):
        lines += ["```text", signature(spelt, thing), "```", ""]
    lines += [inspect.cleandoc(thing.__doc__ or ""), ""] if not _is_made(thing) else []
    offered = methods(thing) if inspect.isclass(thing) and not issubclass(thing, GristmillError) else []
    return [*lines, *(table(("it has", ""), offered) if offered else [])]


def _is_made(thing: Any) -> bool:
    """Whether its docstring is the signature that dataclasses make up."""
    return bool(re.match(r"\w+\(.*\)$", thing.__doc__ or ""))


def named_in_pages() -> set[str]:
    """Every identifier that the pages write as code."""
    pages = [DOCS.parent / "README.md", *(page for page in DOCS.glob("*.md") if not page.name.startswith("reference_"))]
    code = re.findall(r"^```py.*?^```|`[^`\n]+`", "\n".join(map(Path.read_text, pages)), re.DOTALL | re.MULTILINE)
    return set(re.findall(r"\w+", "\n".join(code)))


def own_of(module: ModuleType) -> dict[str, Any]:
    """What a module itself defines, but for what it keeps to itself."""
    things = vars(module).items()
    return {n: t for n, t in things if getattr(t, "__module__", "") == module.__name__ and not n.startswith("_")}


def adapter_names() -> dict[str, Any]:
    """What the pages use of the adapters, by its whole name."""
    named, found = named_in_pages(), dict[str, Any]()
    for module in pkgutil.iter_modules(adapters.__path__, "gristmill.adapters."):
        room = importlib.import_module(module.name)
        for name, thing in own_of(room).items():
            if name in named and callable(thing) and thing.__doc__ and re.search(r"[a-z][A-Z]|[A-Z]{3}|\w_\w", name):
                found[f"{module.name}.{name}"] = thing
    return found


def python_page() -> str:
    """docs/reference_python.md."""
    names = {f"gm.{name}": getattr(gm, name) for name in gm.__all__}
    errors = {k: v for k, v in names.items() if inspect.isclass(v) and issubclass(v, GristmillError)}
    helpers = {
        f"gristmill.testing.{name}": thing for name, thing in own_of(testing).items() if inspect.isfunction(thing)
    }
    chapters = {
        "Names of gristmill": {k: v for k, v in names.items() if k not in errors},
        "Errors": errors,
        "Adapters": adapter_names(),
        "For your tests": helpers,
    }
    lines = ["# Every name in Python", "", NOTE, "", "`gm` is `import gristmill as gm`.", ""]
    for title, things in chapters.items():
        lines += [f"## {title}", ""]
        for spelt, thing in things.items():
            lines += name_section(spelt, thing)
    return "\n".join(lines).rstrip() + "\n"


# --- Errors


def error_sentences() -> list[tuple[str, str, str]]:
    """The (class, room, sentence) of every error that the source makes, with three dots for what is filled in."""
    classes = {name: name for name in gm.__all__ if name.endswith("Error")} | {"skippable": "SourceError"}
    found = list[tuple[str, str, str]]()
    for path in sorted(SOURCE.rglob("*.py")):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        calls = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
        made = ((call, getattr(call.func, "id", "")) for call in calls if call.args)
        found += [
            (classes[name], room, text) for call, name in made if name in classes and (text := sentence(call.args[0]))
        ]
    return sorted(set(found))


def sentence(node: ast.expr) -> str:
    """The text of a message; nothing where it is put together elsewhere."""
    if isinstance(node, ast.JoinedStr):
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        return text if re.search(r"[a-z]{3} [a-z]", text) else ""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def as_code(text: str) -> str:
    """Text as code, that has backticks in it or not."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def errors_page() -> str:
    """docs/reference_errors.md."""
    lines = ["# Every error sentence", "", NOTE, "", ERROR_WORDS, ""]
    before = ("", "")
    for name, room, text in error_sentences():
        lines += ["", f"## {name}", "", paragraph(getattr(gm, name)), ""] if name != before[0] else []
        lines += ["", f"**{room}**", ""] if (name, room) != before else []
        lines.append(f"- {as_code(' '.join(text.split()))}")
        before = (name, room)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


PAGES = {
    "reference_errors.md": errors_page,
    "reference_cli.md": cli_page,
    "reference_recipe.md": recipe_page,
    "reference_python.md": python_page,
}


def main() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
