"""Write docs/picture.svg, a plan and an apply in a terminal, and docs/top.svg, the screen of `top`.

`scripts/picture` runs real commands in a pseudo-terminal and draws what is on the screen afterwards. Nothing
in the first picture depends on the machine, the user or the time: a test compares its text with another run.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from itertools import groupby
from pathlib import Path

import pyte
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "picture.svg"
COLUMNS, LINES = 86, 60

JOB = """\
version: 1
name: {name}

roles:
  main:
    entrypoint: python3
    args: [{name}.py, {args}]
"""
FILES = {
    "jobs/launcher.toml": 'project = "vision"\n',
    "jobs/prepare.py": "",
    "jobs/train.py": "",
    "jobs/evaluate.py": "raise SystemExit(1)\n",
    "jobs/prepare.launcher.yaml": JOB.format(name="prepare", args="--size, 64"),
    "jobs/train.launcher.yaml": JOB.format(name="train", args="--lr, 0.1"),
    "jobs/evaluate.launcher.yaml": JOB.format(name="evaluate", args="--split, test"),
}
BEFORE = "launcher apply jobs --yes --wait"
"""What ran before the picture: two jobs succeeded, one failed."""
CHANGED = {"jobs/train.launcher.yaml": JOB.format(name="train", args="--lr, 0.03")}
"""What was edited after that."""
SHOWN = ("launcher plan jobs", "launcher apply jobs --yes --wait", "launcher plan jobs")

TOP = ROOT / "docs" / "top.svg"
TOP_COLUMNS, TOP_LINES = 100, 30
TOP_JOB = """\
version: 1
name: {name}
{more}
roles:
  main:
    entrypoint: sh
    args: [-c, {script}]
    resource: {{cpu: 1, memory: 1GiB}}
"""


def top_job(name: str, script: str, more: str = "", *, retries: int = 0) -> str:
    text = TOP_JOB.format(name=name, more=more, script=json.dumps(script))
    return text + (f"    max_retries: {retries}\n" if retries else "")


LONG = "echo step 1; exec sleep 1000"
TOP_FILES = {
    "launcher.toml": 'project = "vision"\n\n[queue]\ncpu = 2\n',
    "prepare.launcher.yaml": top_job("prepare", "echo done"),
    "score.launcher.yaml": top_job("score", "python3 -c 'import torch_geometric'"),
    "train.launcher.yaml": top_job("train", LONG),
    "tune.launcher.yaml": top_job(
        "tune", "test -e seen || { touch seen; exit 1; }; exec sleep 99", retries=3
    ),
    "distil.launcher.yaml": top_job("distil", LONG),
    "report.launcher.yaml": top_job("report", LONG, "needs: [train]"),
}
TOP_ORDER = ("prepare", "score", "train", "tune", "distil", "report")
SHOWN_BEFORE_KEYS = ("restart 1 of 3", "1st in line", "waits for train", "score@1")
TOP_KEYS = b"\x1b[B" * 4
"""Down to the job that has failed."""
SHOWN_AFTER_KEYS = ("score  FAILED", "main/0")

DARK = TerminalTheme(
    (24, 26, 31),
    (212, 215, 221),
    [
        (70, 75, 86),
        (240, 113, 120),
        (126, 211, 133),
        (235, 203, 114),
        (122, 170, 250),
        (200, 146, 234),
        (98, 205, 205),
        (212, 215, 221),
    ],
    [
        (131, 138, 151),  # faint text
        (240, 113, 120),
        (126, 211, 133),
        (235, 203, 114),
        (122, 170, 250),
        (200, 146, 234),
        (98, 205, 205),
        (255, 255, 255),
    ],
)
"""Colours with enough contrast on the picture's own dark background, for light and dark pages."""

SVG = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
.{unique_id}-title {{ display: none; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def picture() -> str:
    """The SVG of the commands that are shown, run now."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    with example() as (folder, environ):
        write(folder, FILES)
        subprocess.run(BEFORE.split(), cwd=folder, env=environ, capture_output=True, check=False)
        write(folder, CHANGED)
        for command in SHOWN:
            stream.feed(b"\x1b[36m$\x1b[0m \x1b[1m" + command.encode() + b"\x1b[0m\r\n")
            # The emulator does not know faint text, which is drawn as bright black.
            stream.feed(output(command, folder, environ).replace(b"\x1b[2m", b"\x1b[90m") + b"\r\n")
    console = Console(record=True, width=COLUMNS, file=StringIO(), legacy_windows=False)
    for number in range(screen.cursor.y - 1):
        console.print(line(screen, number), soft_wrap=True)
    return console.export_svg(title="", theme=DARK, code_format=SVG, unique_id="picture")


def picture_of_top() -> str:
    """The SVG of the screen of `launcher top`, run now: some jobs run and wait, one has failed."""
    screen = pyte.Screen(TOP_COLUMNS, TOP_LINES)
    with example() as (folder, environ):
        write(folder, TOP_FILES)
        for name in TOP_ORDER:
            wait = ["--wait"] if name in TOP_ORDER[:2] else []
            words = ["launcher", "apply", f"{name}.launcher.yaml", "--yes", *wait]
            subprocess.run(words, cwd=folder, env=environ, capture_output=True, check=False)
        try:
            show_top(screen, folder, environ)
        finally:
            words = ["launcher", "cancel", "*", "--yes"]
            subprocess.run(words, cwd=folder, env=environ, capture_output=True, check=False)
    console = Console(record=True, width=TOP_COLUMNS, file=StringIO(), legacy_windows=False)
    for number in range(TOP_LINES):
        console.print(line(screen, number), soft_wrap=True)
    return console.export_svg(title="", theme=DARK, code_format=SVG, unique_id="top")


def show_top(screen: pyte.Screen, folder: Path, environ: Mapping[str, str]) -> None:
    """Run `launcher top` until it shows what it should, press keys, and leave what is then on the screen."""
    stream = pyte.ByteStream(screen)
    process, ours = started("launcher top", folder, environ, TOP_COLUMNS, TOP_LINES)

    def until(words: tuple[str, ...]) -> None:
        while not all(word in "\n".join(screen.display) for word in words):
            # The emulator knows neither faint text nor the keyboard protocol that is asked for.
            found = read(ours)
            if not found:
                raise SystemExit("launcher top has ended:\n" + "\n".join(screen.display))
            shown = re.sub(rb"\x1b\[[<>=?][0-9;]*u", b"", found)
            stream.feed(re.sub(rb"\x1b\[2m", b"\x1b[90m", shown))

    until(SHOWN_BEFORE_KEYS)
    os.write(ours, TOP_KEYS)
    until(SHOWN_AFTER_KEYS)
    os.write(ours, b"q")
    while read(ours):
        pass
    process.wait()
    os.close(ours)


@contextmanager
def example() -> Iterator[tuple[Path, Mapping[str, str]]]:
    """An empty repository, and an environment with a state folder of its own; both go afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        folder, programs = Path(made, "repository"), Path(made, "bin")
        folder.mkdir()
        programs.mkdir()
        (programs / "launcher").write_text(f'#!/bin/sh\nexec {sys.executable} -m launcher "$@"\n')
        (programs / "launcher").chmod(0o755)
        (programs / "python3").symlink_to(sys.executable)
        environ = {
            "HOME": made,
            "LAUNCHER_HOME": f"{made}/state",
            "PATH": f"{programs}:/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }
        # The digest of a plan covers the repository, by the address of its remote.
        for words in ("init -q", "remote add origin https://example.com/vision/jobs"):
            subprocess.run(["git", *words.split()], cwd=folder, env=environ, check=True)
        yield folder, environ


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def output(command: str, folder: Path, environ: Mapping[str, str]) -> bytes:
    """What a command writes to a terminal of fixed size."""
    process, ours = started(command, folder, environ, COLUMNS, LINES)
    shown = b""
    while chunk := read(ours):
        shown += chunk
    os.close(ours)
    process.wait()
    return shown


def started(
    command: str, folder: Path, environ: Mapping[str, str], columns: int, lines: int
) -> tuple[subprocess.Popen[bytes], int]:
    """A command that runs in a terminal of its own, and our end of that."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(
        command.split(),
        cwd=folder,
        env=environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    return process, ours


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # how Linux reports that the other end is closed
        return b""


def line(screen: pyte.Screen, number: int) -> Text:
    """A line of the screen, one span for each run of cells that look the same.

    Spaces around a run are spans of their own, which are not drawn: some programs drop them from a text.
    """
    cells = [screen.buffer[number][column] for column in range(screen.columns)]
    text = Text()
    for (color, bold, reverse), run in groupby(cells, lambda cell: (cell.fg, cell.bold, cell.reverse)):
        is_mixed = re.fullmatch("[0-9a-f]{6}", color) is not None
        name = f"#{color}" if is_mixed else color.replace("bright", "bright_").replace("brown", "yellow")
        style = Style(color=name, bold=bold, reverse=reverse)
        words = "".join(cell.data for cell in run)
        for part in re.split(r"(^ +| +$)", words):
            text.append(part, None if part.isspace() and not reverse else style)
    text.rstrip()
    return text


if __name__ == "__main__":
    for path, draw in ((PICTURE, picture), (TOP, picture_of_top)):
        path.write_text(draw())
        print(path.relative_to(ROOT))
