"""stdout for data, stderr for messages, colours for terminals, quiet ends."""

import io
import os
import pty

import pytest

from launcher.cli.console import Console, OutputClosed, OutputError, terminal_width, visible
from launcher.errors import UsageError
from launcher.text import paint


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Full(io.StringIO):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def write(self, _text):
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize(("stream", "environ", "color"), [
    (Terminal, {}, True), (Terminal, {"NO_COLOR": "1"}, False), (Terminal, {"NO_COLOR": ""}, True),
    (Terminal, {"TERM": "dumb"}, False), (io.StringIO, {"FORCE_COLOR": "1"}, False),
])  # fmt: skip
def test_colours_are_for_terminals_and_no_color_is_obeyed(stream, environ, color):
    console = Console(stream(), stream(), environ)
    assert (console.color, console.err_color) == (color, color)


def test_data_goes_to_stdout_and_messages_go_to_stderr():
    console = Console(io.StringIO(), io.StringIO(), {})
    console.print("data")
    console.warn("careful")
    console.error(UsageError("wrong", hint="right"))
    assert console._out.getvalue() == "data\n"
    assert console._err.getvalue() == "warning: careful\nerror: wrong\nhint: right\n"


HOSTILE = "\x1b[2J\x1b]0;t\x07\x1b[31mred\x1b[0m\x9b5n\r\x7f\u202e"
SHOWN = r"\x1b[2J\x1b]0;t\x07\x1b[31mred\x1b[0m\u009b5n\x0d\u007f\u202e"


def test_control_characters_are_shown_escaped_on_both_streams():
    console = Console(io.StringIO(), io.StringIO(), {})
    console.print(HOSTILE + "\ttab")
    console.note(HOSTILE)
    console.warn(HOSTILE)
    console.error(UsageError(HOSTILE, hint=HOSTILE))
    assert console._out.getvalue() == f"{SHOWN}\ttab\n"
    assert console._err.getvalue() == f"{SHOWN}\nwarning: {SHOWN}\nerror: {SHOWN}\nhint: {SHOWN}\n"


@pytest.mark.parametrize(("text", "shown"), [
    (paint("a", "bold red") + "\x1b[2J", "\x1b[1;31ma\x1b[0m\\x1b[2J"), ("\x1b[8mhidden", "\\x1b[8mhidden"),
    ("\x1b[31;8mhidden", "\\x1b[31;8mhidden"), ("\x1b[mx\x1b[", "\\x1b[mx\\x1b["),
    ("\x1b[31mopen", "\x1b[31mopen\x1b[0m"), ("\x1b\x1b[0m", "\\x1b\x1b[0m"),
    ("naïve → ✔ 漢字 👩‍🚀", "naïve → ✔ 漢字 👩‍🚀"),
])  # fmt: skip
def test_a_terminal_gets_the_colours_of_launcher_and_no_other_control_sequence(text, shown):
    assert visible(text, color=True) == shown
    console = Console(Terminal(), Terminal(), {})
    console.print(text)
    console.note(text)
    assert (console._out.getvalue(), console._err.getvalue()) == (shown + "\n", shown + "\n")


def test_a_json_document_with_control_characters_stays_valid():
    from json import dumps, loads

    value = "".join(map(chr, range(0x2100))) + "\\\x9b"
    console = Console(io.StringIO(), io.StringIO(), {})
    console.print(dumps([value], ensure_ascii=False))
    assert loads(console._out.getvalue()) == [value]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_json_document_stays_valid_in_any_encoding(encoding):
    from json import dumps, loads

    value = "é → 😀"
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(stream, io.StringIO(), {})
    console.print(dumps([value], ensure_ascii=False), flush=True)
    assert loads(stream.buffer.getvalue().decode(encoding)) == [value]


def test_text_beside_a_document_goes_to_stderr():
    out, err = io.StringIO(), io.StringIO()
    aside = Console(out, err, {}).aside()
    aside.print("text")
    aside.note("message")
    assert (out.getvalue(), err.getvalue()) == ("", "text\nmessage\n")


def test_messages_give_no_command_to_a_github_runner():
    console = Console(io.StringIO(), io.StringIO(), {"GITHUB_ACTIONS": "true"})
    console.error(UsageError("a\n  ::add-mask::b ::c\nx ##[error]y"))
    assert console._err.getvalue() == "error: a\n  : :add-mask::b ::c\nx ## [error]y\n"


def test_a_file_is_copied_byte_for_byte_unless_a_terminal_shows_it():
    out = io.TextIOWrapper(io.BytesIO())
    Console(out, io.StringIO(), {}).data("a\f\x1b[2Jb\n")
    assert out.buffer.getvalue() == b"a\f\x1b[2Jb\n"
    terminal = Terminal()
    Console(terminal, io.StringIO(), {}).data("a\f\x1b[2Jb\n")
    assert terminal.getvalue() == "a\\x0c\\x1b[2Jb\n"


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


def test_the_width_is_the_width_of_the_terminal(monkeypatch):
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
