"""The files of the corpus, and the diagnostics that the bad files list.

A wrong file begins with one line for each diagnostic, in order: `# expect: CODE LINE:COLUMN`, or `-` for the
place where the whole file is meant. Where the text cannot hold a comment, FILE.expect beside it has them.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from launcher.components.calls import Calls
from launcher.jobfile import Compiled, Diagnostic, Environment, compile_files
from launcher.jobfile.compile.inputs import Folders
from launcher.jobfile.compile.one_file import compile_document
from launcher.jobfile.compile.one_job import Work
from launcher.jobfile.compile.project import Homes
from launcher.jobfile.compile.variables import Inputs
from launcher.jobfile.text.document import Source
from launcher.jobfile.text.parse import parse
from launcher.schedulers.registry import SchedulerRules
from launcher.specs import Launch

FOLDER = Path(__file__).resolve().parent
GOOD = sorted((FOLDER / "good").rglob("*.launcher.*"))
BAD = sorted(path for path in (FOLDER / "bad").rglob("*.launcher.*") if path.suffix != ".expect")
_EXPECT = re.compile(rb"^# expect: (\S+) (\S+)\r?$", re.MULTILINE)
SCHEDULERS = SchedulerRules()


class Found(NamedTuple):
    """A diagnostic in short: the file below the corpus, the code, `LINE:COLUMN` or `-`."""

    file: str
    code: str
    at: str


def name_of(path: Path) -> str:
    """Return the name of a file of the corpus: its path below the corpus."""
    return os.path.relpath(path, FOLDER).replace(os.sep, "/")


def compiled(path: Path, *, placeholders: bool = True) -> Compiled:
    """Return a file as `launcher validate` compiles it."""
    environment = Environment(schedulers=SCHEDULERS, rules=SCHEDULERS.problems, cwd=str(FOLDER), environ={})
    return compile_files(
        [name_of(path)], environment=environment, placeholders=placeholders, neighbours=placeholders
    )


def jobs_of(path: Path, source: Source) -> Sequence[Launch]:
    """Return the jobs of a text that must be right, as if it were the file at `path`."""
    home = Homes(str(FOLDER), is_asked=False, schedulers=SCHEDULERS).of(str(path.parent))
    inputs = Inputs({}, {}, placeholders=True)
    with Calls() as calls:
        work = Work(str(path), inputs, None, SCHEDULERS, home, Folders(False), SCHEDULERS.problems, calls)
        result = compile_document(parse(source), work)
    assert not [each for each in result.problems if each.severity == "error"], result.problems
    return result.launches


def expected(path: Path) -> list[Found]:
    """Return the diagnostics that a bad file lists, those of its own launcher.toml first."""
    config = path.with_name("launcher.toml")
    return [*(_said(config) if config.exists() else ()), *_said(path)]


def found(diagnostic: Diagnostic) -> Found:
    span = diagnostic.span
    return Found(diagnostic.file, diagnostic.code, f"{span.line}:{span.column}" if span else "-")


def _said(path: Path) -> list[Found]:
    beside = path.with_name(f"{path.name}.expect")
    data = (beside if beside.exists() else path).read_bytes()
    return [Found(name_of(path), code.decode(), at.decode()) for code, at in _EXPECT.findall(data)]
