"""Commands on a terminal of their own: what they show there, and what a user types."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.scenario import Scenario

CONTROLLED = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execv(sys.executable, [sys.executable, '-m', 'launcher', *sys.argv[1:]])"
)
"""Python text: `launcher`, with its standard input as the controlling terminal, so that Ctrl-C reaches it."""


class OnTerminal:
    """A command that runs on a terminal.

    Args:
        command: the whole command line.
        size: rows and columns of the terminal.
        popen: other streams in place of the terminal.

    Attributes:
        shown: the bytes that the terminal has got so far.
    """

    def __init__(
        self, scenario: Scenario, command: list[str], *, size: tuple[int, int] | None = None, **popen: Any
    ) -> None:
        self._ours, theirs = pty.openpty()
        if size is not None:
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
        self.process = scenario.spawn(command, **{**streams, **popen})
        os.close(theirs)
        self.shown = b""

    def read(self) -> bytes:
        """Wait for further text, and return it; b"" when the command has closed the terminal."""
        try:
            text = os.read(self._ours, 4096)
        except OSError:  # how Linux reports that the other end is closed
            text = b""
        self.shown += text
        return text

    def until(self, pattern: bytes) -> None:
        """Read until the text has a match. Fails when the command closes the terminal before."""
        while not re.search(pattern, self.shown):
            assert self.read(), self.shown

    def type(self, text: bytes) -> None:
        os.write(self._ours, text)

    def end(self, code: int | None = 0) -> str:
        """Read until the command ends; return all that it has shown. Fails for another exit code."""
        while self.read():
            pass
        os.close(self._ours)
        got = self.process.wait()
        assert code is None or got == code, self.shown
        return self.shown.decode()


def launcher(scenario: Scenario, *argv: object, is_controlling: bool = False, **options: Any) -> OnTerminal:
    """Start `launcher ARGV` on a terminal. `options`: as of `OnTerminal`."""
    start = ["-c", CONTROLLED] if is_controlling else ["-m", "launcher"]
    return OnTerminal(scenario, [sys.executable, *start, *map(str, argv)], **options)
