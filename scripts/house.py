"""Print the figures of the house: its size, its largest rooms, and the road of one `apply`.

`scripts/house` runs it. A room is a file; the road of a command has those in which one of our functions runs,
and a hand-over is a pair of them of which one calls the other.
"""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "launcher"
LONG_FUNCTION, LONG_FILE = 40, 450


def main() -> None:
    package, tests = _files(PACKAGE), _files(ROOT / "tests")
    schedulers = _files(PACKAGE / "schedulers") + _files(PACKAGE / "holding")
    trees = {file: ast.parse(file.read_text()) for file in package}
    longest = max(package, key=_lines)
    rooms, hand_overs = _road()
    figures = {
        "lines of the package": sum(map(_lines, package)),
        "files of the package": len(package),
        "lines of schedulers and holding": sum(map(_lines, schedulers)),
        "files of schedulers and holding": len(schedulers),
        "lines of the tests": sum(map(_lines, tests)),
        f"files over {LONG_FILE} lines": sum(_lines(file) > LONG_FILE for file in package),
        "lines of the largest file": f"{_lines(longest)} ({longest.relative_to(ROOT)})",
        f"functions over {LONG_FUNCTION} lines": sum(map(_long_functions, trees.values())),
        "files with imports in functions": sum(map(_imports_in_functions, trees.values())),
        "rooms of `apply examples/hello`": rooms,
        "hand-overs of `apply examples/hello`": hand_overs,
    }
    print("\n".join(f"{name:40} {figure}" for name, figure in figures.items()))


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n")


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _long_functions(tree: ast.AST) -> int:
    return sum((each.end_lineno or 0) - each.lineno >= LONG_FUNCTION for each in _functions(tree))


def _imports_in_functions(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Import | ast.ImportFrom) for one in _functions(tree) for node in ast.walk(one)
    )


# -- the road ----------------------------------------------------------------------------------------------


def _road() -> tuple[int, int]:
    """(rooms, hand-overs) of the client of `apply examples/hello --yes --wait`."""
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "LAUNCHER_HOME": home}
        done = subprocess.run(
            [sys.executable, __file__, "walk"], env=env, capture_output=True, text=True, check=True
        )
    rooms, hand_overs = done.stdout.split()[-2:]
    return int(rooms), int(hand_overs)


def _walk(run: Callable[[], object]) -> tuple[int, int]:
    calls: set[tuple[str, str]] = set()
    rooms: set[str] = set()

    def is_room(code: CodeType) -> bool:
        """Whether it is a function of a file of ours; package inits only hand names on, and the methods of
        records belong to no reader's road."""
        is_ours = code.co_filename.startswith(f"{PACKAGE}/") and not code.co_filename.endswith(
            ("__init__.py", "/launcher/dataclass.py")
        )
        return is_ours and bool(code.co_flags & inspect.CO_OPTIMIZED) and code.co_name[0] != "<"

    def note(frame: FrameType, event: str, arg: Any) -> None:
        callee = frame.f_code
        if event != "call" or not is_room(callee):
            return
        rooms.add(callee.co_filename)
        caller = frame.f_back
        while caller is not None and not is_room(caller.f_code):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != callee.co_filename:
            calls.add((caller.f_code.co_filename, callee.co_filename))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return len(rooms), len(calls)


def _apply() -> None:
    from launcher.__main__ import main as launcher

    if code := launcher(["apply", str(ROOT / "examples" / "hello"), "--yes", "--wait"]):
        sys.exit(code)


if __name__ == "__main__":
    if sys.argv[1:] == ["walk"]:
        sys.path.insert(0, str(ROOT))
        print(*_walk(_apply))
    else:
        main()
