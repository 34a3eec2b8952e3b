"""Lists the public names of an installed TorchX: `python list_names.py FOLDER > torchx-VERSION.txt`.

A line has a name and its parameters in order: `a` must be given, `a=` has a default, `*a` takes the rest;
nothing follows what is not called. Files are parsed, not imported: no dependency of theirs is needed.
Public are the names in `__all__`; elsewhere what a module defines, and what a package imports from itself,
without a leading underscore; and the same of its classes.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = {"test", "examples", "integration_tests"}
PLUMBING = {"logger", "log", "T", "S", "main", "TYPE_CHECKING"}


def modules(root: Path) -> Iterator[tuple[str, Path]]:
    """Dotted name and file of every module that is no test and no example."""
    for file in sorted(root.rglob("*.py")):
        parts = (root.name, *file.relative_to(root).with_suffix("").parts)
        if not LEFT_OUT & {*parts} and not parts[-1].endswith("_test"):
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


def names_of(module: str, file: Path) -> Iterator[str]:
    """The lines of one module."""
    tree = ast.parse(file.read_text())
    listed = [name for node in tree.body for name in _listed(node)]
    for name, node in _defined(tree, module if file.name == "__init__.py" else None):
        if name in listed or not listed:
            yield from _lines(f"{module}.{name}", node)


def _listed(node: ast.stmt) -> list[str]:
    """Return the names in an assignment to `__all__`."""
    if isinstance(node, ast.Assign) and any(_name(target) == "__all__" for target in node.targets):
        return [str(each) for each in ast.literal_eval(node.value)]
    return []


def _defined(tree: ast.Module | ast.ClassDef, package: str | None = None) -> Iterator[tuple[str, ast.stmt]]:
    """Public names of a module or class and what defines them, each once, by name."""
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        for name in _names(node, package):
            if not name.startswith("_") and name not in PLUMBING:
                found[name] = node
    yield from sorted(found.items())


def _names(node: ast.stmt, package: str | None) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [_name(target) for target in node.targets if _name(target)]
    if isinstance(node, ast.AnnAssign):
        return [_name(node.target)]
    if isinstance(node, ast.ImportFrom) and package and f"{node.module}.".startswith(f"{package}."):
        return [alias.asname or alias.name for alias in node.names]
    return []


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _lines(name: str, node: ast.stmt) -> Iterator[str]:
    yield f"{name} {' '.join(_parameters(node))}".rstrip()
    if isinstance(node, ast.ClassDef):
        for member, inner in _defined(node):
            yield from _lines(f"{name}.{member}", inner)


def _parameters(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef):
        init = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
        if init:
            return _parameters(init[0])[1:]
        if any("dataclass" in ast.unparse(each) for each in node.decorator_list):
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            return [_name(each.target) + ("=" if each.value else "") for each in fields]
        return []
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    if any(ast.unparse(each) in ("property", "classmethod") for each in node.decorator_list):
        return []
    takes = node.args
    plain = [*takes.posonlyargs, *takes.args]
    given = len(plain) - len(takes.defaults)
    return [
        *(each.arg + ("" if n < given else "=") for n, each in enumerate(plain)),
        *([f"*{takes.vararg.arg}"] if takes.vararg else []),
        *(
            each.arg + ("" if default is None else "=")
            for each, default in zip(takes.kwonlyargs, takes.kw_defaults, strict=True)
        ),
        *([f"**{takes.kwarg.arg}"] if takes.kwarg else []),
    ]


if __name__ == "__main__":
    for module, file in modules(Path(sys.argv[1])):
        for line in names_of(module, file):
            print(line)
