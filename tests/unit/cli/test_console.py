"""stdout for data, stderr for messages, colours for terminals, quiet ends."""

from __future__ import annotations

import io
import os
import pty

import pytest

from launcher.cli.console import Console, OutputClosed, OutputError, paint, terminal_width
from launcher.errors import UsageError


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Full(io.StringIO):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def write(self, _text):
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize(
    ("stream", "environ", "color"),
    [
        (Terminal, {}, True),
        (Terminal, {"NO_COLOR": "1"}, False),
        (Terminal, {"NO_COLOR": ""}, True),
        (Terminal, {"TERM": "dumb"}, False),
        (io.StringIO, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colours_are_for_terminals_and_no_color_is_obeyed(stream, environ, color):
    console = Console(stream(), stream(), environ)
    assert (console.color, console.err_color) == (color, color)


def test_data_and_messages_go_apart():
    console = Console(io.StringIO(), io.StringIO(), {})
    console.print("data")
    console.warn("careful")
    console.error(UsageError("wrong", hint="right"))
    assert console._out.getvalue() == "data\n"
    assert console._err.getvalue() == "warning: careful\nerror: wrong\nhint: right\n"


def test_a_reader_that_has_gone_is_no_error():
    console = Console(Full(32), io.StringIO(), {})
    with pytest.raises(OutputClosed):
        console.print("x")


def test_a_full_disk_is_an_error_that_says_so():
    console = Console(Full(28), io.StringIO(), {})
    with pytest.raises(OutputError, match="No space left"):
        console.print("x")


def test_a_message_that_cannot_be_written_is_dropped():
    Console(io.StringIO(), Full(32), {}).note("nobody listens")


def test_paint_leaves_text_alone_without_colours():
    assert paint("x", "bold red", color=False) == "x"
    assert paint("x", "bold red") == "\x1b[1;31mx\x1b[0m"


def test_the_width_is_that_of_the_terminal(monkeypatch):
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 117, 0, 0))
    with open(theirs, "w") as stream:
        assert terminal_width(stream) == 117
        monkeypatch.setenv("COLUMNS", "60")
        assert terminal_width(stream) == 60
    os.close(ours)
    monkeypatch.delenv("COLUMNS")
    assert terminal_width(io.StringIO()) == 80
