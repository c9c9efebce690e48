"""The house in figures: how large, how knotted, how well typed and tested the source is.

python benchmarks/measure.py                    this tree
python benchmarks/measure.py --against a9bd510  side by side with a commit of its history
python benchmarks/measure.py --list any         every place behind a figure
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONG_LINES, KNOT_BRANCHES, MANY_PARAMETERS = 400, 10, 7
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler, ast.comprehension, ast.match_case)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of the source: `name` is its path below the package."""

    name: str
    text: str
    tree: ast.Module

    @property
    def compiles(self) -> bool:
        """Whether Numba compiles functions of it: there `Any` is what arrays and addresses are called."""
        return "kernel" in self.name or "from numba" in self.text or "gristmill.core.compiled" in self.text

    @property
    def functions(self) -> list[Function]:
        return [node for node in ast.walk(self.tree) if isinstance(node, _FUNCTIONS)]

    def place(self, node: ast.expr | ast.stmt, what: str) -> str:
        return f"{self.name}:{node.lineno} {what}"


def modules(root: Path) -> list[Module]:
    """The files of a tree's package, in order."""
    package = root / "src" / "gristmill"
    paths = sorted(package.rglob("*.py"))
    return [Module(path.relative_to(package).as_posix(), text := path.read_text(), ast.parse(text)) for path in paths]


def body_lines(function: Function) -> int:
    """Lines of a function's statements, without its docstring."""
    first = function.body[1:] if ast.get_docstring(function) else function.body
    return (first[-1].end_lineno or 0) - first[0].lineno + 1 if first else 0


def branches(function: Function) -> int:
    """Ways through a function, less one; what is nested in it has its own."""
    inner = {id(node) for child in ast.walk(function) if isinstance(child, _FUNCTIONS) and child is not function
             for node in ast.walk(child)}  # fmt: skip
    nodes = [node for node in ast.walk(function) if id(node) not in inner]
    words = sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
    return words + sum(isinstance(node, _BRANCHES) for node in nodes)


def parameters(function: Function) -> int:
    """Parameters by any way of passing them; `self` and `cls` are none."""
    given = function.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def anys(module: Module) -> Iterator[str]:
    """Uses of `Any` as a kind; `NDArray[Any]` and `dtype[Any]`, arrays of whatever, are kinds."""
    inside_arrays = {id(name) for node in ast.walk(module.tree) if isinstance(node, ast.Subscript)
                     and ast.unparse(node.value).endswith(("NDArray", "dtype")) for name in ast.walk(node)}  # fmt: skip
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name) and node.id == "Any" and id(node) not in inside_arrays:
            yield module.place(node, "Any")


def inner_imports(module: Module) -> Iterator[str]:
    """Imports that wait until a function is called."""
    seen: set[int] = set()
    for function in module.functions:
        for node in ast.walk(function):
            if isinstance(node, (ast.Import, ast.ImportFrom)) and id(node) not in seen:
                seen.add(id(node))
                yield module.place(node, ast.unparse(node))


def untested(root: Path, found: list[Module]) -> list[str]:
    """Modules without a test of their name: `store/idx.py` has `tests/store/test_idx.py`.

    The kernels of a module (`c4_kernels.py`) are tested with it; what stands at the root may be tested in any folder.
    """
    tests = {path.relative_to(root / "tests").as_posix() for path in (root / "tests").rglob("test_*.py")}
    names = {path.rpartition("/")[2] for path in tests}

    def is_tested(name: str) -> bool:
        folder, _, stem = name.removesuffix(".py").rpartition("/")
        wanted = {f"test_{stem}.py", f"test_{stem.removesuffix('_kernels')}.py"}
        return any(f"{folder}/{test}" in tests if folder else test in names for test in wanted)

    own = [module.name for module in found if Path(module.name).name not in ("__init__.py", "__main__.py")]
    return [name for name in own if not is_tested(name)]


def figures(root: Path) -> dict[str, list[str] | int | float]:
    """Each figure by its name: a number, or the places that it counts."""
    found = modules(root)
    functions = [(module, function) for module in found for function in module.functions]
    plain = [(module, function) for module, function in functions if not module.compiles]
    return {
        "modules": len(found),
        "lines": sum(len(module.text.splitlines()) for module in found),
        f"files over {LONG_LINES} lines": [m.name for m in found if len(m.text.splitlines()) > LONG_LINES],
        "functions": len(functions),
        "lines of a body (median)": statistics.median(body_lines(function) for _, function in functions),
        f"knots (over {KNOT_BRANCHES} branches)": [
            m.place(f, f"{f.name}: {branches(f)}") for m, f in functions if branches(f) > KNOT_BRANCHES
        ],
        f"functions of {MANY_PARAMETERS} parameters and more, kernels aside": [
            m.place(f, f"{f.name}: {parameters(f)}") for m, f in plain if parameters(f) >= MANY_PARAMETERS
        ],
        "uses of Any, kernels aside": [place for m in found if not m.compiles for place in anys(m)],
        "imports inside functions": [place for m in found for place in inner_imports(m)],
        "modules without a test of their name": untested(root, found),
    }


def size(figure: list[str] | float) -> str:
    return f"{len(figure) if isinstance(figure, list) else figure:,}"


def tree_of(commit: str, folder: str) -> Path:
    """The files of a commit, in a folder."""
    command = ["git", "-C", str(ROOT), "archive", commit, "src", "tests"]
    packed = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(folder, filter="data")
    return Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", help="measure this commit too")
    parser.add_argument("--list", metavar="WORD", help="print the places behind the figures whose name has this word")
    chosen = parser.parse_args()
    here = figures(ROOT)
    columns = [size(figure) for figure in here.values()]
    rows = [[name, now] for name, now in zip(here, columns, strict=True)]
    if chosen.against:
        with tempfile.TemporaryDirectory() as folder:
            then = figures(tree_of(chosen.against, folder))
        rows = [[name, size(then[name]), now] for name, now in rows]
    heads = ["", *([chosen.against] if chosen.against else []), "this tree"]
    for row in (heads, ["---", *["---:"] * (len(heads) - 1)], *rows):
        print(f"| {' | '.join(row)} |")
    for name, figure in here.items() if chosen.list else ():
        if chosen.list.lower() in name.lower() and isinstance(figure, list):
            print(f"\n{name}:", *figure, sep="\n  ")


if __name__ == "__main__":
    sys.exit(main())
