"""The output of commands: data to stdout, messages to stderr, colours only on a terminal.

The one place that writes text to a terminal. Job files, file names, engines and containers supply parts of
that text, so control characters are escaped here (`visible`); of escape sequences, only colours that `paint`
writes pass. The output of replicas is bytes: `copy` writes it unchanged, `terminal_text` escapes it.
"""

from __future__ import annotations

import os
import sys
from codecs import register_error

from launcher.errors import BlockedError, LauncherError
from launcher.text import RESET, STYLES, paint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

_OURS = frozenset({"0", *STYLES.values()})


def _escapes() -> dict[int, str]:
    """Map control characters, and characters that reorder or break a line, to escaped text.

    Characters above ASCII are escaped as in JSON, so that a JSON document stays valid.
    """
    ascii_ones = {code: f"\\x{code:02x}" for code in range(0x20) if chr(code) not in "\n\t"}
    bidirectional = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
    return ascii_ones | {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *bidirectional)}


_ESCAPES: dict[int, str] = {}  # filled when a text has characters to look up

_ESCAPED = "launcher-escaped"


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Escape characters that an encoding lacks like JSON; `backslashreplace` would write `\\xe9` for `é`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[n : n + 4]}" for n in range(0, len(units), 4)), error.end


register_error(_ESCAPED, _escape)


def visible(text: str, *, color: bool = False) -> str:
    """Return `text` safe for a terminal: newlines and tabs stay, other control characters are escaped.

    Args:
        color: whether to keep the escape sequences that `paint` writes.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    if not _ESCAPES:
        _ESCAPES.update(_escapes())
    if not color or "\x1b[" not in text:
        return text.translate(_ESCAPES)
    first, *others = text.split("\x1b[")
    shown, last = [first.translate(_ESCAPES)], "0"
    for other in others:
        codes, end, rest = other.partition("m")
        if end and _OURS.issuperset(codes.split(";")):
            shown.append(f"\x1b[{codes}m{rest.translate(_ESCAPES)}")
            last = codes
        else:
            shown.append(f"\\x1b[{other.translate(_ESCAPES)}")
    return "".join(shown) + ("" if last == "0" else RESET)


class OutputError(LauncherError):
    """Standard output cannot be written: a full disk, a closed descriptor."""


class OutputClosed(Exception):
    """The reader of standard output has exited (`launcher list | head -1`). Not an error."""


def defused(text: str) -> str:
    """Return `text` without workflow commands: text of a file or an engine must not control a GitHub runner.

    Source: actions/runner, ActionCommand.cs: `::name` at the start of a line, `##[name]` anywhere in it.
    """
    lines = text.replace("##[", "## [").split("\n")
    return "\n".join(
        line.replace("::", ": :", 1) if line.lstrip().startswith("::") else line for line in lines
    )


_kept: list[object] = []


class Console:
    """The two output streams and the terminal behind them.

    Attributes:
        color: whether to colour text on stdout; `err_color` likewise for stderr.
        as_json: whether the command prints JSON, so that its errors are JSON too.
    """

    __slots__ = ("_can_move", "_err", "_in_workflow", "_out", "_silent", "as_json", "color", "err_color")

    def __init__(
        self, out: TextIO | None = None, err: TextIO | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self._out = sys.stdout if out is None else out
        self._err = sys.stderr if err is None else err
        self._silent = False
        self.as_json = False
        env = os.environ if environ is None else environ
        self._in_workflow = env.get("GITHUB_ACTIONS") == "true"
        self._can_move = env.get("TERM", "dumb") != "dumb"
        plain = bool(env.get("NO_COLOR")) or env.get("TERM") == "dumb"
        self.color = not plain and _is_terminal(self._out)
        self.err_color = not plain and _is_terminal(self._err)
        for stream in (self._out, self._err):
            # Invalid UTF-8 in a name, or a locale without "→", must not raise.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors=_ESCAPED)

    def aside(self) -> Console:
        """Return a console that also writes data to stderr, for texts beside a JSON document."""
        other = Console(self._err, self._err)
        other._out, other._silent = self._err, self._err is None
        return other

    def keep(self, *values: object) -> None:
        """Keep values until the process ends: to free the plan of 10,000 jobs would take 60 ms."""
        _kept[:] = values

    @property
    def is_terminal(self) -> bool:
        """Whether stdout is a terminal."""
        return _is_terminal(self._out)

    @property
    def is_screen(self) -> bool:
        """Whether stdout is a terminal that moves its cursor, so that a live view can be drawn on it."""
        return self._can_move and _is_terminal(self._out)

    @property
    def err_is_screen(self) -> bool:
        return self._can_move and _is_terminal(self._err)

    def print(self, text: str = "", *, end: str = "\n", flush: bool = False) -> None:
        """Write data to stdout, control characters escaped.

        Raises OutputClosed when the reader has exited, OutputError when stdout cannot be written.
        """
        self._write(visible(text, color=self.color) + end, flush)

    def _write(self, data: str | bytes, flush: bool) -> None:
        if self._silent:
            return
        try:
            if self._out is None:
                from errno import EBADF

                raise OSError(EBADF, os.strerror(EBADF))
            if isinstance(data, str):
                self._out.write(data)
            else:
                self._out.buffer.write(data)
            if flush:
                self._out.flush()
        except OSError as error:
            raise self.broken(error) from error

    def json(self, value: object, *, ascii: bool = False) -> None:
        """Write a value as an indented JSON document. `ascii`: escape all other characters."""
        from json import dumps

        self.print(dumps(value, indent=2, ensure_ascii=ascii))

    def data(self, text: str) -> None:
        """Write the text of a file, such as source code: unchanged, but escaped on a terminal."""
        if self.is_terminal:
            self.print(text, end="")
        else:
            self.copy(text.encode(errors="surrogateescape"))

    def copy(self, data: bytes, *, flush: bool = False) -> None:
        """Write bytes to stdout unchanged. Raises as `print` does."""
        self._write(data, flush)

    def flush(self) -> None:
        try:
            if self._out is not None:
                self._out.flush()
        except OSError as error:
            raise self.broken(error) from error

    def broken(self, error: OSError) -> Exception:
        """Return the exception for a failed write to stdout, and discard further output."""
        self.silence()
        if isinstance(error, BrokenPipeError):
            return OutputClosed()
        return OutputError(f"cannot write the output: {error.strerror or error}")

    def silence(self) -> None:
        """Discard what is still buffered for stdout, and all further output."""
        stream, self._out, self._silent = self._out, None, True
        if stream is None or stream is not sys.stdout:
            return
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)

    def note(self, text: str = "") -> None:
        """Write a message to stderr; drop it if stderr cannot be written."""
        if self._err is None:
            return
        try:
            shown = visible(text, color=self.err_color)
            self._err.write((defused(shown) if self._in_workflow else shown) + "\n")
            self._err.flush()
        except OSError:
            self._err = None

    def note_in_place(self, text: str) -> None:
        """Write a message to the terminal on stderr without ending its line; the next one takes its place.

        "" removes the last one. The message is cut to one line.
        """
        if self._err is None:
            return
        shown = visible(text.replace("\n", " "))[: terminal_width(self._err) - 1]
        try:
            self._err.write(f"\r\x1b[K{shown}")
            self._err.flush()
        except OSError:
            self._err = None

    def warn(self, text: str) -> None:
        self.note(f"{paint('warning:', 'bold yellow', self.err_color)} {text}")

    def error(self, error: LauncherError) -> None:
        """Write `error: …`, and `hint: …` if the error has one."""
        self.note(f"{paint('error:', 'bold red', self.err_color)} {error}")
        if error.hint:
            self.note(f"{paint('hint:', 'bold cyan', self.err_color)} {error.hint}")

    @property
    def cannot_ask(self) -> str:
        """The sentence that names the stream without a terminal, for a question to the user; "" for none."""
        if not _is_terminal(sys.stdin):
            return "stdin is not a terminal"
        return "" if _is_terminal(self._err) else "stderr is not a terminal"

    def ask(self, question: str) -> bool:
        """Ask a yes-or-no question on stderr; only `y` and `yes` mean yes, the end of the input means no."""
        return self.answer(f"{question} [y/N]").lower() in ("y", "yes")

    def agree(self, question: str, *, doing: str, hint: str, otherwise: str) -> None:
        """Raise BlockedError unless the user says yes.

        Args:
            doing: the words that follow "cannot ask", where there is no terminal.
            hint: for this case.
            otherwise: the words that follow "not approved".
        """
        if self.cannot_ask:
            raise BlockedError(f"cannot ask {doing}: {self.cannot_ask}", hint=hint)
        if not self.ask(question):
            raise BlockedError(f"not approved; {otherwise}")

    def answer(self, question: str) -> str:
        """Ask for one line on stderr; "" at the end of the input."""
        self.flush()
        self._err.write(f"{paint(question, 'bold', self.err_color)} ")
        self._err.flush()
        line = sys.stdin.readline()
        if not line:
            self.note()
        return line.strip()

    @property
    def columns(self) -> int | None:
        """Columns of the terminal on stdout; None without a terminal, when lines may have any length."""
        return terminal_width(self._out) if _is_terminal(self._out) else None

    @property
    def err_columns(self) -> int | None:
        """Columns of the terminal on stderr; None without a terminal."""
        return terminal_width(self._err) if _is_terminal(self._err) else None

    def width(self) -> int:
        """Columns of the terminal on stdout or stderr; 80 without a terminal."""
        return terminal_width(self._out, self._err)


def write_text(path: str, text: str, *, errors: str = "strict", is_public: bool = False) -> None:
    """Write a file atomically, behind a link too; a pipe or a device as it is. Raises LauncherError.

    Args:
        errors, is_public: see `write_whole`.
    """
    from launcher.files import write_whole

    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "w", encoding="utf-8", errors=errors, newline="\n") as file:
                file.write(text)
        else:
            write_whole(os.path.realpath(path), text, errors=errors, is_public=is_public, tidies=True)
    except OSError as error:
        raise LauncherError(f"cannot write {path}: {error.strerror or error}") from error


def terminal_width(*streams: TextIO | None) -> int:
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    for stream in streams:
        if _is_terminal(stream):
            try:
                return os.get_terminal_size(stream.fileno()).columns or 80  # type: ignore[union-attr]
            except OSError:
                continue
    return 80


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False
