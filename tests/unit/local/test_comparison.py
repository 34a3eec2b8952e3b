"""The processes that read files for the apps of one holder."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from launcher.schedulers.local.comparison import Readers
from launcher.schedulers.loop import Loop
from launcher.workspace.context import content_digest

if TYPE_CHECKING:
    from launcher.schedulers.local.comparison import Answer

LARGE = 64 << 30
"""Bytes of a file without blocks that nothing reads within a test."""


class Asking:
    """Requests to readers, by the name of the workspace; each has one answer."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.loop = folder, Loop()
        self.readers = Readers(self.loop, most=2, linger_s=60.0)
        self.answers: list[tuple[str, Answer]] = []
        self.pids: set[int] = set()

    def ask(self, name: str) -> None:
        """Ask whether a workspace of two bytes has changed since its planning."""
        file = self.folder / name / "file"
        file.parent.mkdir(exist_ok=True)
        file.write_text("1\n")
        request = ["", content_digest(str(file.parent)), str(file.parent), ""]
        if name == "large":
            os.truncate(file, LARGE)
        env = [f"LAUNCHER_HOME={self.folder}"]
        self.readers.ask(env, request, lambda answer: self.answers.append((name, answer)))

    def until(self, number: int) -> list[tuple[str, Answer]]:
        """Turn the loop until there are so many answers; return them."""
        while len(self.answers) < number:
            self.loop.turn()
            self.pids |= self.living()
        return self.answers

    def living(self) -> set[int]:
        command = ["pgrep", "-P", str(os.getpid()), "-f", "comparison.*main"]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
        return {*map(int, found)}


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Asking]:
    made = Asking(tmp_path)
    yield made
    made.readers.kill()
    for pid in made.pids:
        os.waitpid(pid, 0)


def test_a_reader_answers_one_request_after_the_other(asking: Asking) -> None:
    names = [f"small{n}" for n in range(10)]
    for name in names:
        asking.ask(name)
    assert sorted(asking.until(10)) == [(name, ("", "")) for name in names]
    assert 1 <= len(asking.pids) <= 2
    asking.ask("later")
    assert asking.until(11)[-1] == ("later", ("", ""))
    assert len(asking.pids) <= 2


def test_a_request_that_takes_long_delays_no_other_one(asking: Asking) -> None:
    asking.ask("large")
    asking.loop.turn()
    for name in ("first", "second"):
        asking.ask(name)
    assert sorted(asking.until(2)) == [("first", ("", "")), ("second", ("", ""))]


def test_a_request_of_a_reader_that_dies_has_no_answer_and_the_next_one_has(asking: Asking) -> None:
    asking.ask("large")
    asking.loop.turn()
    asking.pids |= asking.living()
    for pid in asking.pids:
        os.kill(pid, signal.SIGKILL)
    assert asking.until(1) == [("large", None)]
    asking.ask("later")
    assert asking.until(2)[-1] == ("later", ("", ""))


def test_another_reader_answers_the_request_of_one_that_was_killed_without_work(asking: Asking) -> None:
    asking.ask("first")
    asking.until(1)
    for pid in asking.pids:
        os.kill(pid, signal.SIGKILL)
    asking.ask("second")
    assert asking.until(2)[-1] == ("second", ("", ""))
