"""The table of files of other tools: each with the job file that it becomes, and the text on stderr.

`python -m tests.unit.convert.cases` writes the second and third part of each case anew.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "convert"
NAMES = {"sbatch": "{}.sbatch", "compose": "{}/compose.yaml", "procfile": "{}/Procfile"}
_HEAD = re.compile(r"^===== (?P<name>[\w-]+)\n", re.MULTILINE)
_LINE = "-----\n"


class Case(NamedTuple):
    kind: str
    name: str
    given: str
    job: str = ""
    report: str = ""

    @property
    def file(self) -> str:
        return NAMES[self.kind].format(self.name)

    def text(self) -> str:
        return f"===== {self.name}\n{self.given}{_LINE}{self.job}{_LINE}{self.report}"


def cases(kind: str) -> list[Case]:
    """Return the cases of a kind, in the order of their file."""
    pieces = _HEAD.split((FOLDER / f"{kind}.txt").read_text())[1:]
    found = zip(pieces[::2], pieces[1::2], strict=True)
    return [Case(kind, name, *text.split(_LINE)) for name, text in found]


def write(case: Case, folder: Path) -> Path:
    path = folder / case.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(case.given)
    return path


def _renewed(case: Case) -> Case:
    with tempfile.TemporaryDirectory() as folder:
        write(case, Path(folder))
        words = [sys.executable, "-m", "launcher", "convert", case.file]
        got = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=_ENV, check=False)
    return case._replace(job=got.stdout, report=got.stderr)


_ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}

if __name__ == "__main__":
    for kind in NAMES:
        renewed = [_renewed(case).text() for case in cases(kind)]
        (FOLDER / f"{kind}.txt").write_text("".join(renewed))
