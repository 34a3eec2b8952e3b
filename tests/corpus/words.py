"""The files of the corpus, and the diagnostics that the wrong ones say they give.

A wrong file begins with one line for each diagnostic, in order: `# expect: CODE LINE:COLUMN`, or `-` for the
place where the whole file is meant. Where the text cannot hold a comment, they stand in FILE.expect beside it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from launcher.cli.run_options import RunOptions
from launcher.jobfile import Compiled, Diagnostic, Environment, compile_files

FOLDER = Path(__file__).resolve().parent
GOOD = sorted((FOLDER / "good").rglob("*.launcher.*"))
BAD = sorted(path for path in (FOLDER / "bad").rglob("*.launcher.*") if path.suffix != ".expect")
_EXPECT = re.compile(rb"^# expect: (\S+) (\S+)\r?$", re.MULTILINE)
_SCHEDULERS = RunOptions()


class Found(NamedTuple):
    """A diagnostic in short: the file below the corpus, the code, `LINE:COLUMN` or `-`."""

    file: str
    code: str
    at: str


def name_of(path: Path) -> str:
    """What a file of the corpus is called: its path below the corpus."""
    return path.relative_to(FOLDER).as_posix()


def compiled(path: Path, *, placeholders: bool = True) -> Compiled:
    """A file as `launcher validate` compiles it."""
    environment = Environment(schedulers=_SCHEDULERS, cwd=str(FOLDER), environ={})
    return compile_files([name_of(path)], environment=environment, placeholders=placeholders)


def expected(path: Path) -> list[Found]:
    """What a wrong file must give; of its launcher.toml first, where it has one of its own."""
    config = path.with_name("launcher.toml")
    return [*(_said(config) if config.exists() else ()), *_said(path)]


def found(diagnostic: Diagnostic) -> Found:
    span = diagnostic.span
    return Found(diagnostic.file, diagnostic.code, f"{span.line}:{span.column}" if span else "-")


def _said(path: Path) -> list[Found]:
    beside = path.with_name(f"{path.name}.expect")
    data = (beside if beside.exists() else path).read_bytes()
    return [Found(name_of(path), code.decode(), at.decode()) for code, at in _EXPECT.findall(data)]
