"""Snippets of a Markdown page as one story: files are written, commands run, messages seen."""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

Block = tuple[str, str]
"""(language, text)"""

_NAMED = re.compile(r"# ([\w./-]+\.\w+|[\w./-]*Dockerfile)$")


def blocks(markdown: str) -> list[Block]:
    """Return the fenced blocks of a page, in their order."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", markdown, re.M | re.S)


def sections(markdown: str) -> dict[str, str]:
    """Return the parts of a page below each heading of the second level, by heading."""
    return dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", markdown, re.M | re.S))


def shell(line: str, *, code: int = 0) -> str:
    """Run a command; return its output. Fails when it exits with anything but `code`."""
    got = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert got.returncode == code, f"{line}\n{got.stdout}{got.stderr}"
    return got.stdout + got.stderr


def line_of(text: str) -> str:
    """Run one line of a block; `# exits N` behind it is the exit code that is meant."""
    command, _, comment = text.partition("  #")
    return shell(command, code=int(comment.removeprefix(" exits ")) if "exits" in comment else 0)


def tell(story: Sequence[Block]) -> None:
    """Act out the blocks in the current folder.

    A first line `# NAME` makes a block the file of that name; other Python is run; each line of `sh` is run,
    and `text` behind it was among what it said.
    """
    output = ""
    for kind, text in story:
        named = _NAMED.match(text.splitlines()[0])
        if named:
            Path(named[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(named[1]).write_text(text)
        elif kind == "sh":
            output = "".join(line_of(line) for line in text.splitlines())
        elif kind == "python":
            subprocess.run([sys.executable, "-c", text], check=True)
        else:
            assert kind == "text", f"a block of {kind} that nothing is done with"
            assert text in output, output
