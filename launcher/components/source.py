"""Component files as text: each is read and parsed once, and not executed."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import lru_cache

from launcher.dataclass import dataclass

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class ComponentFile:
    """A file as parsed.

    Attributes:
        functions: the functions at its top level, below `if`, `try` and `with` too, the last of a name, in
            the order of the file.
        error: the syntax error of the file; then there are no functions.
    """

    path: str
    text: str
    functions: dict[str, Function]
    imports: tuple[ast.Import | ast.ImportFrom, ...] = ()
    error: SyntaxError | None = None


def locate(path: str, folder: str | None = None) -> str:
    """The absolute path of a component file: below `folder`, else as it is, else in the installed package.

    Raises FileNotFoundError.
    """
    expanded = os.path.expanduser(path)
    for base in (folder or os.getcwd(), PACKAGE):
        candidate = os.path.normpath(os.path.join(base, expanded))
        if os.path.isfile(candidate):
            return candidate
    raise FileNotFoundError(path)


def read_conf_file(path: str) -> str:
    """The text of a file on disk, else of one of the installed package. Raises FileNotFoundError."""
    with open(locate(path), encoding="utf-8-sig") as file:
        return file.read()


def read_component_file(path: str) -> ComponentFile:
    """Parse a file, once as long as it does not change. Raises OSError."""
    status = os.stat(path)
    return _read(os.path.abspath(path), status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache(maxsize=256)
def _read(path: str, *_version: int) -> ComponentFile:
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        return ComponentFile(path, "", {}, (), SyntaxError(f"not UTF-8: {error}"))
    try:
        tree = ast.parse(text, path)
    except SyntaxError as error:
        return ComponentFile(path, text, {}, (), error)
    except ValueError as error:  # a null byte, before Python 3.12
        return ComponentFile(path, text, {}, (), SyntaxError(str(error)))
    except (MemoryError, RecursionError):  # the parser's stack overflowed; either error is possible
        return ComponentFile(path, text, {}, (), SyntaxError("an expression is nested too deeply"))
    functions = {node.name: node for node in _statements(tree.body) if isinstance(node, Function)}
    imports = tuple(node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom)))
    return ComponentFile(path, text, functions, imports)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that an import of a module executes, also below `if`, `try` and `with`."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and {"__name__", "TYPE_CHECKING"} & {*_names(node.test)}:
            yield from _statements(node.orelse)  # the rest is for scripts and for type checkers
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            for part in ("body", "handlers", "orelse", "finalbody"):
                for each in getattr(node, part, ()):
                    yield from _statements(each.body if isinstance(each, ast.ExceptHandler) else [each])


def _names(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, (ast.Name, ast.Attribute)):
            yield each.id if isinstance(each, ast.Name) else each.attr
